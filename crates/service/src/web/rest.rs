//! REST: runs, their progress as it comes, another question of them, and their reports.
//!
//! | | |
//! |---|---|
//! | `GET /api/runs?limit=N&next=TOKEN` | the jobs, the newest first |
//! | `GET /api/runs/ID` | one, with its run.json so far |
//! | `GET /api/runs/ID/events` | its summary whenever it changes, as server-sent events, to its end |
//! | `POST /api/runs/ID/plan` | its run.json for another `sla`, `peak`, `price`, `currency` or `spares` |
//! | `GET /api/runs/ID/report` | its report.html |
//! | `GET /api/runs/ID/output.tar.gz` | its results |
//! | `POST /api/runs/ID/stop` | asks it to stop |

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use plimsoll_plan::ask_again;
use plimsoll_run::nearest::hint;
use plimsoll_run::sla::Sla;
use serde_json::{Map, Value, json};

use super::runs::Seen;
use super::{Served, answer, apart, body};
use crate::api::{ApiError, Code, mark, token};
use crate::results::{fresh_report, report};
use crate::store::Listing;

/// How often progress is looked at.
const EVERY: Duration = Duration::from_millis(500);

type Name = Path<String>;

/// Work on the house and its answer.
async fn told(
    served: Arc<Served>,
    work: impl FnOnce(&Served) -> Result<Response, ApiError> + Send + 'static,
) -> Response {
    match apart(move || work(&served)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => failed(&error),
        Err(response) => response,
    }
}

pub(super) fn failed(error: &ApiError) -> Response {
    let status = match error.code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InUse => StatusCode::CONFLICT,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    answer::error(status, &error.message)
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::Validation, message)
}

pub(super) async fn list(State(served): State<Arc<Served>>, uri: Uri) -> Response {
    told(served, move |served| {
        let mut listing = Listing::default();
        let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let mut next = None;
        for (name, value) in query {
            match &*name {
                "limit" => {
                    listing.most = value
                        .parse()
                        .ok()
                        .filter(|limit| (1..=100).contains(limit))
                        .ok_or_else(|| invalid("`limit` must be a whole number from 1 to 100"))?;
                }
                "next" => next = Some(value.into_owned()),
                other => {
                    return Err(invalid(format!(
                        "`{}` is unknown{}",
                        other.chars().take(60).collect::<String>(),
                        hint(other, &["limit", "next"])
                    )));
                }
            }
        }
        if let Some(next) = next {
            let place = mark(&next, &listing)
                .ok_or_else(|| invalid("`next` is of no list here; begin again without it"))?;
            listing.behind = Some(place);
        }
        let page = served.house.api.store.jobs(&listing)?;
        let runs: Vec<Value> = page
            .items
            .into_iter()
            .map(|job| served.house.seen(job).summary())
            .collect();
        let next = page.next.map(|mark| token(&mark, &listing));
        Ok(answer::json(StatusCode::OK, &json!({"runs": runs, "next": next})))
    })
    .await
}

pub(super) async fn one(State(served): State<Arc<Served>>, Path(name): Name) -> Response {
    told(served, move |served| {
        let seen = served.house.see(&name)?;
        Ok(answer::json(StatusCode::OK, &seen.whole()))
    })
    .await
}

pub(super) async fn stop(State(served): State<Arc<Served>>, Path(name): Name) -> Response {
    told(served, move |served| {
        served.house.api.stop(&name)?;
        let seen = served.house.see(&name)?;
        Ok(answer::json(StatusCode::OK, &seen.summary()))
    })
    .await
}

/// What has a run; a job that is still queued has none.
fn measured(seen: Seen) -> Result<(std::path::PathBuf, plimsoll_run::document::Run), ApiError> {
    let name = seen.job.made.name;
    match (seen.directory, seen.run) {
        (Some(directory), Some(run)) => Ok((directory, run)),
        _ => Err(ApiError::new(
            Code::NotFound,
            format!("run `{name}` has measured nothing yet"),
        )),
    }
}

/// The report that the sweep left, or while it goes on one of the rungs so far. Writing one takes a while, so one at a time is
/// written, and it is kept until there is another rung.
pub(super) async fn html(State(served): State<Arc<Served>>, Path(name): Name) -> Response {
    told(served, move |served| {
        let seen = served.house.see(&name)?;
        let (id, ended) = (seen.job.id, seen.job.status.is_final());
        let (directory, run) = measured(seen)?;
        let text = if ended {
            report(&directory, &run)
        } else {
            let mut kept = served
                .report
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            match &*kept {
                Some((of, rungs, text)) if (*of, *rungs) == (id, run.rungs.len()) => text.clone(),
                _ => {
                    let text = fresh_report(&directory, &run);
                    *kept = Some((id, run.rungs.len(), text.clone()));
                    text
                }
            }
        };
        Ok(answer::whole(StatusCode::OK, "text/html; charset=utf-8", text))
    })
    .await
}

