//! Single questions to an endpoint, before any load: each with its own deadline, each failure with its remedy.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use plimsoll_run::request::{FailureClass, RequestRecord};
use plimsoll_serving::secrets::url_without_credentials;

use crate::connect::Wire;
use crate::error::PrepareError;
use crate::exchange::{Patience, exchange};
use crate::flight::{Buffers, Ending, Flight};
use crate::line::Line;
use crate::reply;

/// Asks one question at a time over one connection.
pub(crate) struct Asker<'a> {
    pub line: &'a Line,
    wire: Option<Wire>,
}

/// An answer with its status line.
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    flight: Flight,
    ending: Ending,
}

impl Answer {
    /// A response header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.flight.head.as_ref()?.headers.get(name)?.to_str().ok()
    }

    /// Whether the status is 2xx.
    pub(crate) fn ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What a refusal says, in one line.
    pub(crate) fn message(&self, line: &Line) -> String {
        line.redactor.line(&reply::body_message(&self.body))
    }

    /// Reads it as the reply to a workload's request.
    fn read(&mut self, line: &Line) -> RequestRecord {
        std::mem::swap(&mut self.flight.buffers.body, &mut self.body);
        reply::read(&mut self.flight, &self.ending, &line.redactor);
        std::mem::swap(&mut self.flight.buffers.body, &mut self.body);
        self.flight.record.clone()
    }
}

/// A reply to a request of the workload's kind, read.
pub(crate) struct Reply {
    pub answer: Answer,
    pub record: RequestRecord,
}

/// How often a request that failed is tried again: a server that fails some requests can still be measured.
const RETRIES: u32 = 2;
/// How long to wait before that.
const PAUSE: Duration = Duration::from_millis(300);

/// Whether anyone answers at all: any status will do.
///
/// # Errors
/// What went wrong, in one line.
pub(crate) async fn greet(line: &Line) -> Result<(), String> {
    let patience = Duration::from_secs(5);
    Asker::new(line)
        .ask(|| line.get(&line.endpoint.models()), patience, patience)
        .await
        .map(|_| ())
        .or_else(|error| match error {
            PrepareError::Connect { problem, .. }
            | PrepareError::Tls { problem, .. }
            | PrepareError::Broken { problem, .. } => Err(problem),
            PrepareError::Silent { seconds, .. } => Err(format!(
                "it takes the connection but does not answer within {seconds} s"
            )),
            _ => Ok(()),
        })
}

impl<'a> Asker<'a> {
    pub(crate) fn new(line: &'a Line) -> Self {
        Asker { line, wire: None }
    }

    /// Sends a request and waits for the answer to begin within `first` and to end within `whole`. Any status is an
    /// answer.
    pub(crate) async fn ask(
        &mut self,
        request: impl Fn() -> Request<Full<Bytes>>,
        first: Duration,
        whole: Duration,
    ) -> Result<Answer, PrepareError> {
        let url = || self.line.endpoint.url();
        let patience = Patience {
            whole,
            first,
            idle: self.line.patience.idle.min(whole),
        };
        loop {
            let idle = match self.wire.take() {
                Some(mut wire) => wire.ready().await.then_some(wire),
                None => None,
            };
            let mut wire = match idle {
                Some(wire) => wire,
                None => self.line.link.dial().await.map_err(|error| match error.class {
                    FailureClass::Tls => PrepareError::Tls {
                        url: url(),
                        problem: error.message,
                    },
                    _ => PrepareError::Connect {
                        url: url(),
                        problem: error.message,
                    },
                })?,
            };
            let origin = Instant::now();
            let record = RequestRecord::begun(0, 0, Duration::ZERO, Duration::ZERO);
            let mut flight = Flight::new(record, Buffers::default(), origin, &self.line.speaker);
            let ending = exchange(&mut wire, request(), &mut flight, patience, || {}, |_| {}).await;
            flight.record.ended = flight.since(wire.clock.last_read());
            let Some(status) = flight.record.status else {
                if wire.replies > 0
                    && !wire.clock.answered()
                    && !matches!(ending, Ending::Failed(FailureClass::Deadline, _))
                {
                    // An idle connection that had died: once more on a fresh one.
                    continue;
                }
                return Err(unanswered(ending, wire.clock.first_byte(), url(), first));
            };
            if matches!(ending, Ending::Complete) {
                wire.replies += 1;
                self.wire = Some(wire);
            }
            let body = std::mem::take(&mut flight.buffers.body);
            let answer = Answer {
                status,
                body,
                flight,
                ending,
            };
            if let Some(error) = self.hopeless(&answer) {
                return Err(error);
            }
            return Ok(answer);
        }
    }

