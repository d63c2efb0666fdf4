//! What cannot be measured is found out before any load, within 10 s, in one line with cause and remedy.

use std::time::{Duration, Instant};

use plimsoll_load::{PrepareError, Secret};
use plimsoll_run::request::FailureClass;
use plimsoll_scripted::{Fault, Page, Script, When, closed_port};

use crate::harness::{at, measure, ms, prepared, refusal, rung, server, workload};

#[test]
fn a_closed_port() {
    let error = refusal(&at(format!("http://{}", closed_port().unwrap())));
    assert!(matches!(error, PrepareError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[test]
fn a_host_that_does_not_resolve() {
    let began = Instant::now();
    let error = refusal(&at("http://no-such-host.invalid:8000"));
    assert!(matches!(error, PrepareError::Dns { .. }), "{error}");
    assert!(error.to_string().contains("`no-such-host.invalid`"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_url_without_scheme() {
    assert!(
        refusal(&at("localhost:8000"))
            .to_string()
            .contains("write http://localhost:8000")
    );
}

#[test]
fn a_missing_or_wrong_key() {
    let server = server(Script::default().api_key("sk-right-one"));
    let error = refusal(&at(server.url()));
    assert!(
        matches!(error, PrepareError::Unauthorized { status: 401, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("give a key with --api-key"), "{error}");
    let mut options = at(server.url());
    options.api_key = Some(Secret::new("sk-wrong-one"));
    let error = refusal(&options);
    assert!(error.to_string().contains("check the key"), "{error}");
    assert!(!error.to_string().contains("sk-wrong-one"), "{error}");
}

#[test]
fn a_key_that_the_server_repeats_is_hidden() {
    let page = Page::json(403, r#"{"error":{"message":"key sk-wrong-one is not allowed"}}"#);
    let server = server(Script::default().page(page));
    let mut options = at(server.url());
    options.headers = vec![("X-Api-Key".to_owned(), Secret::new("sk-wrong-one"))];
    let error = refusal(&options).to_string();
    assert!(error.contains("403: key *** is not allowed"), "{error}");
}

#[test]
fn a_header_that_cannot_be_sent() {
    let mut options = at("http://127.0.0.1:9");
    options.headers = vec![("X Y".to_owned(), Secret::new("z"))];
    let error = refusal(&options);
    assert!(error.to_string().contains("`X Y`") && error.is_usage());
    options.headers = vec![("content-Length".to_owned(), Secret::new("0"))];
    let error = refusal(&options);
    assert!(
        error.to_string().contains("leave it out") && error.is_usage(),
        "{error}"
    );
    assert!(refusal(&at("http://[::1]:99999")).is_usage());
    assert!(!refusal(&at(format!("http://{}", closed_port().unwrap()))).is_usage());
}

#[test]
fn a_route_that_is_not_there() {
    let server = server(Script::default());
    let error = refusal(&at(server.url() + "/elsewhere"));
    assert!(
        matches!(error, PrepareError::NoRoute { status: 404, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("/elsewhere/v1/chat/completions"),
        "{error}"
    );
}

#[test]
fn a_page_for_people() {
    let server =
        server(Script::default().page(Page::html(200, "<!DOCTYPE html><html><body>Log in</body></html>")));
    let error = refusal(&at(server.url()));
    assert!(matches!(error, PrepareError::Html { .. }), "{error}");
}

#[test]
fn a_redirection_is_named() {
    let page = Page::html(301, "").header("location", "https://elsewhere/v1");
    let server = server(Script::default().page(page));
    let error = refusal(&at(server.url()));
    assert!(error.to_string().contains("to https://elsewhere/v1"), "{error}");
}

#[test]
fn a_model_that_is_not_there() {
    let server = server(Script::default().models(["llama-3.1-8b"]));
    let mut options = at(server.url());
    options.model = Some("lama-3.1-8b".to_owned());
    let error = refusal(&options);
    assert!(matches!(error, PrepareError::NoModel { .. }), "{error}");
    assert!(
        error.to_string().contains("did you mean `llama-3.1-8b`?"),
        "{error}"
    );
}

#[test]
fn several_models_and_none_chosen() {
    let server = server(Script::default().models(["a", "b"]));
    let error = refusal(&at(server.url())).to_string();
    assert!(error.contains("--model: a, b"), "{error}");
}

#[test]
fn a_server_that_takes_connections_and_never_answers() {
    let server = server(Script::default().silent());
    let began = Instant::now();
    let error = refusal(&at(server.url()));
    assert!(matches!(error, PrepareError::Silent { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_fails_every_request() {
    for (fault, said) in [
        (Fault::Status(500), "500"),
        (Fault::Page(Page::new(200, "text/plain", "hello")), "malformed"),
    ] {
        let server = server(Script::default().fault(When::Every(1), fault));
        let began = Instant::now();
        let error = refusal(&at(server.url())).to_string();
        assert!(error.contains(said), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

/// An endpoint may fail requests inside their replies now and then: that is measured, not refused.
#[test]
fn a_server_that_fails_every_request_inside_its_reply_is_measured() {
    for (fault, class) in [
        (
            Fault::StreamError { after_tokens: 0 },
            FailureClass::InStreamError,
        ),
        (Fault::Empty, FailureClass::EmptyResponse),
        (
            Fault::Truncated { after_tokens: 1 },
            FailureClass::TruncatedStream,
        ),
    ] {
        let server = server(Script::default().fault(When::Every(1), fault));
        let workload = workload(16, 4);
        let prepared = prepared(&at(server.url()), &workload);
        let evidence = measure(prepared, &workload, &rung(2, 1, ms(100), ms(300)));
        assert!(!evidence.requests.is_empty());
        for record in &evidence.requests {
            assert_eq!(record.failure.as_ref().map(|failure| failure.class), Some(class));
        }
    }
}
