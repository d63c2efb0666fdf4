//! Calibration: how many words make a prompt of the asked length by the server's own count.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_prompts::{Calibration, Drawn, Prompts, Role, Rows, Turn, Which, of_words};
use plimsoll_run::request::RequestRecord;
use plimsoll_run::workload::{SharedPrefix, TokenLength, Workload};

use crate::ask::Asker;
use crate::capability::failed_inside;
use crate::error::PrepareError;
use crate::prepare::Asked;
use crate::shape::Shape;

/// Prompt lengths nearer than this to the asked one need no further round, a fraction.
const CLOSE: f64 = 0.02;
/// The promise: prompt lengths end within this of the asked one, a fraction.
const PROMISE: f64 = 0.05;
/// Rounds after the first check.
const ROUNDS: u32 = 3;

/// What calibration found.
#[derive(Debug)]
pub(crate) struct Calibrated {
    pub calibration: Calibration,
    pub notes: Vec<String>,
    /// The reply to one request of the workload's mean lengths.
    pub full: RequestRecord,
    /// Its length asked for, tokens.
    pub output_asked: u32,
}

/// Calibrates. `first` is the reply to the capability probe, of [`crate::capability::WORDS`] words.
pub(crate) async fn calibrate(
    asker: &mut Asker<'_>,
    shape: &Shape,
    workload: &Workload,
    own: &Asked,
    seed: u64,
    first: &RequestRecord,
) -> Result<Calibrated, PrepareError> {
    let rows = own.rows.as_ref();
    // Where the endpoint does not count: the user's tokenizer, else a guess.
    let uncounted = own.counting.unwrap_or(Calibration::UNKNOWN);
    let estimate = if own.counting.is_some() {
        "prompt lengths are those of the given tokenizer, without the endpoint's chat template"
    } else {
        "prompt lengths are estimates of one token a word"
    };
    let asked = workload.input_tokens.mean_tokens();
    let mut rounds = Rounds {
        asker,
        shape,
        prefix_tokens: workload.shared_prefix.map_or(0, |prefix| prefix.tokens),
        seed,
        nth: 0,
        probe: first.ended.saturating_sub(first.sent),
    };
    let mut notes = Vec::new();

    let few = crate::capability::WORDS;
    let many = asked.clamp(2 * few, 64);
    let at_few = match first.input_tokens {
        Some(tokens) => Some(tokens),
        // A stream without usage: the same question not streamed may bring it.
        None => rounds.count(few, Calibration::UNKNOWN).await?,
    };
    let at_many = match at_few {
        Some(_) => rounds.count(many, Calibration::UNKNOWN).await?,
        None => None,
    };
    let mut points = match (at_few, at_many) {
        (Some(low), Some(high)) => Some([(few, low), (many, high)]),
        _ => {
            notes.push(format!(
                "the endpoint does not say how many tokens a prompt has: {estimate}"
            ));
            None
        }
    };
    let calibration = points.map_or(Some(uncounted), |points| fit(points[0], points[1]));
    if calibration.is_none() {
        notes.push(format!(
            "the endpoint's count of prompt tokens does not follow the prompt: {estimate}"
        ));
        points = None;
    }
    let mut calibration = calibration.unwrap_or(uncounted);
    calibration.per_byte = uncounted.per_byte;

    // The first check is a request of the whole workload, so that it also shows one response time.
    let typical = rounds.typical(workload, rows, calibration);
    let full = rounds
        .full(&typical.turns, typical.output_tokens, FIT_ONE)
        .await?;
    if let Some(Rows::Dataset(_)) = rows.map(Arc::as_ref) {
        let bytes: usize = typical.turns.iter().map(|turn| turn.text.len()).sum();
        match full.input_tokens.filter(|_| points.is_some()) {
            // Counted over many texts, where this is one.
            _ if own.counting.is_some() => {}
            Some(tokens) => {
                let own = (f64::from(tokens) - calibration.overhead).max(1.0);
                // From 20 bytes a token to four tokens a byte: beyond lies no tokenizer.
                calibration.per_byte = (own / bytes.max(1) as f64).clamp(0.05, 4.0);
            }
            None => {
                notes.push("lengths of the dataset's texts are estimates of four bytes a token".to_owned())
            }
        }
    } else if let Some(points) = points {
        let mut checked = (calibration.words(asked), full.input_tokens);
        let mut round = 0;
        while let (words, Some(tokens)) = checked {
            let off = relative(tokens, asked);
            let better = refit(points[0], (words, tokens), calibration);
            if off <= CLOSE || round == ROUNDS || better.words(asked) == words {
                if off > PROMISE {
                    notes.push(if words == 1 {
                        format!(
                            "the endpoint's own overhead is {:.0} tokens: the shortest prompt has {tokens} tokens where {asked} were asked",
                            calibration.overhead.max(0.0)
                        )
                    } else {
                        format!("prompts have about {tokens} tokens by the endpoint's count where {asked} were asked")
                    });
                }
                break;
            }
            calibration = better;
            round += 1;
            let words = calibration.words(asked);
            checked = (words, rounds.count(words, calibration).await?);
        }
    }
    if let Some(conversation) = workload.conversation {
        // The last turn is the longest: whether it fits is found out before any load.
        let last = rounds.last_turn(workload, rows, calibration, conversation.turns);
        rounds.full(&last.turns, last.output_tokens, FIT_ALL).await?;
    }
    if rows.is_none() && calibration.words(asked) < 3 {
        notes.push(
            "prompts of so few words cannot all be different: a prefix cache may answer some".to_owned(),
        );
    }
    Ok(Calibrated {
        calibration,
        notes,
        full,
        output_asked: typical.output_tokens,
    })
}

