//! The page: the jobs, and one of them. It is whole without its script, which only keeps it up to date.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderValue, LOCATION};
use axum::response::Response;
use plimsoll_report::{STYLE, html_text};

use super::runs::{Seen, date};
use super::{Served, answer, apart, rest};
use crate::api::{ApiError, output_location};
use crate::store::Listing;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Nothing comes from elsewhere, and nothing in a job's names or tags can become a script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; \
                      frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = html_text(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}: Plimsoll</title>\n\
         <style>{STYLE}{CSS}</style>\n<script src=\"/page.js\" defer></script>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n{body}\n</body>\n</html>\n"
    );
    let mut response = answer::whole(status, "text/html; charset=utf-8", text);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

pub(super) async fn script() -> Response {
    answer::whole(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT)
}

/// The jobs, the newest first.
pub(super) async fn jobs(State(served): State<Arc<Served>>) -> Response {
    let listed = apart(move || -> Result<(Vec<Seen>, bool), ApiError> {
        let page = served.house.api.store.jobs(&Listing::default())?;
        let more = page.next.is_some();
        let seen = page.items.into_iter().map(|job| served.house.seen(job));
        Ok((seen.collect(), more))
    });
    match listed.await {
        Ok(Ok((jobs, more))) => page(StatusCode::OK, "Jobs", &list(&jobs, more)),
        Ok(Err(error)) => rest::failed(&error),
        Err(response) => response,
    }
}

fn list(jobs: &[Seen], more: bool) -> String {
    let mut body = "<header><h1>Jobs</h1></header><main id=\"main\">".to_owned();
    if jobs.is_empty() {
        body.push_str(
            "<p>No job yet. Make a workload config and a job with any client of SageMaker's API, its endpoint URL set to this \
             server.</p>",
        );
    } else {
        body.push_str(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Jobs\"><table id=\"jobs\"><thead><tr>\
             <th scope=\"col\" class=\"words\">job</th><th scope=\"col\" class=\"words\">status</th>\
             <th scope=\"col\" class=\"words\">target</th><th scope=\"col\" class=\"words\">made</th>\
             <th scope=\"col\">rungs</th><th scope=\"col\">best concurrency</th><th scope=\"col\">SLA limit</th>\
             <th scope=\"col\">instances</th></tr></thead><tbody>",
        );
        for seen in jobs {
            body.push_str(&row(seen));
        }
        body.push_str("</tbody></table></div>");
        if more {
            body.push_str("<p>Older jobs are in <a href=\"/api/runs\">/api/runs</a>.</p>");
        }
    }
    body.push_str("</main>");
    body
}

fn row(seen: &Seen) -> String {
    let job = &seen.job;
    let name = html_text(&job.made.name);
    let rungs = seen.run.as_ref().map_or(0, |run| run.rungs.len());
    let numbers = seen
        .fragments()
        .map(|fragments| fragments.numbers)
        .unwrap_or_default();
    let [best, limit, instances] = numbers.map(|number| html_text(&number));
    format!(
        "<tr data-id=\"{name}\" data-open=\"{}\"><th scope=\"row\" class=\"words\"><a href=\"/jobs/{name}\">{name}</a></th>\
         <td class=\"words\" data-is=\"status\">{}</td><td class=\"words\">{}</td><td class=\"words\">{}</td>\
         <td data-is=\"rungs\">{rungs}</td><td data-is=\"best\">{best}</td><td data-is=\"limit\">{limit}</td>\
         <td data-is=\"instances\">{instances}</td></tr>",
        !job.status.is_final(),
        status(seen),
        html_text(&job.made.target),
        date(job.created_ms),
    )
}

fn status(seen: &Seen) -> &'static str {
    if seen.job.is_queued() {
        "Queued"
    } else {
        seen.job.status.name()
    }
}

/// A job.
pub(super) async fn job(State(served): State<Arc<Served>>, Path(name): Path<String>) -> Response {
    match apart(move || served.house.see(&name)).await {
        Ok(Ok(seen)) => page(StatusCode::OK, &seen.job.made.name, &whole(&seen)),
        Ok(Err(error)) => {
            let text = format!(
                "<main id=\"main\"><h1>Not here</h1><p>{}</p><p><a href=\"/\">All jobs</a></p></main>",
                html_text(&error.message)
            );
            page(StatusCode::NOT_FOUND, "Not here", &text)
        }
        Err(response) => response,
    }
}

