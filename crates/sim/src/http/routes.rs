//! The routes.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::engine::Request;
use crate::http::ask::{self, Route};
use crate::http::metrics;
use crate::http::pacer::Command;
use crate::http::refusal::Refusal;
use crate::http::reply::{Source, TokenStream};
use crate::http::shared::{Shared, unix_seconds};
use crate::http::wire::{Opening, Wire};

/// Request bodies up to this size are read.
const BODY_BYTES: usize = 64 << 20;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let guarded = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .method_not_allowed_fallback(|| async { Refusal::method() })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), check_key));
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ping", get(|| async { StatusCode::OK }))
        .route("/version", get(version))
        .route("/metrics", get(metrics_page))
        .merge(guarded)
        .method_not_allowed_fallback(|| async { Refusal::method() })
        .fallback(|| async { Refusal::not_found(None, "Not Found") })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(shared)
}

/// Everything under `/v1` needs the key, where there is one.
async fn check_key(State(shared): State<Arc<Shared>>, request: HttpRequest, next: Next) -> Response {
    let allowed = shared.api_key.as_ref().is_none_or(|key| {
        request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            // The scheme's case does not matter (RFC 9110, section 11.1).
            .is_some_and(|(scheme, given)| scheme.eq_ignore_ascii_case("bearer") && given.trim() == key)
    });
    if allowed {
        next.run(request).await
    } else {
        json_answer(
            StatusCode::UNAUTHORIZED,
            json!({"error": "Unauthorized"}).to_string(),
        )
    }
}

fn json_answer(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn version() -> Response {
    let version = concat!(env!("CARGO_PKG_VERSION"), "+plimsoll.sim");
    json_answer(StatusCode::OK, json!({"version": version}).to_string())
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let model = &shared.limits.model;
    let list = json!({"object": "list", "data": [{
        "id": model,
        "object": "model",
        "created": shared.started,
        "owned_by": "plimsoll",
        "root": model,
        "parent": null,
        "max_model_len": shared.limits.max_model_len,
        "permission": [],
    }]});
    json_answer(StatusCode::OK, list.to_string())
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let (reply, counters) = oneshot::channel();
    shared
        .commands
        .send(Command::Counters(reply))
        .map_err(|_| Refusal::stopped())?;
    let counters = counters.await.map_err(|_| Refusal::stopped())?;
    let text = metrics::text(&shared.spec, &counters, shared.endings());
    Ok((
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response())
}

/// A body, or why there is none.
type Posted = Result<Bytes, BytesRejection>;

async fn chat(State(shared): State<Arc<Shared>>, body: Posted) -> Result<Response, Refusal> {
    answer(shared, Route::Chat, body.map_err(Refusal::unread)?).await
}

async fn completions(State(shared): State<Arc<Shared>>, body: Posted) -> Result<Response, Refusal> {
    answer(shared, Route::Completions, body.map_err(Refusal::unread)?).await
}

async fn answer(shared: Arc<Shared>, route: Route, body: Bytes) -> Result<Response, Refusal> {
    let arrived = Instant::now();
    let ask = ask::read(route, &body, &shared.limits)?;
    drop(body);
    let id = shared.next_id();
    let wire = Wire::new(&Opening {
        route,
        serial: id,
        created: unix_seconds(),
        model: &shared.limits.model,
        prompt_tokens: ask.prompt.tokens,
        stops: ask.stops,
        text_seed: ask.prompt.hash,
    });
    let (sender, tokens) = mpsc::unbounded_channel();
    let source = Source::new(id, tokens, Arc::clone(&shared), ask.stops);
    let request = Request {
        id,
        prompt_tokens: ask.prompt.tokens,
        block_hashes: ask.prompt.block_hashes,
        output_tokens: ask.output_tokens,
    };
    shared
        .commands
        .send(Command::Submit {
            arrived,
            request,
            tokens: sender,
        })
        .map_err(|_| Refusal::stopped())?;
    if ask.stream {
        let stream = TokenStream::new(source, wire, ask.include_usage);
        return Ok((
            [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")],
            Body::new(stream),
        )
            .into_response());
    }
    let tokens = source.all().await;
    if tokens.last().is_none_or(|last| !last.last) {
        return Err(Refusal::stopped());
    }
    Ok(json_answer(StatusCode::OK, wire.whole(&tokens)))
}