fn relative(tokens: u32, asked: u32) -> f64 {
    (f64::from(tokens) - f64::from(asked)).abs() / f64::from(asked)
}

/// The line through two points; `None` when the count does not grow with the words as a tokenizer's would.
fn fit(low: (u32, u32), high: (u32, u32)) -> Option<Calibration> {
    let per_word = (f64::from(high.1) - f64::from(low.1)) / (f64::from(high.0) - f64::from(low.0));
    // From two words a token to sixteen tokens a word: beyond lies no tokenizer.
    (0.5..=16.0).contains(&per_word).then(|| Calibration {
        overhead: f64::from(low.1) - per_word * f64::from(low.0),
        per_word,
        ..Calibration::UNKNOWN
    })
}

/// The line after a check: through the short prompt and the checked one where they lie far apart, else moved.
fn refit(low: (u32, u32), checked: (u32, u32), before: Calibration) -> Calibration {
    if checked.0 >= 2 * low.0
        && let Some(fitted) = fit(low, checked)
    {
        return fitted;
    }
    Calibration {
        overhead: before.overhead + f64::from(checked.1) - before.tokens(checked.0),
        ..before
    }
}

/// What to do about a request that is refused for its length.
const FIT_ONE: &str = "check that --input-tokens and --output-tokens together fit into the model's context";
const FIT_ALL: &str =
    "check that all --turns of a conversation with their replies fit into the model's context";

/// A workload whose requests are all of its mean lengths.
fn alike(workload: &Workload) -> Workload {
    Workload {
        input_tokens: TokenLength::Fixed(workload.input_tokens.mean_tokens()),
        output_tokens: TokenLength::Fixed(workload.output_tokens.mean_tokens()),
        shared_prefix: workload
            .shared_prefix
            .map(|prefix| SharedPrefix { share: 0.0, ..prefix }),
        ..workload.clone()
    }
}

/// The rows to draw a typical request from: those of a trace stand for their mean.
fn texts(rows: Option<&Arc<Rows>>) -> Option<Arc<Rows>> {
    rows.filter(|rows| matches!(rows.as_ref(), Rows::Dataset(_)))
        .map(Arc::clone)
}

struct Rounds<'a, 'b> {
    asker: &'a mut Asker<'b>,
    shape: &'a Shape,
    /// Tokens of every prompt that stand in a system message.
    prefix_tokens: u32,
    seed: u64,
    nth: u64,
    /// How long the capability probe took.
    probe: Duration,
}

impl Rounds<'_, '_> {
    fn which(&mut self) -> Which {
        self.nth += 1;
        Which {
            seed: self.seed,
            rung: 0,
            slot: 1,
            nth: self.nth,
        }
    }

