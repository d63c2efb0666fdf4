//! What keeps throughput from growing: read off the server's own metrics, beside the client's figures.

use plimsoll_run::answer::{Bound, BoundBy, Knee, KneeStatus, LevelBound};
use plimsoll_run::rung::RungReport;

use crate::levels::{Level, Standing};
use crate::wording::{figure, percent};

/// A KV cache fuller than this has no room for another request, whose blocks are taken several at a time.
const KV_FULL: f64 = 0.9;
/// Fewer waiting requests than this share of the level come and go between two steps: that is no queue.
const QUEUE_SHARE: f64 = 0.05;
/// Numbers of running requests closer together than this are the same.
const FLAT: f64 = 0.03;
/// Numbers of running requests further apart than this tell how ITL grows with them.
const APART: f64 = 1.15;
/// Elasticity d ln ITL/d ln running. From here on half of what more requests bring is lost to slower steps...
const SLOWER: f64 = 0.5;
/// ...and from here on nearly all of it: throughput grows less than by the 0.15 at which it counts as saturated.
const NO_GAIN: f64 = 0.85;

/// What the server said of a level, as far as it is needed here.
struct Row<'a> {
    level: u32,
    rung: &'a RungReport,
    running: u32,
    waiting: Option<u32>,
}

impl<'a> Row<'a> {
    fn of(level: &Level<'a>) -> Option<Self> {
        (level.standing != Standing::Invalid && level.rung.validity.may_decide()).then_some(())?;
        Some(Row {
            level: level.level,
            rung: level.rung,
            running: level.rung.server.running_max.filter(|running| *running > 0)?,
            waiting: level.rung.server.waiting_max,
        })
    }

    fn queue(&self) -> Option<u32> {
        self.waiting
            .filter(|waiting| f64::from(*waiting) > (QUEUE_SHARE * f64::from(self.level)).max(1.0))
    }

    /// Running requests as the mean over time where it was sampled, else the most at once.
    fn running_mean(&self) -> f64 {
        self.rung
            .server
            .running_mean
            .unwrap_or_else(|| f64::from(self.running))
    }

    fn itl(&self) -> Option<f64> {
        self.rung.latency.itl_ms.as_ref()?.mean.filter(|mean| *mean > 0.0)
    }

    fn preemptions(&self) -> u64 {
        self.rung.server.preemptions.unwrap_or(0)
    }

    /// How full the KV cache was, where that is known.
    fn kv(&self) -> Option<f64> {
        self.rung.server.kv_cache_usage_max
    }

    /// `, with the KV cache at most 40 % full`, where that is known.
    fn kv_words(&self) -> String {
        self.kv().map_or_else(String::new, |usage| {
            format!(", with the KV cache at most {} full", percent(usage))
        })
    }
}

fn times(count: u32) -> String {
    figure(f64::from(count))
}

/// What binds at each level, and in a sentence what binds at the knee: at the lowest level from it on that tells, else at the
/// highest that does. `None` where the server's metrics do not tell.
#[must_use]
pub(crate) fn bound(levels: &[Level], knee: Option<&Knee>) -> Option<Bound> {
    let rows: Vec<Row> = levels.iter().filter_map(Row::of).collect();
    let found: Vec<(u32, BoundBy, String)> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| {
            let (by, reason) = binds(&rows, at)?;
            Some((row.level, by, reason))
        })
        .collect();
    let at_knee = knee
        .filter(|knee| knee.status == KneeStatus::Saturated)
        .and_then(|knee| {
            found
                .iter()
                .find(|(level, _, _)| f64::from(*level) >= knee.concurrency)
        });
    let (concurrency, by, reason) = at_knee.or(found.last())?;
    Some(Bound {
        by: *by,
        concurrency: *concurrency,
        reason: reason.clone(),
        levels: found
            .iter()
            .map(|(level, by, _)| LevelBound {
                concurrency: *level,
                by: *by,
            })
            .collect(),
    })
}

