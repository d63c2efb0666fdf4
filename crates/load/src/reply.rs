//! What a reply turned out to be: tokens, counts, and success or failure. Off the hot path.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_run::request::{Failure, FailureClass};

use crate::dialect::{Counts, Speak, Told, error_text, is_done};
use crate::flight::{Buffers, Ending, Flight};
use crate::framing::{Framing, said};
use crate::secret::Redactor;
use crate::sse::Said;

/// What has been read of a reply.
struct Reading<'a> {
    speaker: &'a dyn Speak,
    /// Token-bearing chunks, since the rung's start.
    chunks: Vec<Duration>,
    first_answer: Option<Duration>,
    last_event: Option<Duration>,
    text_without_stamp: bool,
    /// An event of this dialect was among them.
    spoken: bool,
    /// The alternatives that have begun and not ended, and those that have ended.
    open: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    finish: Option<String>,
    done: bool,
    /// Counts that came with text, the last ones.
    counts: Option<Counts>,
    /// Counts that came by themselves.
    alone: Vec<Counts>,
    failure: Option<(FailureClass, String)>,
}

/// Reads a reply to its verdict. Returns the record, complete, and the times of its token-bearing chunks since the
/// request was sent.
pub(crate) fn read(flight: &mut Flight, ending: &Ending, redactor: &Redactor) -> Vec<Duration> {
    let status = flight.record.status;
    let success = status.is_none_or(|status| (200..300).contains(&status));
    let mut reading = Reading::new(&**flight.speaker());
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
            (None, Some(framing)) => reading.stream(framing, &flight.buffers, flight.record.ended),
            (None, None) => reading.whole(&flight.buffers.body, ending),
        }
    }
    let counts = reading.usage();
    let output = counts.output;
    let failure = verdict(flight, ending, &reading, output);
    let (chunks, first_answer, last_event) = (reading.chunks, reading.first_answer, reading.last_event);
    let finish = reading.finish;
    let record = &mut flight.record;
    record.input_tokens = counts.input;
    record.output_tokens = output;
    record.cached_tokens = counts.cached;
    record.finish_reason = finish;
    record.first_token = chunks.first().copied();
    record.first_answer = first_answer;
    // A success without visible text still has an end: that of its last event, or of its body.
    record.last_token = chunks
        .last()
        .copied()
        .or_else(|| failure.is_none().then(|| last_event.unwrap_or(record.ended)));
    if !chunks.is_empty() && record.output_tokens.unwrap_or(0) == 0 {
        record.output_tokens = u32::try_from(chunks.len()).ok();
        record.output_estimated = true;
    }
    record.failure = failure.map(|(class, message)| Failure {
        class,
        message: redactor.line(&message),
    });
    let sent = record.sent;
    chunks.iter().map(|at| at.saturating_sub(sent)).collect()
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
fn parse(data: &[u8], read: impl Fn(&[u8]) -> serde_json::Result<Told>) -> serde_json::Result<Told> {
    read(data).or_else(|error| match String::from_utf8_lossy(data) {
        Cow::Owned(text) => read(text.as_bytes()),
        Cow::Borrowed(_) => Err(error),
    })
}

/// How the events of a reply are told apart; `None` for a reply that is one document.
fn kind(flight: &Flight) -> Option<Framing> {
    flight.framing().or_else(|| {
        // A stream that ended before it had a byte is cut, not a document.
        let named = flight
            .head
            .as_ref()
            .and_then(|head| head.headers.get(http::header::CONTENT_TYPE))
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        (named && flight.buffers.body.trim_ascii().is_empty()).then_some(Framing::Sse)
    })
}

impl<'a> Reading<'a> {
    fn new(speaker: &'a dyn Speak) -> Self {
        Reading {
            speaker,
            chunks: Vec::new(),
            first_answer: None,
            last_event: None,
            text_without_stamp: false,
            spoken: false,
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            finish: None,
            done: false,
            counts: None,
            alone: Vec::new(),
            failure: None,
        }
    }

    fn stream(&mut self, framing: Framing, buffers: &Buffers, ended: Duration) {
        let mut start = 0;
        for mark in &buffers.marks {
            let event = buffers.body.get(start..mark.end).unwrap_or_default();
            self.event(framing, event, Duration::from_nanos(mark.at_ns));
            start = mark.end;
            if self.done || self.failure.is_some() {
                return;
            }
        }
        // A last event without the blank line that should end it; half an event is a cut, not nonsense.
        let rest = buffers.body.get(start..).unwrap_or_default();
        self.event(framing, rest, ended);
        if matches!(self.failure, Some((FailureClass::Malformed, _))) {
            self.failure = None;
        }
    }

