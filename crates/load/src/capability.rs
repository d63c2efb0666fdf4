//! Which fields the endpoint takes: one request with everything, and again without what it refuses.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_prompts::{Turn, Which, of_words};
use plimsoll_run::request::{FailureClass, RequestRecord};

use crate::ask::{Answer, Asker, Reply};
use crate::error::PrepareError;
use crate::reply;
use crate::shape::{Field, Shape};

/// Words of the probe's prompt.
pub(crate) const WORDS: u32 = 8;
/// Reply tokens of the probe: enough to see that a stream is one.
pub(crate) const OUTPUT: u32 = 4;

/// What the probe found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// What requests look like from now on.
    pub shape: Shape,
    /// Sentences on what was left out.
    pub notes: Vec<String>,
    /// The reply to the request that went through.
    pub reply: RequestRecord,
    /// The body of that request.
    pub body: Bytes,
    /// The fields that were refused.
    pub refused: Vec<Field>,
    /// Whether the reply came as a stream.
    pub streamed: bool,
}

/// Finds the fullest shape that the endpoint takes, each attempt within `within`.
pub(crate) async fn probe(
    asker: &mut Asker<'_>,
    full: Shape,
    seed: u64,
    within: Duration,
) -> Result<Found, PrepareError> {
    let mut shape = full;
    let mut attempt = 0;
    let mut sent = Bytes::new();
    let mut ask = async |asker: &mut Asker<'_>, shape: &Shape| {
        attempt += 1;
        let which = Which {
            seed,
            rung: 0,
            slot: 0,
            nth: attempt,
        };
        sent = shape
            .template()
            .body(&[Turn::user(of_words(which, WORDS))], OUTPUT);
        asker.generate(&sent, within, false).await
    };
    let mut named = Vec::new();
    let mut guessed = Vec::new();
    let Reply {
        mut answer,
        mut record,
    } = ask(asker, &shape).await?;
    while matches!(answer.status, 400 | 422) {
        let message = String::from_utf8_lossy(&answer.body).into_owned();
        let Some((less, dropped)) = less(&shape, &message) else {
            return Err(refused(asker, &shape, &answer));
        };
        let by_name = dropped.is_none_or(|field| message.contains(field.name()));
        match dropped {
            Some(field) if by_name => named.push(field),
            Some(field) => guessed.push(field),
            None => {}
        }
        shape = less;
        Reply { answer, record } = ask(asker, &shape).await?;
    }
    // A guess may have cost fields that had nothing to do with it: all but the last guess get a second chance.
    if answer.ok()
        && let Some((&culprit, innocent)) = guessed.split_last()
        && !innocent.is_empty()
    {
        let mut fuller = shape.clone();
        fuller.fields = shape
            .speaker
            .fields()
            .iter()
            .copied()
            .filter(|field| shape.has(*field) || innocent.contains(field))
            .collect();
        let second = ask(asker, &fuller).await?;
        if second.answer.ok() {
            (shape, guessed) = (fuller, vec![culprit]);
            Reply { answer, record } = second;
        }
    }
    if !answer.ok() {
        return Err(refused(asker, &shape, &answer));
    }
    if reply::looks_like_html(&answer.body) {
        return Err(PrepareError::Html {
            url: asker.line.endpoint.url(),
        });
    }
    let mut notes = Vec::new();
    named.extend(guessed);
    if !named.is_empty() {
        let names: Vec<String> = named.iter().map(|field| format!("`{}`", field.name())).collect();
        let mut note = format!("the endpoint refuses {}: left out", names.join(", "));
        if !shape.has(Field::IgnoreEos) && !shape.has(Field::MinTokens) {
            note.push_str("; replies may end before the asked length");
        }
        notes.push(note);
    }
    if shape.completion_limit {
        notes.push("the endpoint wants `max_completion_tokens` in place of `max_tokens`".to_owned());
    }
    let streamed = record.first_token.is_some()
        || answer
            .header("content-type")
            .is_none_or(|kind| !kind.starts_with("application/json"));
    if shape.stream && !streamed {
        notes.push(
            "the endpoint did not stream although asked to: TTFT and TPOT cannot be measured".to_owned(),
        );
    }
    if let Some(failure) = &record.failure {
        // A reply of four tokens may well show no text. And an endpoint that fails a request inside its reply may do so
        // now and then: how often is measured, not guessed from the first.
        if !failed_inside(failure.class) {
            return Err(PrepareError::Failed {
                url: asker.line.endpoint.url(),
                class: failure.class,
                message: failure.message.clone(),
                remedy: match failure.class {
                    _ if answer.header("content-encoding").is_some() => {
                        "turn compression off in the server, or in the proxy before it"
                    }
                    FailureClass::Malformed => "check the path, and --dialect if the endpoint speaks another",
                    FailureClass::Deadline | FailureClass::Idle => "check that the server is not stuck",
                    _ => "look into the server's log",
                },
            });
        }
        if failure.class != FailureClass::EmptyResponse {
            notes.push(failed_note(failure.class, &failure.message));
        }
    }
    Ok(Found {
        shape,
        notes,
        reply: record,
        body: sent,
        refused: named,
        streamed,
    })
}

