//! The server as a client sees it, over a plain socket.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_sim::http::{ServeOptions, ServerHandle, serve};
use plimsoll_sim::preset::quick;
use serde_json::Value;

fn server() -> ServerHandle {
    serve(&quick().spec, &ServeOptions::default()).unwrap()
}

struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The `data:` lines.
    fn events(&self) -> Vec<&str> {
        self.body
            .split("\n\n")
            .filter(|event| !event.is_empty())
            .map(|event| event.strip_prefix("data: ").unwrap())
            .collect()
    }
}

fn connect(server: &ServerHandle) -> TcpStream {
    let stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &str, body: &str) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
}

fn ask_with(server: &ServerHandle, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = connect(server);
    send(&mut stream, method, path, headers, body);
    let mut raw = String::new();
    stream.read_to_string(&mut raw).unwrap();
    let (head, rest) = raw.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    let body = if head.contains("transfer-encoding: chunked") {
        unchunk(rest)
    } else {
        rest.to_owned()
    };
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        headers: head,
        body,
    }
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
}

fn post(server: &ServerHandle, path: &str, body: &str) -> Answer {
    ask_with(server, "POST", path, "", body)
}

fn get(server: &ServerHandle, path: &str) -> Answer {
    ask_with(server, "GET", path, "", "")
}

/// The value of a metric without further labels than the usual two.
fn metric(page: &str, name: &str) -> f64 {
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("vllm:{name}{{")))
        .unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

const CHAT: &str = r#"{"model":"plimsoll-quick","messages":[{"role":"user","content":"one two three"}]"#;

