//! From path, key and parameters to an answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::case::{Case, Step};
use crate::connection::{Connection, Gone, LAST_CHUNK, Request, push_chunk, stream_head};
use crate::fault::{Fault, Page};
use crate::generation::{After, Generation};
use crate::openai::{self, Api, Asked};
use crate::script::{Overload, Script};
use crate::seen::{Ledger, SeenRequest};
use crate::shapes::{self, Shape};

/// How long a refusal for lack of capacity takes.
const REFUSAL: Duration = Duration::from_millis(2);
/// Pause after each write of a case, so that writes arrive as reads of their own.
const BETWEEN_WRITES: Duration = Duration::from_millis(3);

/// All that answering needs; one per server.
pub(crate) struct House {
    pub script: Script,
    pub ledger: Arc<Ledger>,
    pub slots: Option<Arc<Semaphore>>,
}

impl House {
    /// Answers one request.
    pub async fn answer(&self, connection: &mut Connection, request: &Request) -> Result<After, Gone> {
        let script = &self.script;
        let path = request.path.split('?').next().unwrap_or_default();
        let local = path.strip_prefix(script.prefix.as_str());
        let api = match local {
            Some("/v1/chat/completions") if script.shape == Shape::OpenAi => Some(Api::Chat),
            Some("/v1/completions") if script.shape == Shape::OpenAi => Some(Api::Completions),
            Some(local) => shapes::route(script.shape, local).map(Api::Other),
            None => None,
        };
        let (case, case_route) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        let case = script.cases.get(case);
        let body: Option<Value> = serde_json::from_slice(&request.body).ok();
        self.ledger.request(
            SeenRequest {
                method: request.method.clone(),
                path: request.path.clone(),
                headers: request.headers.clone(),
                body: body.clone().unwrap_or_default(),
            },
            api.is_some() || case.is_some() && case_route.ends_with("completions"),
            script.keep_requests,
        );
        if let Some(page) = &script.page {
            return self.page(connection, page).await;
        }
        if let Some(case) = case {
            return match case_route {
                "v1/models" => self.page(connection, &openai::models(&["m".to_owned()])).await,
                "v1/chat/completions" | "v1/completions" => self.play(connection, request, case).await,
                _ => self.page(connection, &not_found(path)).await,
            };
        }
        let Some(local) = local.filter(|local| !script.missing_routes.iter().any(|missing| missing == local))
        else {
            return self.page(connection, &not_found(path)).await;
        };
        if local == "/health" {
            return self.page(connection, &Page::new(200, "text/plain", "")).await;
        }
        if script
            .api_key
            .as_ref()
            .is_some_and(|key| request.header("authorization") != Some(&format!("Bearer {key}")))
        {
            let page = openai::error(401, "invalid_request_error", None, "Incorrect API key provided");
            return self.page(connection, &page).await;
        }
        let signed = request
            .header("authorization")
            .is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256 "));
        if script.shape == Shape::Sagemaker && !signed {
            let page = Page::json(403, r#"{"message":"Missing Authentication Token"}"#);
            return self.page(connection, &page).await;
        }
        if let Some(page) = shapes::about(script, local) {
            return self.page(connection, &page).await;
        }
        if let Some((_, page)) = script.routes.iter().find(|(route, _)| route == local) {
            return self.page(connection, page).await;
        }
        match api {
            Some(api) if request.method == "POST" => match self.checked(&body) {
                Ok((body, model)) => self.generate(connection, request, api, body, model).await,
                Err(page) => self.page(connection, &page).await,
            },
            Some(_) => {
                self.page(
                    connection,
                    &openai::error(405, "invalid_request_error", None, "Method Not Allowed"),
                )
                .await
            }
            None if local == "/v1/models"
                && matches!(script.shape, Shape::OpenAi | Shape::Responses | Shape::Messages) =>
            {
                self.page(connection, &openai::models(&script.models)).await
            }
            None => self.page(connection, &not_found(path)).await,
        }
    }

    async fn page(&self, connection: &mut Connection, page: &Page) -> Result<After, Gone> {
        self.ledger.status(page.status);
        connection.page(page).await?;
        Ok(After::KeepAlive)
    }

    /// The body and the model to answer as, or the refusal.
    fn checked<'a>(&'a self, body: &'a Option<Value>) -> Result<(&'a Value, &'a str), Page> {
        let Some(body @ Value::Object(fields)) = body else {
            return Err(openai::error(
                400,
                "invalid_request_error",
                None,
                "The body is not a JSON object",
            ));
        };
        if let Some(field) = self
            .script
            .refused
            .iter()
            .find(|field| fields.contains_key(*field))
        {
            let message = format!("Unrecognized request argument supplied: {field}");
            return Err(openai::error(400, "invalid_request_error", Some(field), &message));
        }
        let models = &self.script.models;
        match (body["model"].as_str(), models.as_slice()) {
            (Some(model), []) => Ok((body, model)),
            (None, []) => Ok((body, "m")),
            (None, [only]) => Ok((body, only)),
            (None, _) => Err(openai::error(
                400,
                "invalid_request_error",
                Some("model"),
                "you must provide a model parameter",
            )),
            (Some(model), models) if models.iter().any(|known| known == model) => Ok((body, model)),
            (Some(model), _) => {
                let message = format!("The model `{model}` does not exist.");
                Err(openai::error(404, "NotFoundError", Some("model"), &message))
            }
        }
    }