fn binds(rows: &[Row], at: usize) -> Option<(BoundBy, String)> {
    let row = &rows[at];
    let slower = slower(rows, at);
    let no_gain = slower
        .as_ref()
        .filter(|slower| slower.elasticity >= NO_GAIN)
        .map_or_else(String::new, |slower| {
            format!(
                " More at once would add little: {} it.",
                slower.words("ITL had grown nearly as fast as their number by then,", row)
            )
        });
    if let Some(reason) = kv_full(row) {
        return Some((BoundBy::KvCache, reason + &no_gain));
    }
    if let Some(waiting) = row.queue() {
        return Some(match flat(rows, at) {
            Some(cap) => (
                BoundBy::Admission,
                format!(
                    "At {} in flight the server ran {} requests at once{cap} while up to {} waited{}: it admits no more. \
                     Raise that setting (max_num_seqs, max_running_requests, parallel slots), or keep to that level.{no_gain}",
                    times(row.level),
                    times(row.running),
                    times(waiting),
                    row.kv_words()
                ),
            ),
            None => (
                BoundBy::Queue,
                format!(
                    "At {} in flight up to {} requests waited in the engine's queue{} while {} ran at most{}: neither memory \
                     nor a cap on requests kept them there, so they waited for their prompts' turn.",
                    times(row.level),
                    times(waiting),
                    row.rung
                        .server
                        .queue_mean_ms
                        .map_or_else(String::new, |ms| format!(" ({} ms on average)", figure(ms))),
                    times(row.running),
                    row.kv_words()
                ),
            ),
        });
    }
    let slower = slower.filter(|slower| slower.elasticity >= SLOWER)?;
    row.waiting?;
    Some((
        BoundBy::Compute,
        format!(
            "{}: every step takes longer the more requests share it, so computing or memory bandwidth is what binds.",
            slower.words(
                &format!(
                    "Nothing waited at {} in flight{}, and ITL grew",
                    times(row.level),
                    row.kv_words()
                ),
                row
            )
        ),
    ))
}