/// What changes while a job goes on, for the script to put in place.
pub(super) async fn live(State(served): State<Arc<Served>>, Path(name): Path<String>) -> Response {
    match apart(move || served.house.see(&name)).await {
        Ok(Ok(seen)) => answer::whole(StatusCode::OK, "text/html; charset=utf-8", changing(&seen)),
        Ok(Err(error)) => rest::failed(&error),
        Err(response) => response,
    }
}

/// The stop button: asks, and shows the job again.
pub(super) async fn stop(State(served): State<Arc<Served>>, Path(name): Path<String>) -> Response {
    let place = HeaderValue::from_str(&format!("/jobs/{name}"));
    match apart(move || served.house.api.stop(&name)).await {
        Ok(Ok(_)) => {
            let mut response = answer::whole(StatusCode::SEE_OTHER, "text/plain", "");
            if let Ok(place) = place {
                response.headers_mut().insert(LOCATION, place);
            }
            response
        }
        Ok(Err(error)) => rest::failed(&error),
        Err(response) => response,
    }
}

fn whole(seen: &Seen) -> String {
    let name = html_text(&seen.job.made.name);
    let open = !seen.job.status.is_final();
    let mut body = format!(
        "<header><p><a href=\"/\">All jobs</a></p><h1>{name}</h1></header>\
         <main id=\"main\" data-job=\"{name}\" data-open=\"{open}\"><div id=\"live\">{}</div>",
        changing(seen)
    );
    let hidden = if seen.fragments().is_some() { "" } else { " hidden" };
    let _ = write!(
        body,
        "<section id=\"charts\"{hidden}><h2>Report</h2><p><a href=\"/api/runs/{name}/report\">On a page of its own</a></p>\
         <iframe title=\"Report of {name} with charts\" src=\"/api/runs/{name}/report\" loading=\"lazy\"></iframe></section>\
         </main>"
    );
    body
}

fn changing(seen: &Seen) -> String {
    let job = &seen.job;
    let name = html_text(&job.made.name);
    let mut body = format!(
        "<p class=\"sub\" role=\"status\"><strong>{}</strong> on target {}, workload {}, made {}{}{}</p>",
        status(seen),
        html_text(&job.made.target),
        html_text(&job.made.config),
        date(job.created_ms),
        job.started_ms
            .map_or_else(String::new, |ms| format!(", begun {}", date(ms))),
        job.ended_ms
            .map_or_else(String::new, |ms| format!(", ended {}", date(ms))),
    );
    if let Some(reason) = &job.failure {
        let _ = write!(body, "<p class=\"bad\">{}</p>", html_text(reason));
    }
    for note in seen.notes() {
        let _ = write!(body, "<p class=\"sub\">{}</p>", html_text(&note));
    }
    if !job.status.is_final() {
        let disabled = if job.status == crate::job::Status::Stopping {
            " disabled"
        } else {
            ""
        };
        let _ = write!(
            body,
            "<form method=\"post\" action=\"/jobs/{name}/stop\"><button{disabled}>Stop, and keep what was measured</button></form>"
        );
    }
    match seen.fragments() {
        Some(parts) => {
            let _ = write!(
                body,
                "<section aria-labelledby=\"numbers-title\"><h2 id=\"numbers-title\">Planning numbers{}</h2>\
                 <div class=\"cards\">{}</div></section>{}<section aria-labelledby=\"rungs-title\">\
                 <h2 id=\"rungs-title\">Levels measured</h2>{}</section>",
                if job.status.is_final() { "" } else { " so far" },
                parts.cards,
                parts.warnings,
                parts.rungs
            );
        }
        None => body.push_str("<p>No level is measured yet.</p>"),
    }
    if job.status.is_final() && seen.fragments().is_some() {
        let place = output_location(job).map_or_else(String::new, |place| place.to_string());
        let _ = write!(
            body,
            "<p><a href=\"/api/runs/{name}/output.tar.gz\">Results as an archive</a>, in {}output/output.tar.gz</p>",
            html_text(&place)
        );
    }
    body
}