#[test]
fn a_chat_is_streamed_as_vllm_streams_it() {
    let server = server();
    let body = format!(
        r#"{CHAT},"max_tokens":4,"ignore_eos":true,"stream":true,"stream_options":{{"include_usage":true}}}}"#
    );
    let answer = post(&server, "/v1/chat/completions", &body);
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains("content-type: text/event-stream"));
    let events = answer.events();
    assert_eq!(events.len(), 1 + 4 + 1 + 1);
    assert_eq!(events[6], "[DONE]");
    let chunks: Vec<Value> = events[..6]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[0]["choices"][0]["delta"]["content"], "");
    for (at, chunk) in chunks[1..5].iter().enumerate() {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(
            !chunk["choices"][0]["delta"]["content"]
                .as_str()
                .unwrap()
                .is_empty()
        );
        let finish = &chunk["choices"][0]["finish_reason"];
        assert_eq!(finish.as_str(), (at == 3).then_some("length"));
        assert_eq!(chunk["id"], chunks[0]["id"]);
    }
    assert_eq!(chunks[5]["choices"], Value::Array(vec![]));
    // <start> user \n one two three <end> \n <start> assistant \n
    assert_eq!(chunks[5]["usage"]["prompt_tokens"], 11);
    assert_eq!(chunks[5]["usage"]["completion_tokens"], 4);
    assert_eq!(chunks[5]["usage"]["total_tokens"], 15);
    assert_eq!(chunks[5]["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

#[test]
fn without_include_usage_there_is_none_and_replies_end_by_themselves() {
    let server = server();
    let answer = post(
        &server,
        "/v1/chat/completions",
        &format!(r#"{CHAT},"stream":true}}"#),
    );
    assert!(!answer.body.contains("\"usage\""));
    let events = answer.events();
    let last: Value = serde_json::from_str(events[events.len() - 2]).unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["choices"][0]["delta"]["content"], "");
    assert!(events.len() > 24);
}

#[test]
fn completions_are_streamed_without_a_role() {
    let server = server();
    let body = r#"{"prompt":"one two","max_tokens":3,"ignore_eos":true,"stream":true}"#;
    let answer = post(&server, "/v1/completions", body);
    let events = answer.events();
    assert_eq!(events.len(), 4);
    let first: Value = serde_json::from_str(events[0]).unwrap();
    assert_eq!(first["object"], "text_completion");
    assert!(!first["choices"][0]["text"].as_str().unwrap().is_empty());
    assert!(!answer.body.contains("assistant"));
}

#[test]
fn whole_replies_carry_usage_and_prefix_hits() {
    let server = server();
    let prompt = "word ".repeat(40);
    let body = format!(r#"{{"prompt":"{prompt}","max_tokens":3,"ignore_eos":true}}"#);
    let first = post(&server, "/v1/completions", &body).json();
    assert_eq!(first["usage"]["prompt_tokens"], 40);
    assert_eq!(first["usage"]["completion_tokens"], 3);
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    assert_eq!(
        first["choices"][0]["text"].as_str().unwrap().split(' ').count(),
        3
    );
    let again = post(&server, "/v1/completions", &body).json();
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 32);
    assert_eq!(again["choices"][0]["text"], first["choices"][0]["text"]);
    let chat = post(
        &server,
        "/v1/chat/completions",
        &format!(r#"{CHAT},"max_tokens":2}}"#),
    )
    .json();
    assert_eq!(chat["object"], "chat.completion");
    assert_eq!(chat["choices"][0]["message"]["role"], "assistant");
    let page = get(&server, "/metrics").body;
    assert_eq!(metric(&page, "prefix_cache_queries_total"), 40.0 + 40.0 + 11.0);
    assert_eq!(metric(&page, "prefix_cache_hits_total"), 32.0);
}

#[test]
fn errors_have_vllms_shape() {
    let server = server();
    let refused = |path: &str, body: &str, status: u16| {
        let answer = post(&server, path, body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let error = answer.json();
        assert_eq!(error["error"]["code"], status);
        error["error"]["message"].as_str().unwrap().to_owned()
    };
    let message = refused(
        "/v1/chat/completions",
        r#"{"model":"nosuch","messages":[{"role":"user","content":"x"}]}"#,
        404,
    );
    assert_eq!(
        message,
        "The model `nosuch` does not exist. Valid aliases: plimsoll-quick."
    );
    refused("/v1/chat/completions", "{", 400);
    refused(
        "/v1/chat/completions",
        &format!(r#"{CHAT},"temperature":-1}}"#),
        400,
    );
    refused(
        "/v1/chat/completions",
        &format!(r#"{CHAT},"max_tokens":5000}}"#),
        400,
    );
    let long = format!(r#"{{"prompt":"{}"}}"#, "a ".repeat(5_000));
    assert!(refused("/v1/completions", &long, 400).contains("maximum context length is 4096"));
    refused("/v1/nosuch", "{}", 404);
    let wrong_method = get(&server, "/v1/completions");
    assert_eq!(wrong_method.status, 405);
    assert_eq!(wrong_method.json()["error"]["code"], 405);
    // One byte too much: all is read, so that the answer is not lost to a reset.
    let size = (64 << 20) + 1;
    let mut stream = connect(&server);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; size]).unwrap();
    let mut raw = String::new();
    stream.read_to_string(&mut raw).unwrap();
    assert!(raw.starts_with("HTTP/1.1 413 "), "{raw}");
    let body: Value = serde_json::from_str(raw.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["error"]["code"], 413);
}

#[test]
fn the_key_guards_v1_alone() {
    let options = ServeOptions {
        api_key: Some("secret".to_owned()),
        ..ServeOptions::default()
    };
    let server = serve(&quick().spec, &options).unwrap();
    assert_eq!(get(&server, "/v1/models").status, 401);
    assert_eq!(post(&server, "/v1/chat/completions", CHAT).status, 401);
    let wrong = ask_with(
        &server,
        "GET",
        "/v1/models",
        "authorization: Bearer wrong\r\n",
        "",
    );
    assert_eq!(wrong.status, 401);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let header = format!("authorization: {scheme} secret\r\n");
        let right = ask_with(&server, "GET", "/v1/models", &header, "");
        assert_eq!(right.status, 200, "{scheme}");
    }
    assert_eq!(get(&server, "/health").status, 200);
    assert_eq!(get(&server, "/metrics").status, 200);
}

#[test]
fn the_engine_tells_of_itself() {
    let server = server();
    let models = get(&server, "/v1/models").json();
    assert_eq!(models["data"][0]["id"], "plimsoll-quick");
    assert_eq!(models["data"][0]["max_model_len"], 4096);
    assert!(get(&server, "/version").json()["version"].is_string());
    assert_eq!(get(&server, "/health").body, "");
    let page = get(&server, "/metrics").body;
    for line in page.lines() {
        let value = line.rsplit(' ').next().unwrap();
        assert!(
            line.starts_with("# HELP vllm:")
                || line.starts_with("# TYPE vllm:")
                || value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    assert_eq!(metric(&page, "num_requests_running"), 0.0);
    assert!(page.contains(
        r#"vllm:time_to_first_token_seconds_bucket{engine="0",model_name="plimsoll-quick",le="+Inf"} 0"#
    ));
    assert!(page.contains(r#"num_gpu_blocks="8192""#));
}

/// Waits until a condition on `/metrics` holds.
fn until(server: &ServerHandle, holds: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let page = get(server, "/metrics").body;
        if holds(&page) {
            return page;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{page}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = server();
    for stream in ["true", "false"] {
        let aborts =
            r#"request_success_total{engine="0",model_name="plimsoll-quick",finished_reason="abort"}"#;
        let aborted = |page: &str| -> u64 {
            let line = page.lines().find(|line| line.contains(aborts)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let before = aborted(&get(&server, "/metrics").body);
        let mut client = connect(&server);
        let body = format!(r#"{CHAT},"max_tokens":3000,"ignore_eos":true,"stream":{stream}}}"#);
        send(&mut client, "POST", "/v1/chat/completions", "", &body);
        let busy = until(&server, |page| metric(page, "num_requests_running") == 1.0);
        assert!(metric(&busy, "kv_cache_usage_perc") > 0.0);
        drop(client);
        let free = until(&server, |page| metric(page, "num_requests_running") == 0.0);
        assert_eq!(metric(&free, "kv_cache_usage_perc"), 0.0);
        assert_eq!(aborted(&free), before + 1);
    }
}

#[test]
fn the_engine_keeps_its_pace_and_its_speed() {
    // A lone reply of 100 tokens takes 100 steps of 14.045 ms, and a tenth of it at ten times the speed.
    for speed in [1.0, 10.0] {
        let options = ServeOptions {
            speed,
            ..ServeOptions::default()
        };
        let server = serve(&quick().spec, &options).unwrap();
        let began = Instant::now();
        let body = format!(r#"{CHAT},"max_tokens":100,"ignore_eos":true}}"#);
        assert_eq!(post(&server, "/v1/chat/completions", &body).status, 200);
        let took = began.elapsed().as_secs_f64();
        let due = 1.4045 / speed;
        assert!(took >= due, "{took} at speed {speed}");
        assert!(took < due + 0.5, "{took} at speed {speed}");
    }
}

#[test]
fn a_dropped_handle_frees_the_port_and_a_taken_one_is_an_error() {
    let server = server();
    let addr = server.addr();
    let options = ServeOptions {
        listen: addr,
        ..ServeOptions::default()
    };
    assert!(serve(&quick().spec, &options).is_err());
    // A client with a reply under way does not hold the server up.
    let mut client = connect(&server);
    send(
        &mut client,
        "POST",
        "/v1/completions",
        "",
        r#"{"prompt":"x","max_tokens":3000,"ignore_eos":true}"#,
    );
    drop(server);
    assert!(serve(&quick().spec, &options).is_ok());
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = ServeOptions {
            speed,
            ..ServeOptions::default()
        };
        assert!(serve(&quick().spec, &options).is_err());
    }
}