fn kv_full(row: &Row) -> Option<String> {
    let full = row.kv().is_some_and(|usage| usage >= KV_FULL);
    let preempted = row.preemptions();
    if preempted == 0 && !(full && row.queue().is_some()) {
        return None;
    }
    let mut signs = Vec::new();
    if let Some(usage) = row.kv() {
        signs.push(format!("the KV cache was {} full", percent(usage)));
    }
    if let Some(waiting) = row.queue() {
        signs.push(format!("up to {} requests waited", times(waiting)));
    }
    if preempted > 0 {
        signs.push(format!(
            "{} preemptions threw running requests out",
            figure(preempted as f64)
        ));
    }
    Some(format!(
        "At {} in flight {}: its size keeps more than {} requests from running at once. More memory for it, shorter lengths \
         or a smaller KV type move the knee.",
        times(row.level),
        listed(&signs),
        times(row.running)
    ))
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Whether the number of running requests stands still at this level, and how that shows: another level with a queue has
/// the same, or it hardly moved within this one.
fn flat(rows: &[Row], at: usize) -> Option<String> {
    let row = &rows[at];
    let running = f64::from(row.running);
    let other = rows
        .iter()
        .filter(|other| other.level != row.level && other.queue().is_some())
        .find(|other| (f64::from(other.running) / running - 1.0).abs() <= FLAT);
    if let Some(other) = other {
        return Some(format!(", as many as at {}", times(other.level)));
    }
    let mean = row.rung.server.running_mean?;
    (mean >= running * (1.0 - FLAT)).then(|| " all the time".to_owned())
}

/// How ITL grows with the number of running requests, from a lower level to this one.
struct Slower {
    elasticity: f64,
    running: f64,
    itl: f64,
}

impl Slower {
    fn words(&self, lead: &str, row: &Row) -> String {
        let mut words = format!(
            "{lead} from {} ms with {} requests running",
            figure(self.itl),
            figure(self.running)
        );
        if let Some(itl) = row.itl() {
            words.push_str(&format!(
                " to {} ms with {}",
                figure(itl),
                figure(row.running_mean())
            ));
        }
        words
    }
}

fn slower(rows: &[Row], at: usize) -> Option<Slower> {
    let row = &rows[at];
    let (running, itl) = (row.running_mean(), row.itl()?);
    rows[..at].iter().rev().find_map(|below| {
        let before = below.running_mean();
        if before <= 0.0 || running < before * APART {
            return None;
        }
        let before_itl = below.itl()?;
        Some(Slower {
            elasticity: (itl / before_itl).ln() / (running / before).ln(),
            running: before,
            itl: before_itl,
        })
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_run::rung::{Distribution, ServerSide};
    use plimsoll_run::sla::Sla;

    use super::*;
    use crate::levels::levels;
    use crate::table::rung;

    /// A rung with the most running and waiting, KV usage, preemptions and mean ITL.
    fn seen(level: u32, running: u32, waiting: u32, kv: f64, preemptions: u64, itl: f64) -> RungReport {
        let mut rung = rung(level, 10.0, 1000.0);
        rung.server = ServerSide {
            running_max: Some(running),
            waiting_max: Some(waiting),
            kv_cache_usage_max: Some(kv),
            preemptions: Some(preemptions),
            ..ServerSide::default()
        };
        rung.latency.itl_ms = Some(Distribution {
            mean: Some(itl),
            ..Distribution::default()
        });
        rung
    }

    fn knee(concurrency: f64) -> Knee {
        Knee {
            concurrency,
            interval: [None, None],
            status: KneeStatus::Saturated,
            plateau: None,
            reason: String::new(),
        }
    }

    fn found(rungs: &[RungReport], at: Option<f64>) -> Option<Bound> {
        bound(&levels(rungs, &Sla::default()), at.map(knee).as_ref())
    }

    #[test]
    fn a_full_kv_cache_binds() {
        let rungs = [seen(64, 64, 0, 0.3, 0, 12.0), seen(256, 210, 46, 0.99, 13, 16.0)];
        let bound = found(&rungs, Some(150.0)).unwrap();
        assert_eq!((bound.by, bound.concurrency), (BoundBy::KvCache, 256));
        assert_eq!(bound.levels.len(), 1);
        for part in [
            "99 % full",
            "46 requests waited",
            "13 preemptions",
            "210 requests",
        ] {
            assert!(bound.reason.contains(part), "{}", bound.reason);
        }
        // A full cache that nobody waits for binds nothing, nor does a full cache of finished prefixes.
        assert_eq!(found(&[seen(64, 64, 0, 0.95, 0, 12.0)], None), None);
    }

    #[test]
    fn a_flat_number_of_running_requests_is_a_cap() {
        let rungs = [
            seen(64, 64, 0, 0.1, 0, 10.0),
            seen(256, 128, 128, 0.2, 0, 11.0),
            seen(1024, 128, 896, 0.2, 0, 11.0),
        ];
        let bound = found(&rungs, Some(120.0)).unwrap();
        assert_eq!((bound.by, bound.concurrency), (BoundBy::Admission, 256));
        for part in [
            "128 requests at once",
            "as many as at 1,024",
            "128 waited",
            "20 % full",
        ] {
            assert!(bound.reason.contains(part), "{}", bound.reason);
        }
        assert!(!bound.reason.contains("add little"), "{}", bound.reason);
        // From one rung alone only where the number hardly moved.
        let mut alone = [seen(256, 128, 128, 0.2, 0, 11.0)];
        assert_eq!(found(&alone, None).unwrap().by, BoundBy::Queue);
        alone[0].server.running_mean = Some(127.5);
        assert_eq!(found(&alone, None).unwrap().by, BoundBy::Admission);
        // A cap at which steps are already saturated is not worth raising.
        let saturated = [
            seen(64, 64, 0, 0.1, 0, 10.0),
            seen(256, 128, 128, 0.2, 0, 19.5),
            seen(512, 128, 384, 0.2, 0, 19.5),
        ];
        let bound = found(&saturated, None).unwrap();
        assert!(bound.reason.contains("add little"), "{}", bound.reason);
    }

    #[test]
    fn steps_that_slow_down_with_their_number_are_compute() {
        let rungs = [
            seen(16, 16, 0, 0.1, 0, 10.0),
            seen(64, 64, 0, 0.2, 0, 14.0),
            seen(256, 256, 3, 0.5, 0, 50.0),
        ];
        let bound = found(&rungs, Some(100.0)).unwrap();
        assert_eq!((bound.by, bound.concurrency), (BoundBy::Compute, 256));
        // ln(14/10)/ln(4) = 0.24 is no bound, ln(50/14)/ln(4) = 0.92 is.
        assert_eq!(bound.levels.len(), 1);
        for part in ["14 ms with 64", "50 ms with 256", "50 % full"] {
            assert!(bound.reason.contains(part), "{}", bound.reason);
        }
    }

    #[test]
    fn a_queue_beside_free_memory_and_free_slots_is_named_as_that() {
        let mut rungs = [
            seen(64, 60, 1, 0.1, 0, 10.0),
            seen(256, 90, 166, 0.2, 0, 12.0),
            seen(512, 110, 402, 0.2, 0, 12.0),
        ];
        rungs[1].server.queue_mean_ms = Some(1312.0);
        let bound = found(&rungs, Some(80.0)).unwrap();
        assert_eq!((bound.by, bound.concurrency), (BoundBy::Queue, 256));
        assert!(bound.reason.contains("1,312 ms on average"), "{}", bound.reason);
    }

    #[test]
    fn without_the_servers_side_nothing_is_said() {
        assert_eq!(
            found(&[rung(64, 1.0, 1.0), rung(256, 1.0, 1.0)], Some(100.0)),
            None
        );
        assert_eq!(found(&[], None), None);
        let mut unseen = [seen(64, 64, 0, 0.1, 0, 10.0), seen(256, 256, 0, 0.1, 0, 40.0)];
        for rung in &mut unseen {
            rung.server.waiting_max = None;
        }
        assert_eq!(found(&unseen, None), None);
        // Nor without streams, where ITL is not known.
        let mut whole = [seen(64, 64, 0, 0.1, 0, 10.0), seen(256, 256, 0, 0.1, 0, 40.0)];
        for rung in &mut whole {
            rung.latency.itl_ms = None;
        }
        assert_eq!(found(&whole, None), None);
    }
}
