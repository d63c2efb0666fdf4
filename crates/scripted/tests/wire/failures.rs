//! Refusals and failures, each as a client meets it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use plimsoll_scripted::{Cases, Fault, Page, Script, Scripted, When};
use serde_json::json;

use crate::client::{Client, Response, streamed};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The first answer of a server whose every request fails so.
fn struck(fault: Fault) -> (Scripted, Response) {
    let server = Scripted::start(Script::default().itl(ms(5)).fault(When::Every(1), fault)).unwrap();
    let response = Client::connect(server.addr()).chat(&streamed(8, "x")).unwrap();
    (server, response)
}

#[test]
fn every_nth_request_fails_and_the_connection_lives() {
    let server = Scripted::start(Script::default().fault(When::Every(3), Fault::Status(500))).unwrap();
    let mut client = Client::connect(server.addr());
    let statuses: Vec<_> = (0..7)
        .map(|_| client.chat(&streamed(1, "x")).unwrap().status)
        .collect();
    assert_eq!(statuses, [200, 200, 500, 200, 200, 500, 200]);
    let seen = server.seen();
    assert_eq!((seen.requests, seen.connections, seen.served.len()), (7, 1, 5));
    assert_eq!(
        seen.by_status.into_iter().collect::<Vec<_>>(),
        [(200, 5), (500, 2)]
    );
}

#[test]
fn a_stream_fails_after_the_tokens_it_was_told_to_send() {
    let (_, error) = struck(Fault::StreamError { after_tokens: 2 });
    assert_eq!((error.status, error.token_ms().len(), error.cut), (200, 2, None));
    assert!(error.events().last().unwrap().1["error"]["message"].is_string());

    let (_, truncated) = struck(Fault::Truncated { after_tokens: 2 });
    assert_eq!((truncated.token_ms().len(), truncated.cut), (2, None));
    assert!(!truncated.text().contains("[DONE]") && !truncated.text().contains("\"stop\""));

    let (_, closed) = struck(Fault::Closed { after_tokens: 3 });
    assert_eq!(
        (closed.token_ms().len(), closed.cut),
        (3, Some(ErrorKind::UnexpectedEof))
    );

    let (server, reset) = struck(Fault::Reset { after_tokens: 1 });
    assert_eq!(
        (reset.token_ms().len(), reset.cut),
        (1, Some(ErrorKind::ConnectionReset))
    );
    assert_eq!(server.seen().in_flight, 0);

    let (_, empty) = struck(Fault::Empty);
    assert_eq!((empty.token_ms().len(), empty.cut), (0, None));
    assert_eq!(empty.events().last().unwrap().1["usage"]["completion_tokens"], 0);
}

