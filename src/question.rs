//! The question a run answers: SLA, peak and price.

use std::sync::Arc;

use plimsoll_plan::{Demand, ask_again};
use plimsoll_run::demand::DemandTerms;
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
    /// How the peak arrives and the replicas are run.
    pub terms: DemandTerms,
    /// Arrival times of the trace that gave the peak, seconds, ascending.
    pub trace: Option<Arc<Vec<f64>>>,
    /// What to know of that trace.
    pub note: Option<String>,
}

impl Question {
    /// What a saved run asked.
    pub fn of(run: &Run) -> Question {
        Question {
            sla: run.sla.clone(),
            peak: run.peak,
            price: run.price_per_hour,
            currency: run.currency.clone(),
            terms: run.demand.clone().unwrap_or_default(),
            trace: None,
            note: None,
        }
    }

    /// What a saved run asked, with whatever `arguments` ask instead.
    pub fn again(run: &Run, arguments: &QuestionArguments) -> Question {
        let sla = if arguments.sla.is_empty() {
            run.sla.clone()
        } else {
            Sla {
                terms: arguments.sla.clone(),
            }
        };
        let trace = arguments.demand.peak_trace.as_ref();
        let mut terms = arguments.demand.or(&run.demand.clone().unwrap_or_default());
        // Runs of earlier versions have the spares in their answer only.
        let answered = run
            .plan
            .instances
            .as_ref()
            .map_or(0, |instances| instances.spares);
        terms.spares = arguments.spares.unwrap_or(terms.spares.max(answered));
        if arguments.peak.is_some() {
            // Another peak than the trace's.
            terms.trace = None;
        }
        Question {
            sla,
            peak: arguments
                .peak
                .or(trace.map(|trace| Peak::Rate(trace.peak.rate_per_s)))
                .or(run.peak),
            terms,
            trace: trace.map(|trace| Arc::clone(&trace.times_s)),
            note: trace.map(|trace| trace.note.clone()),
            price: arguments.price.or(run.price_per_hour),
            currency: arguments.currency.clone().unwrap_or_else(|| run.currency.clone()),
        }
    }

    /// Writes it into a run and answers it. Rungs measured under another SLA are judged again; their goodput, which was
    /// counted request by request, is then unknown.
    pub fn put_to(&self, run: &mut Run) {
        run.peak = self.peak;
        run.demand = Some(self.terms.clone());
        run.notes.extend(self.note.clone());
        run.price_per_hour = self.price;
        run.currency.clone_from(&self.currency);
        ask_again(run, &self.sla);
    }

    /// What the planning numbers are asked for.
    pub fn demand(&self) -> Demand {
        Demand::asked(self.peak, self.price, &self.currency, &self.terms)
    }
}
