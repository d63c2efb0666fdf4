//! One completion, by the schedule and with the fault that strikes it.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::connection::{Connection, Gone, LAST_CHUNK, page_head, push_chunk, stream_head};
use crate::fault::{Fault, Page};
use crate::openai::{Api, Asked, Counts, DONE, Events, STREAM_ERROR};
use crate::script::Script;
use crate::seen::{InFlight, Ledger};

/// What becomes of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    KeepAlive,
    /// FIN.
    Close,
    /// RST.
    Reset,
}

/// How the tokens end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finish,
    Error,
    /// In good HTTP order, without a finish.
    Truncated,
    Closed,
    Reset,
    Stalled,
}

/// One admitted completion.
pub(crate) struct Generation<'a> {
    pub script: &'a Script,
    pub ledger: &'a Ledger,
    pub slots: Option<&'a Arc<Semaphore>>,
    pub api: Api,
    pub asked: &'a Asked,
    pub model: &'a str,
    pub number: u64,
    pub flight: InFlight,
}

impl Generation<'_> {
    /// Serves it to its end.
    pub async fn serve(mut self, connection: &mut Connection, fault: Option<&Fault>) -> Result<After, Gone> {
        let (mut tokens, mut reason) = self.script.output(self.number, &self.asked.limits);
        let mut end = End::Finish;
        let mut at_once = false;
        let (end_at, after_tokens) = match fault {
            None => (None, 0),
            Some(Fault::NeverAnswers) => return Err(connection.gone().await),
            Some(Fault::Empty) => {
                (tokens, reason, at_once) = (0, "stop", true);
                (None, 0)
            }
            Some(Fault::StreamError { after_tokens }) => (Some(End::Error), *after_tokens),
            Some(Fault::Truncated { after_tokens }) => (Some(End::Truncated), *after_tokens),
            Some(Fault::Closed { after_tokens }) => (Some(End::Closed), *after_tokens),
            Some(Fault::Reset { after_tokens }) => (Some(End::Reset), *after_tokens),
            Some(Fault::Stalled { after_tokens }) => (Some(End::Stalled), *after_tokens),
            // These two never get here: they are answered before admission.
            Some(Fault::Status(_) | Fault::Page(_)) => (None, 0),
        };
        if let Some(at) = end_at {
            end = at;
            tokens = tokens.min(after_tokens);
        }
        let prompt = self.asked.prompt_tokens;
        self.flight.update(|served| {
            served.prompt_tokens = prompt;
            served.output_tokens = tokens;
        });
        let events = Events::new(self.script, self.api, self.asked, self.number, self.model);
        let counts = Counts {
            prompt,
            output: tokens,
        };
        self.ledger.status(200);
        if self.asked.stream {
            self.stream(connection, &events, counts, reason, end, at_once)
                .await
        } else {
            self.whole(connection, &events, counts, reason, end, at_once)
                .await
        }
    }

    /// Waits for a slot, then marks the start of the request's time.
    async fn turn(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(Instant, Option<tokio::sync::OwnedSemaphorePermit>), Gone> {
        let permit = match self.slots {
            // The semaphore is never closed, so an acquired permit is always there.
            Some(slots) => connection.until(Arc::clone(slots).acquire_owned()).await?.ok(),
            None => None,
        };
        let now = Instant::now();
        let mut start = now;
        let waited = self.slots.is_some();
        self.flight.update(|served| {
            // Without slots the time runs from the last byte read, not from this task's own delay.
            start = if waited { now } else { served.arrived };
            served.started = Some(start);
        });
        Ok((start, permit))
    }

    async fn stream(
        mut self,
        connection: &mut Connection,
        events: &Events,
        counts: Counts,
        reason: &str,
        end: End,
        at_once: bool,
    ) -> Result<After, Gone> {
        let mut out = stream_head(
            "200 OK",
            "text/event-stream; charset=utf-8",
            "cache-control: no-cache\r\n",
        )
        .into_bytes();
        if let Some(role) = events.role() {
            push_chunk(&mut out, role.as_bytes());
        }
        if self.script.role_first {
            connection.send(&out).await?;
            out.clear();
        }
        let (start, permit) = self.turn(connection).await?;
        let mut due = start;
        if !at_once {
            due += (self.script.ttft)(self.ledger.in_flight());
        }
        let mut sent = 0;
        while sent < counts.output {
            connection.until_instant(due).await?;
            let mut to = sent
                .saturating_add(self.script.tokens_per_chunk)
                .min(counts.output);
            if sent < events.reasoning_tokens {
                to = to.min(events.reasoning_tokens);
            }
            push_chunk(&mut out, events.tokens(sent, to, counts.prompt).as_bytes());
            let now = Instant::now();
            self.flight
                .update(|served| served.tokens.extend((sent..to).map(|_| now)));
            sent = to;
            // The last token of a reply that ends well shares its write with the end.
            if sent < counts.output || end != End::Finish {
                connection.send(&out).await?;
                out.clear();
            }
            if sent < counts.output || end != End::Finish {
                due += (self.script.itl)(self.ledger.in_flight());
            }
        }
        connection.until_instant(due).await?;
        let after = match end {
            End::Finish => {
                push_chunk(&mut out, events.finish(reason, counts).as_bytes());
                out.extend_from_slice(LAST_CHUNK);
                After::KeepAlive
            }
            End::Error => {
                push_chunk(&mut out, format!("data: {STREAM_ERROR}\n\n{DONE}").as_bytes());
                out.extend_from_slice(LAST_CHUNK);
                After::KeepAlive
            }
            End::Truncated => {
                out.extend_from_slice(LAST_CHUNK);
                After::KeepAlive
            }
            End::Closed => After::Close,
            End::Reset => After::Reset,
            End::Stalled => {
                connection.send(&out).await?;
                return Err(connection.gone().await);
            }
        };
        drop(permit);
        self.flight.leave();
        connection.send(&out).await?;
        Ok(after)
    }

    async fn whole(
        mut self,
        connection: &mut Connection,
        events: &Events,
        counts: Counts,
        reason: &str,
        end: End,
        at_once: bool,
    ) -> Result<After, Gone> {
        let (start, permit) = self.turn(connection).await?;
        let mut due = start;
        if !at_once {
            due += (self.script.ttft)(self.ledger.in_flight());
            // The chunk boundaries of the stream, so that both ways take the same time.
            let chunks = counts.output.div_ceil(self.script.tokens_per_chunk);
            for _ in 1..chunks {
                connection.until_instant(due).await?;
                due += (self.script.itl)(self.ledger.in_flight());
            }
        }
        connection.until_instant(due).await?;
        let page = Page::json(
            200,
            if end == End::Error {
                STREAM_ERROR.to_owned()
            } else {
                events.body(reason, counts)
            },
        );
        let mut out = page_head(&page).into_bytes();
        let (body, after) = match end {
            End::Finish | End::Error => (&page.body[..], After::KeepAlive),
            End::Truncated => (&page.body[..page.body.len() / 2], After::Close),
            End::Closed => (&[][..], After::Close),
            End::Reset => (&[][..], After::Reset),
            End::Stalled => return Err(connection.gone().await),
        };
        match end {
            // Nothing at all is sent before these.
            End::Closed | End::Reset => out.clear(),
            _ => out.extend_from_slice(body),
        }
        drop(permit);
        self.flight.leave();
        connection.send(&out).await?;
        Ok(after)
    }
}