#[test]
fn silence_is_silent() {
    for fault in [Fault::Stalled { after_tokens: 1 }, Fault::NeverAnswers] {
        let server = Scripted::start(Script::default().fault(When::Only(1), fault.clone())).unwrap();
        let mut client = Client::connect(server.addr());
        client.read_timeout(ms(200));
        let cut = client
            .chat(&streamed(4, "x"))
            .map_or_else(|e| Some(e.kind()), |response| response.cut);
        assert!(
            matches!(cut, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
            "{fault:?}: {cut:?}"
        );
        assert_eq!(server.seen().in_flight, 1);
        drop(client);
        let patience = Instant::now() + Duration::from_secs(5);
        while server.seen().in_flight > 0 && Instant::now() < patience {
            std::thread::sleep(ms(2));
        }
        assert!(
            server.seen().served[0].abandoned,
            "a client that leaves ends its request"
        );
    }

    let server = Scripted::start(Script::default().silent()).unwrap();
    let mut client = Client::connect(server.addr());
    client.read_timeout(ms(200));
    client.get("/v1/models").unwrap_err();
}

#[test]
fn without_streaming_faults_strike_the_whole_answer() {
    let answer = |fault| {
        let server = Scripted::start(Script::default().fault(When::Every(1), fault)).unwrap();
        let mut body = streamed(8, "x");
        body["stream"] = json!(false);
        Client::connect(server.addr()).chat(&body)
    };
    assert!(answer(Fault::StreamError { after_tokens: 0 }).unwrap().json()["error"].is_object());
    assert_eq!(
        answer(Fault::Truncated { after_tokens: 0 }).unwrap().cut,
        Some(ErrorKind::UnexpectedEof)
    );
    assert_eq!(
        answer(Fault::Closed { after_tokens: 0 }).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(
        answer(Fault::Reset { after_tokens: 0 }).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    let empty = answer(Fault::Empty).unwrap().json();
    assert_eq!(empty["choices"][0]["message"]["content"], "");
    assert_eq!(empty["choices"][0]["finish_reason"], "stop");
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let script = Script::default()
        .models(["a", "b"])
        .refuses(["ignore_eos", "min_tokens"])
        .api_key("secret");
    let server = Scripted::start(script).unwrap();
    let mut client = Client::connect(server.addr());
    let mut call = |key: &str, body: &str| client.call("POST", "/v1/chat/completions", key, body).unwrap();
    let key = "Authorization: Bearer secret\r\n";
    assert_eq!(call("", "{}").status, 401);
    assert_eq!(call("authorization: Bearer other\r\n", "{}").status, 401);
    assert_eq!(call(key, "not json").status, 400);
    let refused = call(key, r#"{"model":"a","ignore_eos":true}"#);
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ignore_eos")
    );
    assert_eq!(call(key, "{}").status, 400, "several models and none named");
    let unknown = call(key, r#"{"model":"c"}"#);
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`c`")
    );
    assert_eq!(call(key, r#"{"model":"b"}"#).status, 200);
    assert_eq!(client.get("/health").unwrap().status, 200);
    let seen = server.seen();
    assert_eq!((seen.requests, seen.other_requests, seen.served.len()), (7, 1, 1));
    assert_eq!(seen.last[6].header("authorization"), Some("Bearer secret"));
    assert_eq!(seen.last[3].body["ignore_eos"], true);
}

#[test]
fn routes_are_where_the_script_puts_them() {
    let script = Script::default()
        .path_prefix("/inference/")
        .route("/metrics", Page::new(200, "text/plain", "up 1\n"));
    let server = Scripted::start(script.clone()).unwrap();
    let mut client = Client::connect(server.addr());
    assert_eq!(client.get("/v1/models").unwrap().status, 404);
    assert_eq!(
        client.get("/inference/v1/models").unwrap().json()["data"][0]["id"],
        "m"
    );
    assert_eq!(client.get("/inference/metrics").unwrap().text(), "up 1\n");
    assert_eq!(client.get("/inference/v1/completions").unwrap().status, 405);

    let server = Scripted::start(Script::default().without_route("/v1/models")).unwrap();
    let mut client = Client::connect(server.addr());
    assert_eq!(client.get("/v1/models").unwrap().status, 404);
    assert_eq!(client.chat(&streamed(1, "x")).unwrap().status, 200);

    let page = Page::html(502, "<html>Bad Gateway</html>").header("x-from", "proxy");
    let server = Scripted::start(Script::default().page(page)).unwrap();
    let mut client = Client::connect(server.addr());
    let response = client.chat(&streamed(1, "x")).unwrap();
    assert_eq!(
        (response.status, response.text().as_str()),
        (502, "<html>Bad Gateway</html>")
    );
    assert!(response.head.contains("content-type: text/html") && response.head.contains("x-from: proxy"));
}

#[test]
fn cases_are_played_byte_by_byte() {
    let fixture = r#"{
        "split": {"ops": [["s", "data: {\"a\""], ["ms", 30], ["b64", "OjF9Cgo="]], "ct": "text/odd", "extra": "x-a: b\r\n"},
        "reset": {"ops": [["s", "data: 1\n\n"], ["rst"]]},
        "closed": {"ops": [["s", "data: 1\n\n"], ["fin"]]}
    }"#;
    let server = Scripted::start(Script::default().cases(Cases::from_json(fixture).unwrap())).unwrap();
    let mut client = Client::connect(server.addr());
    let split = client
        .call("POST", "/split/v1/chat/completions", "", "{}")
        .unwrap();
    assert_eq!(split.text(), "data: {\"a\":1}\n\n");
    assert_eq!(split.chunks.len(), 2);
    assert!(split.chunks[1].0 - split.sent >= ms(30));
    assert!(split.head.contains("content-type: text/odd\r\nx-a: b\r\n"));
    assert_eq!(
        client.get("/split/v1/models").unwrap().json()["data"][0]["id"],
        "m"
    );
    let reset = client
        .call("POST", "/reset/v1/chat/completions", "", "{}")
        .unwrap();
    assert_eq!(
        (reset.text().as_str(), reset.cut),
        ("data: 1\n\n", Some(ErrorKind::ConnectionReset))
    );
    let closed = Client::connect(server.addr())
        .call("POST", "/closed/v1/chat/completions", "", "{}")
        .unwrap();
    assert_eq!(closed.cut, Some(ErrorKind::UnexpectedEof));
    assert_eq!(server.seen().requests, 3);
}