    async fn generate(
        &self,
        connection: &mut Connection,
        request: &Request,
        api: Api,
        body: &Value,
        model: &str,
    ) -> Result<After, Gone> {
        let script = &self.script;
        let asked = Asked::read(script, api, body);
        self.ledger.prompt(&asked.prompt);
        let number = self.ledger.number();
        let fault = script.fault_of(number);
        match fault {
            Some(Fault::Status(status)) => {
                return self
                    .page(
                        connection,
                        &openai::error(*status, "scripted", None, "scripted failure"),
                    )
                    .await;
            }
            Some(Fault::Page(page)) => return self.page(connection, page).await,
            _ => {}
        }
        let limit = script.capacity.map(|(limit, _)| limit);
        match self.ledger.admit(limit, number, request.arrived) {
            Some(flight) => {
                let slots = self.slots.as_ref();
                let generation = Generation {
                    script,
                    ledger: &self.ledger,
                    slots,
                    api,
                    asked: &asked,
                    model,
                    number,
                    flight,
                };
                generation.serve(connection, fault).await
            }
            None => {
                connection.until_instant(request.arrived + REFUSAL).await?;
                self.page(connection, &refusal(script)).await
            }
        }
    }

    /// Plays a case's bytes.
    async fn play(&self, connection: &mut Connection, request: &Request, case: &Case) -> Result<After, Gone> {
        let number = self.ledger.number();
        let Some(mut flight) = self.ledger.admit(None, number, request.arrived) else {
            return Err(Gone);
        };
        flight.update(|served| served.started = Some(served.arrived));
        let code = case.status.split(' ').next().and_then(|code| code.parse().ok());
        self.ledger.status(code.unwrap_or(0));
        connection
            .send(stream_head(&case.status, &case.content_type, &case.extra).as_bytes())
            .await?;
        for step in &case.steps {
            match step {
                Step::Send(bytes) => {
                    let mut out = Vec::with_capacity(bytes.len() + 16);
                    push_chunk(&mut out, bytes);
                    connection.send(&out).await?;
                    connection.until(tokio::time::sleep(BETWEEN_WRITES)).await?;
                }
                Step::Pause(pause) => connection.until(tokio::time::sleep(*pause)).await?,
                Step::Reset | Step::Close => {
                    flight.leave();
                    return Ok(if *step == Step::Reset {
                        After::Reset
                    } else {
                        After::Close
                    });
                }
            }
        }
        flight.leave();
        connection.send(LAST_CHUNK).await?;
        Ok(After::KeepAlive)
    }
}

fn not_found(path: &str) -> Page {
    openai::error(
        404,
        "invalid_request_error",
        None,
        &format!("Invalid URL ({path})"),
    )
}

fn refusal(script: &Script) -> Page {
    match script.capacity {
        Some((_, Overload::TooManyRequests { retry_after_s })) => {
            let page = openai::error(429, "rate_limit_error", None, "Too many requests in flight");
            match retry_after_s {
                Some(seconds) => page.header("retry-after", &seconds.to_string()),
                None => page,
            }
        }
        _ => openai::error(503, "overloaded_error", None, "The server is overloaded"),
    }
}
