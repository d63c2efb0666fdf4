//! Another question of the same measurement.

use plimsoll_run::demand::DemandTerms;
use plimsoll_run::document::Run;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::Sla;

use crate::imported::answer_table;
use crate::{Demand, answer, judge};

impl Demand {
    /// What is asked by a peak, a price and the terms of a demand.
    #[must_use]
    pub fn asked(
        peak: Option<Peak>,
        price_per_hour: Option<f64>,
        currency: &str,
        terms: &DemandTerms,
    ) -> Demand {
        Demand {
            peak,
            price_per_hour,
            currency: currency.to_owned(),
            spares: terms.spares,
            arrival_cv2: terms.arrival_cv2,
            routing: terms.routing,
            scaling_efficiency: terms.scaling_efficiency,
            growth_per_minute: terms.growth_per_minute,
            startup_minutes: terms.startup_s / 60.0,
            failures: terms.failures,
            mean_load: terms.mean_load,
        }
    }
}

/// Judges a run's rungs by this SLA and answers for the peak, the price and the demand that stand in it. Rungs measured under
/// another SLA lose their goodput, which was counted request by request.
pub fn ask_again(run: &mut Run, sla: &Sla) {
    if run.sla != *sla {
        run.sla = sla.clone();
        for rung in &mut run.rungs {
            rung.sla = judge(rung, &run.sla);
            rung.throughput.goodput_per_s = None;
        }
    }
    let terms = run.demand.clone().unwrap_or_default();
    let demand = Demand::asked(run.peak, run.price_per_hour, &run.currency, &terms);
    run.plan = match &run.table {
        Some(table) => answer_table(&mut run.rungs, table, &run.sla, &demand),
        None => answer(&run.rungs, &run.sla, &demand),
    };
}