pub(super) async fn archive(State(served): State<Arc<Served>>, Path(name): Name) -> Response {
    told(served, move |served| {
        let seen = served.house.see(&name)?;
        let path = served.house.results.archive(&seen.job);
        let bytes = path.and_then(|path| std::fs::read(path).ok()).ok_or_else(|| {
            ApiError::new(
                Code::NotFound,
                format!(
                    "run `{name}` has no results; they are there once it has ended with something measured"
                ),
            )
        })?;
        let mut response = answer::whole(StatusCode::OK, "application/gzip", bytes);
        // A name of letters, digits and hyphens.
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.tar.gz\"")) {
            response.headers_mut().insert(CONTENT_DISPOSITION, value);
        }
        Ok(response)
    })
    .await
}

pub(super) async fn plan(State(served): State<Arc<Served>>, Path(name): Name, request: Request) -> Response {
    let bytes = match body(request.into_body()).await {
        Ok(bytes) => bytes,
        Err((status, message)) => return answer::error(status, message),
    };
    told(served, move |served| {
        let question: Map<String, Value> = serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("the body is not a JSON object: {error}")))?;
        let (_, mut run) = measured(served.house.see(&name)?)?;
        ask(&mut run, question)?;
        Ok(answer::whole(StatusCode::OK, "application/json", run.to_json()))
    })
    .await
}

/// Puts another question to a run.
fn ask(run: &mut plimsoll_run::document::Run, question: Map<String, Value>) -> Result<(), ApiError> {
    const KNOWN: [&str; 5] = ["sla", "peak", "price", "currency", "spares"];
    let mut sla = run.sla.clone();
    for (name, value) in question {
        let text = || {
            value
                .as_str()
                .ok_or_else(|| invalid(format!("`{name}` is not a string")))
        };
        match name.as_str() {
            "sla" => {
                let terms = value
                    .as_array()
                    .ok_or_else(|| invalid("`sla` is not a list of terms, such as [\"ttft.p95<=500ms\"]"))?;
                let terms: Result<Vec<_>, ApiError> = terms
                    .iter()
                    .map(|term| {
                        let term = term
                            .as_str()
                            .ok_or_else(|| invalid("`sla` has something in it that is not a string"))?;
                        term.parse().map_err(|error| invalid(format!("`sla`: {error}")))
                    })
                    .collect();
                sla = Sla { terms: terms? };
            }
            "peak" => {
                run.peak = Some(
                    text()?
                        .parse()
                        .map_err(|error| invalid(format!("`peak`: {error}")))?,
                );
                // Another peak than a trace's.
                if let Some(demand) = &mut run.demand {
                    demand.trace = None;
                }
            }
            "price" => {
                let price = value.as_f64().filter(|price| (0.0..=1e9).contains(price));
                run.price_per_hour =
                    Some(price.ok_or_else(|| invalid("`price` is no amount an hour, such as 4.20"))?);
            }
            "currency" => {
                let code = text()?;
                if !(2..=8).contains(&code.len()) || !code.chars().all(|c| c.is_ascii_alphabetic()) {
                    return Err(invalid("`currency` is no currency's code, such as USD"));
                }
                code.clone_into(&mut run.currency);
            }
            "spares" => {
                let spares = value.as_u64().filter(|spares| *spares <= 1_000_000);
                run.demand.get_or_insert_default().spares =
                    spares.ok_or_else(|| invalid("`spares` is no whole number from 0 to 1000000"))?;
            }
            other => {
                return Err(invalid(format!(
                    "`{}` is unknown{}",
                    other.chars().take(60).collect::<String>(),
                    hint(other, &KNOWN)
                )));
            }
        }
    }
    ask_again(run, &sla);
    Ok(())
}

pub(super) async fn events(State(served): State<Arc<Served>>, Path(name): Name) -> Response {
    let Ok(seat) = Arc::clone(&served.watchers).try_acquire_owned() else {
        return answer::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many watch already; come again in a moment",
        );
    };
    let first = {
        let (served, name) = (Arc::clone(&served), name.clone());
        apart(move || served.house.see(&name).map(|seen| seen.summary())).await
    };
    match first {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return failed(&error),
        Err(response) => return response,
    }
    // What was told last, and whether that was the end.
    let state = (served, name, None::<Value>, seat);
    let stream = unfold(Some(state), async |state| {
        let (served, name, last, seat) = state?;
        loop {
            let (house, of) = (Arc::clone(&served), name.clone());
            let now = apart(move || {
                let seen = house.house.see(&of).ok()?;
                Some((seen.summary(), seen.job.status.is_final()))
            });
            let Ok(Some((summary, ended))) = now.await else {
                // It was deleted.
                return None;
            };
            if last.as_ref() != Some(&summary) {
                let event = Event::default().event("run").data(summary.to_string());
                let next = (!ended).then_some((served, name, Some(summary), seat));
                return Some((Ok::<_, Infallible>(event), next));
            }
            tokio::time::sleep(EVERY).await;
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}
