//! Reduction, judgement and examination of evidence whose truth is known in closed form.

#![expect(clippy::unwrap_used, reason = "a test may stop here")]

mod figures;
mod steady;
mod verdicts;