    /// A request of the workload's mean lengths, the first of a conversation; of a dataset one of its own.
    fn typical(&mut self, workload: &Workload, rows: Option<&Arc<Rows>>, calibration: Calibration) -> Drawn {
        let single = Workload {
            conversation: None,
            ..alike(workload)
        };
        self.draw(&single, rows, calibration, 1)
    }

    /// The last turn of a conversation of such requests.
    fn last_turn(
        &mut self,
        workload: &Workload,
        rows: Option<&Arc<Rows>>,
        calibration: Calibration,
        turns: u32,
    ) -> Drawn {
        self.draw(&alike(workload), rows, calibration, turns)
    }

    /// The longest of so many requests.
    fn draw(
        &mut self,
        workload: &Workload,
        rows: Option<&Arc<Rows>>,
        calibration: Calibration,
        of: u32,
    ) -> Drawn {
        let prompts = Arc::new(Prompts::new(workload, texts(rows), calibration, self.seed));
        let rung = prompts.rung(0);
        let mut longest = rung.alone(self.which().hash());
        for _ in 1..of {
            let next = rung.alone(self.which().hash());
            if next.input_tokens > longest.input_tokens {
                longest = next;
            }
        }
        longest.drawn(calibration)
    }

    /// The server's count of a prompt of so many words, by a request for one token.
    async fn count(&mut self, words: u32, calibration: Calibration) -> Result<Option<u32>, PrepareError> {
        let text = of_words(self.which(), words);
        // Where requests have a system message, so has this one.
        let prefix = match self.prefix_tokens {
            0 => 0,
            tokens => calibration.words_of_part(tokens).min(words.saturating_sub(1)),
        };
        let split = text.match_indices(' ').nth((prefix as usize).wrapping_sub(1));
        let turns = match split.filter(|_| prefix > 0) {
            Some((at, _)) => vec![
                Turn {
                    role: Role::System,
                    text: text[..at].into(),
                },
                Turn::user(&text[at + 1..]),
            ],
            None => vec![Turn::user(text)],
        };
        let body = self.shape.whole().template().body(&turns, 1);
        let within = self.patience(words, 1);
        let reply = self.asker.generate(&body, within, true).await?;
        Ok(reply.record.input_tokens.filter(|_| reply.answer.ok()))
    }

    /// One request of the workload's kind.
    async fn full(
        &mut self,
        turns: &[Turn],
        output: u32,
        remedy: &'static str,
    ) -> Result<RequestRecord, PrepareError> {
        let body = self.shape.template().body(turns, output);
        let bytes: usize = turns.iter().map(|turn| turn.text.len()).sum();
        let within = self.patience(u32::try_from(bytes / 5).unwrap_or(u32::MAX), output);
        let reply = self.asker.generate(&body, within, true).await?;
        let url = self.asker.line.endpoint.url();
        match &reply.record.failure {
            None => Ok(reply.record),
            Some(_) if !reply.answer.ok() => Err(PrepareError::Refused {
                url,
                status: reply.answer.status,
                message: reply.answer.message(self.asker.line),
                remedy,
            }),
            // How often replies fail inside is measured.
            Some(failure) if failed_inside(failure.class) => Ok(reply.record),
            Some(failure) => Err(PrepareError::Failed {
                url,
                class: failure.class,
                message: failure.message.clone(),
                remedy: "look into the server's log",
            }),
        }
    }

    /// How long a request may take on an idle endpoint that answered the probe as it did: generous, but no server
    /// that forgets a request is waited for until the request timeout.
    fn patience(&self, words: u32, output: u32) -> Duration {
        let prefill = Duration::from_millis(5) * words;
        let decode = self.probe * (2 + output / crate::capability::OUTPUT);
        (Duration::from_secs(30) + prefill + 10 * decode).min(self.asker.line.patience.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_points_make_a_line_and_a_third_corrects_it() {
        let line = fit((8, 38), (64, 94)).unwrap();
        assert_eq!((line.overhead, line.per_word), (30.0, 1.0));
        assert!(
            fit((8, 7), (64, 7)).is_none(),
            "a count that does not move is none"
        );
        assert!(fit((8, 94), (64, 38)).is_none());
        let better = refit((8, 38), (1008, 1238), line);
        assert_eq!(better.per_word, 1.2);
        let moved = refit((8, 38), (10, 45), line);
        assert_eq!((moved.overhead, moved.per_word), (35.0, 1.0));
    }
}
