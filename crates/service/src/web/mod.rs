//! The server: the API, REST beside it and the page, on one port.

mod answer;
mod aws;
pub mod gate;
mod page;
mod rest;
mod runs;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::api::Api;
use crate::results::LocalS3;

use gate::Gate;

/// The largest body that is read.
const LARGEST_BODY: usize = 1 << 20;
/// How long a client may take to send one.
const BODY_TIME: Duration = Duration::from_secs(30);
/// So many may watch jobs at once.
const WATCHERS: usize = 64;
/// So many requests are seen to at once; the next are told to come again.
const AT_ONCE: usize = 64;

/// What the server serves.
pub struct House {
    /// The operations.
    pub api: Api,
    /// Who may come in.
    pub gate: Gate,
    /// Where results are.
    pub results: LocalS3,
}

/// With what bounds it.
struct Served {
    house: House,
    slots: Semaphore,
    watchers: Arc<Semaphore>,
    /// The last report written of a job that goes on: its number, its rungs, the page.
    report: Mutex<Option<(i64, usize, String)>>,
}

/// Serves until the process ends.
///
/// # Errors
/// When the system takes the port away.
pub async fn serve(listener: TcpListener, house: House) -> std::io::Result<()> {
    axum::serve(listener, router(house)).await
}

fn router(house: House) -> Router {
    let served = Arc::new(Served {
        house,
        slots: Semaphore::new(AT_ONCE),
        watchers: Arc::new(Semaphore::new(WATCHERS)),
        report: Mutex::new(None),
    });
    let gated = Router::new()
        .route("/", get(page::jobs))
        .route("/page.js", get(page::script))
        .route("/jobs/{name}", get(page::job))
        .route("/jobs/{name}/live", get(page::live))
        .route("/jobs/{name}/stop", post(page::stop))
        .route("/api/runs", get(rest::list))
        .route("/api/runs/{name}", get(rest::one))
        .route("/api/runs/{name}/events", get(rest::events))
        .route("/api/runs/{name}/plan", post(rest::plan))
        .route("/api/runs/{name}/report", get(rest::html))
        .route("/api/runs/{name}/output.tar.gz", get(rest::archive))
        .route("/api/runs/{name}/stop", post(rest::stop))
        .layer(from_fn_with_state(Arc::clone(&served), gated));
    // Whose requests are signed is seen once their bodies are read.
    Router::new()
        .route("/", post(aws::call))
        .merge(gated)
        .route("/health", get(async || "ok\n"))
        .fallback(async || answer::error(StatusCode::NOT_FOUND, "there is nothing at this address"))
        .layer(from_fn_with_state(Arc::clone(&served), bounded))
        .with_state(served)
}

/// Turns requests away that come while too many others are seen to.
async fn bounded(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let Ok(_slot) = served.slots.try_acquire() else {
        return if request.headers().contains_key(aws::TARGET) {
            aws::too_many()
        } else {
            answer::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at once; come again in a moment",
            )
        };
    };
    next.run(request).await
}

/// Lets in who may come in.
async fn gated(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    match served.house.gate.admit(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(reason) if served.house.gate.asks_for_token() => {
            let mut response = answer::error(StatusCode::UNAUTHORIZED, &reason);
            // A browser then asks for a name, which does not matter, and a password, which is the token.
            response.headers_mut().insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"plimsoll\""),
            );
            response
        }
        Err(reason) => answer::error(StatusCode::FORBIDDEN, &reason),
    }
}

/// The whole body of a request, within bounds.
async fn body(body: Body) -> Result<Bytes, (StatusCode, &'static str)> {
    let read = axum::body::to_bytes(body, LARGEST_BODY);
    match tokio::time::timeout(BODY_TIME, read).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than 1 MiB, or was cut short",
        )),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took longer than 30 s")),
    }
}

/// Work that waits for a disk, off the thread that holds the connections.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Response> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        // It panicked: a defect, and not the client's.
        answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server failed; its log says how",
        )
        .into_response()
    })
}