    /// Posts a request and reads its reply. One that failed is tried again; `silence_too` says whether that goes for
    /// one that was never answered.
    pub(crate) async fn generate(
        &mut self,
        body: &Bytes,
        within: Duration,
        silence_too: bool,
    ) -> Result<Reply, PrepareError> {
        let line = self.line;
        let mut retries = RETRIES;
        loop {
            // A reply that has begun may take its time: the server is not stuck.
            let whole = within.max(Duration::from_secs(60)).min(line.patience.whole);
            let outcome = self.ask(|| line.post(body.clone()), within, whole).await;
            let again = match &outcome {
                Ok(answer) => matches!(answer.status, 429 | 500 | 502 | 503 | 504),
                Err(PrepareError::Broken { .. }) => true,
                Err(PrepareError::Silent { .. }) => silence_too && retries == RETRIES,
                Err(_) => false,
            };
            if !(again && retries > 0) {
                let mut answer = outcome?;
                let record = answer.read(line);
                // A reply that never ended has had all the time there is: asking again would only double the wait.
                let spent = record.failure.as_ref().is_some_and(|failure| {
                    matches!(failure.class, FailureClass::Deadline | FailureClass::Idle)
                });
                if retries == 0
                    || spent
                    || record.ok()
                    || !answer.ok()
                    || reply::looks_like_html(&answer.body)
                {
                    return Ok(Reply { answer, record });
                }
            }
            retries -= 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Answers that mean the same whatever was asked.
    fn hopeless(&self, answer: &Answer) -> Option<PrepareError> {
        let url = || self.line.endpoint.url();
        let status = answer.status;
        let speaks_tls = |body: &[u8]| {
            let text = String::from_utf8_lossy(body);
            status == 400 && (text.contains("HTTPS port") || text.contains("HTTPS server"))
        };
        match status {
            401 | 403 => Some(PrepareError::Unauthorized {
                url: url(),
                status,
                message: answer.message(self.line),
                remedy: if self.line.has_credentials() {
                    "check the key given with --api-key or --header"
                } else {
                    "give a key with --api-key or --api-key-env"
                },
            }),
            300..=399 => Some(PrepareError::Moved {
                url: url(),
                status,
                location: self.line.redactor.line(&url_without_credentials(
                    answer.header("location").unwrap_or("(nowhere)"),
                )),
            }),
            _ if !self.line.endpoint.https() && speaks_tls(&answer.body) => {
                Some(PrepareError::SpeaksTls { url: url() })
            }
            _ => None,
        }
    }
}

fn unanswered(ending: Ending, first_byte: Option<u8>, url: String, within: Duration) -> PrepareError {
    /// A TLS record that holds an alert: what a TLS server says to plain HTTP.
    const TLS_ALERT: u8 = 0x15;
    match ending {
        _ if first_byte == Some(TLS_ALERT) && url.starts_with("http:") => PrepareError::SpeaksTls { url },
        Ending::Failed(FailureClass::Deadline, _) => PrepareError::Silent {
            url,
            seconds: within.as_secs(),
        },
        Ending::Failed(_, problem) => PrepareError::Broken { url, problem },
        Ending::Complete | Ending::HeldOpen => PrepareError::Broken {
            url,
            problem: "the answer has no headers".to_owned(),
        },
    }
}
