//! The response time to expect at a level that has not been measured yet.

use std::time::Duration;

use plimsoll_run::rung::RungReport;

/// One response time to expect at `level`: the mean E2E of the nearest level measured, by ratio, and the lower of
/// two as near. It staggers the starts of the next rung, so a rough guess will do: saturated levels respond more slowly than
/// it says, and the warm-up finds that out. `None` while nothing has been measured.
#[must_use]
pub fn expected_response(rungs: &[RungReport], level: u32) -> Option<Duration> {
    let distance = |rung: &RungReport| {
        (f64::from(rung.concurrency.max(1)) / f64::from(level.max(1)))
            .ln()
            .abs()
    };
    rungs
        .iter()
        .filter_map(|rung| {
            Some((
                distance(rung),
                rung.concurrency,
                rung.latency.e2e_ms.as_ref()?.mean?,
            ))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        .map(|(_, _, mean)| plimsoll_run::units::from_ms(mean))
}