    fn event(&mut self, framing: Framing, event: &[u8], at: Duration) {
        let data = match said(framing, event) {
            Said::Nothing => return,
            Said::Error(error) => {
                let text = match serde_json::from_slice::<serde_json::Value>(&error) {
                    Ok(value) => error_text(value.get("error").unwrap_or(&value)),
                    Err(_) => String::from_utf8_lossy(&error).into_owned(),
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
        match parse(&data, |data| self.speaker.event(data)) {
            Ok(told) => {
                self.last_event = Some(at);
                self.spoken |= told.known;
                let (bears, answers) = (told.bears, told.answers);
                self.take(told);
                if bears && self.failure.is_none() {
                    self.chunks.push(at);
                    if answers {
                        self.first_answer.get_or_insert(at);
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

    /// Takes counts, reason and error of an event.
    fn take(&mut self, told: Told) {
        if let Some(message) = told.error {
            self.failure = Some((FailureClass::InStreamError, message));
            return;
        }
        // Usage first: the chunk that carries it may have no choices.
        if let Some(counts) = told.usage {
            if told.alternatives.is_empty() && self.counts_come_alone() {
                self.alone.push(counts);
            } else {
                self.counts = Some(self.counts.unwrap_or_default().then(counts));
            }
        }
        for (index, ended) in &told.alternatives {
            if *ended {
                self.open.remove(index);
                self.ended.insert(*index);
            } else if !self.ended.contains(index) {
                self.open.insert(*index);
            }
        }
        self.finish = told.finish.or(self.finish.take());
        self.done |= told.done;
    }

    /// Whether an event without alternatives that has counts has nothing else: so in the dialects that have alternatives.
    fn counts_come_alone(&self) -> bool {
        !self.open.is_empty() || !self.ended.is_empty()
    }

    /// The counts of the whole reply. Those that came by themselves are final: where a server sends them for each of
    /// several alternatives, each time only that one's, they are summed.
    fn usage(&self) -> Counts {
        let Some((first, rest)) = self.alone.split_first() else {
            return self.counts.unwrap_or_default();
        };
        let alternatives = self.open.len() + self.ended.len();
        let each = alternatives > 1 && self.alone.len() == alternatives;
        let last = rest.iter().fold(*first, |before, later| before.then(*later));
        let output = if each {
            let outputs = self.alone.iter().filter_map(|counts| counts.output);
            outputs.reduce(u32::saturating_add)
        } else {
            last.output
        };
        self.counts.unwrap_or_default().then(Counts { output, ..last })
    }

    /// Whether every alternative has said why it ended.
    fn finished(&self) -> bool {
        self.finish.is_some() && self.open.is_empty()
    }

    fn counted(&self) -> bool {
        self.counts.is_some() || !self.alone.is_empty()
    }

    fn whole(&mut self, body: &[u8], ending: &Ending) {
        if !matches!(ending, Ending::Complete) {
            return;
        }
        match parse(body, |body| self.speaker.whole(body)) {
            Ok(told) if told.known || told.error.is_some() => {
                self.spoken = true;
                self.text_without_stamp = told.bears;
                self.take(told);
                self.done = true;
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
    reading: &Reading<'_>,
    output: Option<u32>,
) -> Option<(FailureClass, String)> {
    let record = &flight.record;
    if let Some(status) = record.status.filter(|status| !(200..300).contains(status)) {
        return Some((
            refusal_class(flight, status),
            format!("HTTP {status}: {}", body_message(&flight.buffers.body)),
        ));
    }
    if reading.failure.is_some() {
        return reading.failure.clone();
    }
    let finished = reading.finished();
    let whole_reply = reading.done || (finished && reading.counted());
    match ending {
        // What breaks after a reply has said all it had to say takes nothing from it.
        Ending::Failed(..) if whole_reply => {}
        Ending::Failed(class, message) => return Some((*class, message.clone())),
        Ending::Complete | Ending::HeldOpen => {}
    }
    if !reading.spoken && !reading.done && reading.last_event.is_some() {
        let dialect = reading.speaker.dialect();
        return Some((
            FailureClass::Malformed,
            format!("no event of the stream is of the dialect {dialect}: it is another"),
        ));
    }
    if !finished && !reading.done && reading.speaker.says_when_it_ends() {
        return Some((
            FailureClass::TruncatedStream,
            format!(
                "the stream ended after {} chunks with neither a finish reason nor [DONE]",
                reading.chunks.len()
            ),
        ));
    }
    if reading.chunks.is_empty() && !reading.text_without_stamp && output.unwrap_or(0) == 0 {
        return Some((
            FailureClass::EmptyResponse,
            "the reply is complete and has no token".to_owned(),
        ));
    }
    None
}

/// The class of a refusal. A gateway may hide that it, or what is behind it, has too much to do.
fn refusal_class(flight: &Flight, status: u16) -> FailureClass {
    let kind = flight
        .head
        .as_ref()
        .and_then(|head| head.headers.get("x-amzn-errortype"))
        .map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    let throttled = kind.is_some_and(|kind| kind.starts_with("Throttling"))
        || (status == 424 && matches!(original_status(&flight.buffers.body), Some(429 | 503)));
    match status {
        429 | 503 => FailureClass::Throttled,
        _ if throttled => FailureClass::Throttled,
        _ => FailureClass::HttpStatus,
    }
}

/// The status that a container gave, as SageMaker tells it.
fn original_status(body: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get("OriginalStatusCode")?.as_u64()
}

/// What the body of a refusal says.
pub(crate) fn body_message(body: &[u8]) -> String {
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) {
        for key in ["error", "detail", "OriginalMessage", "message", "Message"] {
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