/// Whether a failure is one that an endpoint in good order may have now and then: inside a reply that came.
pub(crate) fn failed_inside(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::InStreamError | FailureClass::TruncatedStream | FailureClass::EmptyResponse
    )
}

/// What to say of such a failure.
pub(crate) fn failed_note(class: FailureClass, message: &str) -> String {
    format!("a test request failed again and again ({class}): {message}")
}

/// A shape with one thing less, guided by what the refusal names; `None` when there is nothing left to give up.
/// The field is `None` when only the name of the limit changed.
fn less(shape: &Shape, message: &str) -> Option<(Shape, Option<Field>)> {
    let mut renamed = shape.clone();
    renamed.completion_limit = true;
    let renamed = (!shape.completion_limit && shape.speaker.limit_has_two_names()).then_some((renamed, None));
    if message.contains("max_completion_tokens") && renamed.is_some() {
        return renamed;
    }
    if let Some(field) = shape.fields.iter().find(|field| message.contains(field.name())) {
        return Some((shape.without(*field), Some(*field)));
    }
    if blames_model(message) || blames_length(message) {
        return None;
    }
    if message.contains("max_tokens") && renamed.is_some() {
        return renamed;
    }
    match shape.fields.first() {
        Some(field) => Some((shape.without(*field), Some(*field))),
        None => renamed,
    }
}

fn blames_model(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("model")
        && [
            "not exist",
            "not found",
            "unknown",
            "no such",
            "not supported",
            "invalid model",
            "not available",
        ]
        .iter()
        .any(|said| message.contains(said))
}

fn blames_length(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("context length") || message.contains("context_size") || message.contains("context size")
}

/// Why the probe was refused for good. A model that is not there is told apart by the caller, who knows the list.
fn refused(asker: &Asker<'_>, shape: &Shape, answer: &Answer) -> PrepareError {
    let url = asker.line.endpoint.url();
    let (status, message) = (answer.status, answer.message(asker.line));
    if let Some(model) = &shape.model
        && matches!(status, 400 | 404 | 422)
        && blames_model(&String::from_utf8_lossy(&answer.body))
    {
        return PrepareError::NoModel {
            url,
            model: model.clone(),
            hint: String::new(),
            message,
            known: "check --model".to_owned(),
        };
    }
    match status {
        404 | 405 | 501 => PrepareError::NoRoute { url, status, message },
        _ => PrepareError::Refused {
            url,
            status,
            message,
            remedy: if shape.model.is_none() && matches!(status, 400 | 422) {
                "if it misses a model, name it with --model"
            } else if matches!(status, 429 | 503) {
                "wait until it is ready and no other load is on it"
            } else {
                "look into the server's log"
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::target::Dialect;

    use super::*;

    #[test]
    fn a_refusal_costs_the_field_it_names_or_else_the_first() {
        let full = Shape::full(Dialect::OpenaiChat, None, None, true, false);
        let (shape, field) = less(&full, "Unrecognized request argument supplied: ignore_eos").unwrap();
        assert_eq!(field, Some(Field::IgnoreEos));
        assert!(!shape.has(Field::IgnoreEos) && shape.has(Field::MinTokens));
        let (_, field) = less(&full, "bad request").unwrap();
        assert_eq!(field, Some(Field::MinTokens));
        let (shape, field) = less(&full, "Use 'max_completion_tokens' instead.").unwrap();
        assert!(shape.completion_limit && field.is_none());
        assert!(less(&full, "The model `x` does not exist.").is_none());
        let mut bare = full.clone();
        bare.fields.clear();
        let (renamed, field) = less(&bare, "bad request").unwrap();
        assert!(renamed.completion_limit && field.is_none());
        assert!(less(&renamed, "bad request").is_none());
        assert_eq!(
            less(&full, "Unrecognized request argument supplied: max_tokens"),
            Some((
                Shape {
                    completion_limit: true,
                    ..full.clone()
                },
                None
            ))
        );
    }
}
