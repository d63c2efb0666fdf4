//! What a reply turned out to be: tokens, counts, and success or failure. Off the hot path.

use std::borrow::Cow;
use std::time::Duration;

use plimsoll_run::request::{Failure, FailureClass, RequestRecord};

use crate::event::{Event, error_text};
use crate::flight::{Buffers, Ending, Flight};
use crate::secret::Redactor;
use crate::sse::{Said, is_done, said};

/// What has been read of a reply.
#[derive(Debug, Default)]
struct Reading {
    /// Token-bearing chunks, since the rung's start.
    chunks: Vec<Duration>,
    first_answer: Option<Duration>,
    last_event: Option<Duration>,
    text_without_stamp: bool,
    /// An event of this dialect was among them.
    spoken: bool,
    finished: bool,
    done: bool,
    counted: bool,
    failure: Option<(FailureClass, String)>,
}

/// Reads a reply to its verdict. Returns the record, complete, and the times of its token-bearing chunks since the
/// request was sent.
pub(crate) fn read(flight: &mut Flight, ending: &Ending, redactor: &Redactor) -> Vec<Duration> {
    let mut reading = Reading::default();
    let status = flight.record.status;
    let success = status.is_none_or(|status| (200..300).contains(&status));
    if success && status.is_some() {
        match (encoding(flight), kind(flight)) {
            (Some(encoding), _) => {
                reading.failure = Some((
                    FailureClass::Malformed,
                    format!(
                        "the reply comes compressed (content-encoding: {encoding}) though nobody asked for that"
                    ),
                ));
            }
            (None, Kind::Stream) => reading.stream(&flight.buffers, &mut flight.record),
            (None, Kind::Whole) => reading.whole(&flight.buffers.body, &mut flight.record, ending),
        }
    }
    let failure = verdict(flight, ending, reading.failure.take(), &reading);
    let record = &mut flight.record;
    record.first_token = reading.chunks.first().copied();
    record.first_answer = reading.first_answer;
    // A success without visible text still has an end: that of its last event, or of its body.
    record.last_token = reading.chunks.last().copied().or_else(|| {
        failure
            .is_none()
            .then(|| reading.last_event.unwrap_or(record.ended))
    });
    if !reading.chunks.is_empty() && record.output_tokens.unwrap_or(0) == 0 {
        record.output_tokens = u32::try_from(reading.chunks.len()).ok();
        record.output_estimated = true;
    }
    record.failure = failure.map(|(class, message)| Failure {
        class,
        message: redactor.line(&message),
    });
    let sent = record.sent;
    reading.chunks.iter().map(|at| at.saturating_sub(sent)).collect()
}

/// How the body is compressed, if it is.
fn encoding(flight: &Flight) -> Option<String> {
    let value = flight
        .head
        .as_ref()?
        .headers
        .get(http::header::CONTENT_ENCODING)?;
    let name = String::from_utf8_lossy(value.as_bytes())
        .trim()
        .to_ascii_lowercase();
    (!name.is_empty() && name != "identity").then_some(name)
}

/// Reads JSON of the dialect. What is not UTF-8, such as half a character that an engine cut, is replaced as the
/// specification of event streams asks: the token came all the same.
fn parse(data: &[u8]) -> serde_json::Result<Event> {
    serde_json::from_slice(data).or_else(|error| match String::from_utf8_lossy(data) {
        Cow::Owned(text) => serde_json::from_str(&text),
        Cow::Borrowed(_) => Err(error),
    })
}

enum Kind {
    Stream,
    Whole,
}

/// By its marks, its content type, or its first byte.
fn kind(flight: &Flight) -> Kind {
    if flight.buffers.marks.is_empty() {
        let named = flight
            .head
            .as_ref()
            .and_then(|head| head.headers.get(http::header::CONTENT_TYPE))
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let begins = flight.buffers.body.trim_ascii_start().first();
        if !named || begins == Some(&b'{') {
            return Kind::Whole;
        }
    }
    Kind::Stream
}

impl Reading {
    fn stream(&mut self, buffers: &Buffers, record: &mut RequestRecord) {
        let mut start = 0;
        for mark in &buffers.marks {
            let event = buffers.body.get(start..mark.end).unwrap_or_default();
            self.event(event, Duration::from_nanos(mark.at_ns), record);
            start = mark.end;
            if self.done || self.failure.is_some() {
                return;
            }
        }
        // A last event without the blank line that should end it; half an event is a cut, not nonsense.
        let rest = buffers.body.get(start..).unwrap_or_default();
        self.event(rest, record.ended, record);
        if matches!(self.failure, Some((FailureClass::Malformed, _))) {
            self.failure = None;
        }
    }

