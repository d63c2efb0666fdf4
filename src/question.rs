//! The question a run answers: SLA, peak and price.

use plimsoll_plan::Demand;
use plimsoll_run::document::Run;
use plimsoll_run::peak::Peak;
use plimsoll_run::sla::Sla;

use crate::arguments::QuestionArguments;

/// SLA, peak and price.
#[derive(Debug, Clone)]
pub struct Question {
    /// The SLA.
    pub sla: Sla,
    /// The peak.
    pub peak: Option<Peak>,
    /// Price of one instance, an hour.
    pub price: Option<f64>,
    /// Its currency.
    pub currency: String,
    /// Instances to keep beyond need.
    pub spares: u64,
}

impl Question {
    /// What a saved run asked, with whatever `arguments` ask instead.
    pub fn again(run: &Run, arguments: &QuestionArguments) -> Question {
        let sla = if arguments.sla.is_empty() {
            run.sla.clone()
        } else {
            Sla {
                terms: arguments.sla.clone(),
            }
        };
        Question {
            sla,
            peak: arguments.peak.or(run.peak),
            price: arguments.price.or(run.price_per_hour),
            currency: arguments.currency.clone().unwrap_or_else(|| run.currency.clone()),
            spares: arguments.spares.unwrap_or_else(|| {
                run.plan
                    .instances
                    .as_ref()
                    .map_or(0, |instances| instances.spares)
            }),
        }
    }

    /// Writes it into a run. Rungs measured under another SLA are judged again; their goodput, which was counted
    /// request by request, is then unknown.
    pub fn put_to(&self, run: &mut Run) {
        if run.sla != self.sla {
            run.sla = self.sla.clone();
            for rung in &mut run.rungs {
                rung.sla = plimsoll_plan::judge(rung, &run.sla);
                rung.throughput.goodput_per_s = None;
            }
        }
        run.peak = self.peak;
        run.price_per_hour = self.price;
        run.currency.clone_from(&self.currency);
    }

    /// What the planning numbers are asked for.
    pub fn demand(&self) -> Demand {
        Demand {
            peak: self.peak,
            price_per_hour: self.price,
            currency: self.currency.clone(),
            spares: self.spares,
            ..Demand::default()
        }
    }
}
