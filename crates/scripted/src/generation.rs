//! One completion, by the schedule and with the fault that strikes it.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::{Connection, Gone, LAST_CHUNK, page_head, push_chunk, stream_head};
use crate::fault::{Fault, Page};
use crate::openai::{Api, Asked, Counts, Events, STREAM_ERROR};
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

/// How a reply ends after its last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// As it should.
    Finish,
    /// With an error object.
    Error,
    /// In good HTTP order, without a finish.
    Truncated,
    Closed,
    Reset,
    Stalled,
}

/// What one reply is to be.
struct Course {
    counts: Counts,
    reason: &'static str,
    end: End,
    /// Without waiting for the TTFT.
    at_once: bool,
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
    /// Serves it to its end. Streamed or not, the time it takes is the same.
    pub async fn serve(mut self, connection: &mut Connection, fault: Option<&Fault>) -> Result<After, Gone> {
        let Some(course) = self.course(fault) else {
            return Err(connection.gone().await);
        };
        let Counts { prompt, output } = course.counts;
        self.flight.update(|served| {
            served.prompt_tokens = prompt;
            served.output_tokens = output;
        });
        self.ledger.status(200);
        let events = Events::new(self.script, self.api, self.asked, self.number, self.model);
        let streams = self.asked.stream;

        let mut out = Vec::new();
        if streams {
            let cache = "cache-control: no-cache\r\n";
            out.extend_from_slice(stream_head("200 OK", events.stream_type(), cache).as_bytes());
            if let Some(role) = events.role(prompt) {
                push_chunk(&mut out, &events.wire(&role));
            }
            if self.script.role_first {
                connection.send(&out).await?;
                out.clear();
            }
        }
        let (start, permit) = self.turn(connection).await?;
        let mut due = start;
        if !course.at_once {
            due += (self.script.ttft)(self.ledger.in_flight());
        }
        let mut sent = 0;
        while sent < output {
            connection.until_instant(due).await?;
            let to = self.chunk_end(sent, &events).min(output);
            if streams {
                push_chunk(&mut out, &events.wire(&events.tokens(sent, to, prompt)));
                let now = Instant::now();
                self.flight
                    .update(|served| served.tokens.extend((sent..to).map(|_| now)));
            }
            sent = to;
            if sent == output && course.end == End::Finish {
                // The last token of a reply that ends well shares its write with the end.
                break;
            }
            connection.send(&out).await?;
            out.clear();
            due += (self.script.itl)(self.ledger.in_flight());
        }
        connection.until_instant(due).await?;

        let after = if streams {
            end_stream(&mut out, &events, &course)
        } else {
            end_whole(&mut out, &events, &course)
        };
        if course.end == End::Stalled {
            connection.send(&out).await?;
            return Err(connection.gone().await);
        }
        drop(permit);
        self.flight.leave();
        connection.send(&out).await?;
        Ok(after)
    }

    /// What the reply is to be; none where there is to be no reply.
    fn course(&self, fault: Option<&Fault>) -> Option<Course> {
        let prompt = self.asked.prompt_tokens;
        let (output, reason) = self.script.output(self.number, &self.asked.limits);
        let whole = Course {
            counts: Counts { prompt, output },
            reason,
            end: End::Finish,
            at_once: false,
        };
        let cut = |after_tokens: u32, end| {
            let output = output.min(after_tokens);
            Some(Course {
                counts: Counts { prompt, output },
                reason,
                end,
                at_once: false,
            })
        };
        match fault {
            // A status or a page is sent before admission and never gets here.
            None | Some(Fault::Status(_) | Fault::Page(_)) => Some(whole),
            Some(Fault::NeverAnswers) => None,
            Some(Fault::Empty) => Some(Course {
                counts: Counts { prompt, output: 0 },
                reason: "stop",
                at_once: true,
                ..whole
            }),
            Some(Fault::StreamError { after_tokens }) => cut(*after_tokens, End::Error),
            Some(Fault::Truncated { after_tokens }) => cut(*after_tokens, End::Truncated),
            Some(Fault::Closed { after_tokens }) => cut(*after_tokens, End::Closed),
            Some(Fault::Reset { after_tokens }) => cut(*after_tokens, End::Reset),
            Some(Fault::Stalled { after_tokens }) => cut(*after_tokens, End::Stalled),
        }
    }

    /// Waits for a slot, then marks the start of the request's time.
    async fn turn(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(Instant, Option<OwnedSemaphorePermit>), Gone> {
        let permit = match self.slots {
            // The semaphore is never closed, so an acquired permit is always there.
            Some(slots) => connection.until(Arc::clone(slots).acquire_owned()).await?.ok(),
            None => None,
        };
        let mut start = Instant::now();
        let queues = self.slots.is_some();
        self.flight.update(|served| {
            // Without slots the time runs from the last byte read, not from this task's own delay.
            if !queues {
                start = served.arrived;
            }
            served.started = Some(start);
        });
        Ok((start, permit))
    }

    /// The token after the last of the chunk that begins with token `from`.
    fn chunk_end(&self, from: u32, events: &Events) -> u32 {
        let to = from.saturating_add(self.script.tokens_per_chunk);
        if from < events.reasoning_tokens {
            to.min(events.reasoning_tokens)
        } else {
            to
        }
    }
}

/// What follows the last token of a stream.
fn end_stream(out: &mut Vec<u8>, events: &Events, course: &Course) -> After {
    match course.end {
        End::Finish => push_chunk(out, &events.wire(&events.finish(course.reason, course.counts))),
        End::Error => push_chunk(out, &events.error()),
        End::Truncated => {}
        End::Closed => return After::Close,
        End::Reset => return After::Reset,
        End::Stalled => return After::KeepAlive,
    }
    out.extend_from_slice(LAST_CHUNK);
    After::KeepAlive
}

/// The whole of an answer without streaming.
fn end_whole(out: &mut Vec<u8>, events: &Events, course: &Course) -> After {
    let body = match course.end {
        End::Error => STREAM_ERROR.to_owned(),
        _ => events.body(course.reason, course.counts),
    };
    let page = Page::json(200, body);
    let (head, body) = (page_head(&page), page.body);
    let (sent, after) = match course.end {
        End::Finish | End::Error => (body.len(), After::KeepAlive),
        End::Truncated => (body.len() / 2, After::Close),
        End::Closed => return After::Close,
        End::Reset => return After::Reset,
        End::Stalled => return After::KeepAlive,
    };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&body[..sent]);
    after
}
