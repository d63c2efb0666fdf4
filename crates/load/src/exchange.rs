//! One exchange: a request goes out on a connection, its reply comes in.
//!
//! Connection and body are polled in the same task, so that a chunk costs one wake-up, and every chunk is stamped
//! with the read that brought it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use plimsoll_run::request::FailureClass;
use tokio::time::Sleep;

use crate::connect::{Drive, Wire};
use crate::flight::{Ending, Flight, Tail};
use crate::inflate::Inflate;
use crate::stamped::WireClock;

/// How long an exchange may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Longest time for the whole exchange.
    pub whole: Duration,
    /// Longest time until the first byte of the body, no longer than the whole.
    pub first: Duration,
    /// Longest time between two reads of the body.
    pub idle: Duration,
}

/// How long a stream that has said its last word may hold the connection open before we close it. A client that
/// waited for ever would hang on servers that forget to end the body.
fn grace(tail: Tail) -> Option<Duration> {
    match tail {
        Tail::Open => None,
        Tail::Finished => Some(Duration::from_secs(2)),
        Tail::Counted => Some(Duration::from_millis(250)),
        Tail::Done => Some(Duration::from_millis(50)),
    }
}

/// Sends the request and takes in the reply. `after_send` runs once, right after the request was written: work that
/// can wait until then does not delay it.
///
/// `counted` is told the number of data events so far whenever it has grown.
///
/// The connection can be used again when the ending is [`Ending::Complete`] and it says it is ready.
pub(crate) async fn exchange(
    wire: &mut Wire,
    request: Request<Full<Bytes>>,
    flight: &mut Flight,
    patience: Patience,
    after_send: impl FnOnce(),
    counted: impl FnMut(u64),
) -> Ending {
    let began = Instant::now();
    let until = began + patience.whole;
    let until_first = began + patience.first.min(patience.whole);
    let mut timer = pin!(tokio::time::sleep_until(until_first.into()));
    let Wire {
        send,
        drive,
        clock,
        http2,
        replies,
    } = wire;
    clock.arm();

    let mut answer = pin!(send.request(request));
    let mut after_send = Some(after_send);
    let answered = poll_fn(|cx| {
        drive.poll(cx);
        if let Some(at) = clock.first_write() {
            flight.record.sent = flight.since(at);
        }
        if let Some(after_send) = after_send.take() {
            after_send();
        }
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await;

    let (body, inflate) = match answered {
        Some(Ok(response)) => {
            let (mut head, body) = response.into_parts();
            let inflate = Inflate::take(&mut head.headers);
            flight.headers(head, clock.last_read());
            (body, inflate)
        }
        Some(Err(error)) if *http2 && *replies == 0 => {
            let (class, message) = before_headers(&error, clock);
            let hint = "if the server does not speak HTTP/2 without TLS, leave out --http2";
            return Ending::Failed(class, format!("{message} ({hint})"));
        }
        Some(Err(error)) => {
            let (class, message) = before_headers(&error, clock);
            return Ending::Failed(class, message);
        }
        None => return overdue(patience.first.min(patience.whole)),
    };
    let incoming = TakeIn {
        body,
        inflate,
        drive,
        clock,
        patience,
        until,
        until_first,
    };
    incoming.run(flight, timer, counted).await
}

/// The coming in of a reply's body.
struct TakeIn<'a> {
    body: Incoming,
    /// For a server that compresses unasked.
    inflate: Option<Inflate>,
    drive: &'a mut Drive,
    clock: &'a WireClock,
    patience: Patience,
    until: Instant,
    until_first: Instant,
}

impl TakeIn<'_> {
    async fn run(
        mut self,
        flight: &mut Flight,
        mut timer: Pin<&mut Sleep>,
        mut counted: impl FnMut(u64),
    ) -> Ending {
        let mut tail = Tail::Open;
        let mut events = 0;
        poll_fn(|cx| {
            if let Poll::Ready(ending) = self.poll_body(cx, flight) {
                return Poll::Ready(ending);
            }
            if flight.events != events {
                events = flight.events;
                counted(events);
            }
            // The timer is only set anew when the reply begins, nears its end, or the timer fires: not for a chunk.
            if flight.tail != tail
                || (timer.deadline() == self.until_first.into() && flight.record.first_byte.is_some())
            {
                tail = flight.tail;
                timer.as_mut().reset(self.due(flight).into());
            }
            while timer.as_mut().poll(cx).is_ready() {
                let due = self.due(flight);
                if Instant::now() >= due {
                    return Poll::Ready(self.late(flight));
                }
                timer.as_mut().reset(due.into());
            }
            Poll::Pending
        })
        .await
    }

    /// Takes in what has come; ready at the end of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>, flight: &mut Flight) -> Poll<Ending> {
        loop {
            self.drive.poll(cx);
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    let at = self.clock.last_read();
                    let taken = match &mut self.inflate {
                        None => flight.body(data, at),
                        Some(inflate) => {
                            inflate
                                .push(data, |data| flight.body(data, at))
                                .unwrap_or_else(|error| {
                                    Err(Ending::Failed(
                                        FailureClass::Malformed,
                                        format!("the reply's compression is broken: {error}"),
                                    ))
                                })
                        }
                    };
                    if let Err(ending) = taken {
                        return Poll::Ready(ending);
                    }
                }
                None => return Poll::Ready(Ending::Complete),
                Some(Err(error)) => {
                    return Poll::Ready(Ending::Failed(
                        FailureClass::Body,
                        format!("the connection broke in the body: {}", innermost(&error)),
                    ));
                }
            }
        }
    }

    /// When patience ends if nothing more comes.
    fn due(&self, flight: &Flight) -> Instant {
        let silence = match (grace(flight.tail), flight.record.first_byte) {
            (Some(grace), _) => grace,
            (None, Some(_)) => self.patience.idle,
            // Until the first byte idling has no limit of its own: a queue may be long.
            (None, None) => return self.until_first,
        };
        (self.clock.last_read() + silence).min(self.until)
    }

    /// What it means that patience has ended.
    fn late(&self, flight: &Flight) -> Ending {
        if flight.tail != Tail::Open {
            return Ending::HeldOpen;
        }
        if flight.record.first_byte.is_none() {
            return overdue(self.patience.first.min(self.patience.whole));
        }
        if Instant::now() >= self.until {
            return overdue(self.patience.whole);
        }
        Ending::Failed(
            FailureClass::Idle,
            format!("nothing came for {} s", self.patience.idle.as_secs_f64()),
        )
    }
}

fn overdue(after: Duration) -> Ending {
    Ending::Failed(
        FailureClass::Deadline,
        format!("not finished after {} s", after.as_secs_f64()),
    )
}

fn before_headers(error: &hyper::Error, clock: &WireClock) -> (FailureClass, String) {
    if error.is_parse() {
        return (
            FailureClass::Headers,
            format!("the answer is not HTTP: {}", innermost(error)),
        );
    }
    if clock.write_failed() {
        return (
            FailureClass::Write,
            format!("the request could not be written: {}", innermost(error)),
        );
    }
    (
        FailureClass::Headers,
        format!("the connection ended before the headers: {}", innermost(error)),
    )
}

/// The cause at the bottom of an error.
fn innermost(error: &hyper::Error) -> String {
    let mut at: &dyn std::error::Error = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}