    fn event(&mut self, event: &[u8], at: Duration, record: &mut RequestRecord) {
        let data = match said(event) {
            Said::Nothing => return,
            Said::Error(error) => {
                let text = match serde_json::from_slice::<serde_json::Value>(error) {
                    Ok(error) => error_text(&error),
                    Err(_) => String::from_utf8_lossy(error).into_owned(),
                };
                self.failure = Some((FailureClass::InStreamError, text));
                return;
            }
            Said::Data(data) => data,
        };
        if is_done(&data) {
            self.done = true;
            self.last_event = Some(at);
            return;
        }
        if data.trim_ascii().is_empty() {
            return;
        }
        match parse(&data) {
            Ok(event) => {
                self.last_event = Some(at);
                self.spoken |= event.choices.is_some() || event.usage.is_some();
                let bears = self.take(&event, record);
                if bears {
                    self.chunks.push(at);
                    if self.first_answer.is_none()
                        && event.choices.iter().flatten().any(|choice| choice.answers())
                    {
                        self.first_answer = Some(at);
                    }
                }
            }
            Err(error) => {
                let text = String::from_utf8_lossy(&data);
                self.failure = Some((
                    FailureClass::Malformed,
                    format!("an event is not what the dialect speaks ({error}): {text}"),
                ));
            }
        }
    }

    /// Takes counts, finish reason and error of an event; says whether it bears a token.
    fn take(&mut self, event: &Event, record: &mut RequestRecord) -> bool {
        if let Some(message) = event.error_message() {
            self.failure = Some((FailureClass::InStreamError, message));
            return false;
        }
        // Usage first: the chunk that carries it may have no choices. It may be cumulative: the last one counts.
        if let Some(usage) = &event.usage {
            self.counted = true;
            record.input_tokens = usage.prompt_tokens.0.or(record.input_tokens);
            record.output_tokens = usage.completion_tokens.0.or(record.output_tokens);
            record.cached_tokens = usage.cached_tokens().or(record.cached_tokens);
        }
        let mut bears = false;
        for choice in event.choices.iter().flatten() {
            if let Some(reason) = &choice.finish_reason {
                self.finished = true;
                record.finish_reason = Some(reason.clone());
            }
            bears |= choice.bears_token();
        }
        bears
    }

    fn whole(&mut self, body: &[u8], record: &mut RequestRecord, ending: &Ending) {
        if !matches!(ending, Ending::Complete) {
            return;
        }
        match parse(body) {
            Ok(event) if event.choices.is_some() || event.error_message().is_some() => {
                self.text_without_stamp = self.take(&event, record);
                self.finished = true;
            }
            _ => {
                let text = String::from_utf8_lossy(body.get(..400).unwrap_or(body));
                self.failure = Some((
                    FailureClass::Malformed,
                    if text.trim().is_empty() {
                        "the reply is empty".to_owned()
                    } else {
                        format!("the reply is not what the dialect speaks: {text}")
                    },
                ));
            }
        }
    }
}

fn verdict(
    flight: &Flight,
    ending: &Ending,
    read: Option<(FailureClass, String)>,
    reading: &Reading,
) -> Option<(FailureClass, String)> {
    let record = &flight.record;
    if let Some(status) = record.status.filter(|status| !(200..300).contains(status)) {
        let class = match status {
            429 | 503 => FailureClass::Throttled,
            _ => FailureClass::HttpStatus,
        };
        return Some((
            class,
            format!("HTTP {status}: {}", body_message(&flight.buffers.body)),
        ));
    }
    if read.is_some() {
        return read;
    }
    let whole_reply = reading.done || (reading.finished && reading.counted);
    match ending {
        // What breaks after a reply has said all it had to say takes nothing from it.
        Ending::Failed(..) if whole_reply => {}
        Ending::Failed(class, message) => return Some((*class, message.clone())),
        Ending::Complete | Ending::HeldOpen => {}
    }
    if !reading.spoken && !reading.done && reading.last_event.is_some() {
        return Some((
            FailureClass::Malformed,
            "no event of the stream has `choices`: it is another dialect".to_owned(),
        ));
    }
    if !reading.finished && !reading.done {
        return Some((
            FailureClass::TruncatedStream,
            format!(
                "the stream ended after {} chunks with neither a finish reason nor [DONE]",
                reading.chunks.len()
            ),
        ));
    }
    if reading.chunks.is_empty() && !reading.text_without_stamp && record.output_tokens.unwrap_or(0) == 0 {
        return Some((
            FailureClass::EmptyResponse,
            "the reply is complete and has no token".to_owned(),
        ));
    }
    None
}

/// What the body of a refusal says.
pub(crate) fn body_message(body: &[u8]) -> String {
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) {
        for key in ["error", "detail", "message"] {
            if let Some(found) = value.get(key).filter(|found| !found.is_null()) {
                return error_text(found);
            }
        }
    }
    let text = String::from_utf8_lossy(body.get(..2000).unwrap_or(body));
    let text = text.trim();
    if text.is_empty() {
        "(no message)".to_owned()
    } else if looks_like_html(text.as_bytes()) {
        "(an HTML page)".to_owned()
    } else {
        text.to_owned()
    }
}

/// Whether a body is a page for people.
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let start = start.get(..15).unwrap_or(start).to_ascii_lowercase();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html") || start.starts_with(b"<head")
}

#[cfg(test)]
mod captured;
