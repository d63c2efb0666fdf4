//! The schedule on the wire: tokens come when told, counts are what was told.

use std::time::Duration;

use crate::client::{Client, streamed};
use plimsoll_scripted::{Script, Scripted, Usage};
use serde_json::{Value, json};

/// Lateness allowed to a busy machine, in milliseconds; nothing may come early.
const SLACK: f64 = 100.0;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn tokens_come_by_absolute_deadlines() {
    // Sleeping for 5 ms at a time on a 1 ms timer would be some 200 ms late at the end.
    let server = Scripted::start(Script::default().ttft(ms(60)).itl(ms(5))).unwrap();
    let response = Client::connect(server.addr())
        .chat(&streamed(200, "a b c"))
        .unwrap();
    let late: Vec<f64> = response
        .token_ms()
        .iter()
        .enumerate()
        .map(|(i, at)| at - 60.0 - 5.0 * i as f64)
        .collect();
    assert_eq!(late.len(), 200);
    let least = |late: &[f64]| late.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least(&late) >= -0.1, "a token came early: {late:?}");
    assert!(least(&late[..50]) < SLACK, "the first tokens are late: {late:?}");
    assert!(least(&late[150..]) < SLACK, "the schedule drifts: {late:?}");

    let events = response.events();
    assert_eq!(
        events[0].1["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    assert!(
        (events[0].0 - response.sent) < ms(55),
        "the role chunk comes at once"
    );
    let usage = &events.last().unwrap().1;
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(
        usage["usage"],
        json!({"prompt_tokens": 3, "completion_tokens": 200, "total_tokens": 203})
    );
    assert!(response.text().ends_with("data: [DONE]\n\n"));

    let seen = server.seen();
    let served = &seen.served[0];
    assert_eq!(
        (served.tokens.len(), served.output_tokens, served.abandoned),
        (200, 200, false)
    );
    let first = served.tokens[0] - served.arrived;
    assert!(first >= ms(60), "{first:?}");
}

#[test]
fn without_streaming_the_answer_comes_when_the_last_token_would() {
    let server = Scripted::start(Script::default().ttft(ms(40)).itl(ms(10)).prompt_tokens(1.3, 23)).unwrap();
    let mut client = Client::connect(server.addr());
    let ten_words = "one two three four five six seven eight nine ten";
    let body = json!({"max_tokens": 7, "messages": [{"role": "user", "content": ten_words}]});
    let response = client.chat(&body).unwrap();
    let at = (response.chunks[0].0 - response.sent).as_secs_f64() * 1e3;
    assert!((99.9..100.0 + SLACK).contains(&at), "{at}");
    let json = response.json();
    assert_eq!(json["choices"][0]["message"]["content"], " t0 t1 t2 t3 t4 t5 t6");
    assert_eq!(json["choices"][0]["finish_reason"], "length");
    assert_eq!(
        json["usage"],
        json!({"prompt_tokens": 36, "completion_tokens": 7, "total_tokens": 43})
    );

    let text = client
        .call(
            "POST",
            "/v1/completions",
            "",
            r#"{"prompt":[5,6,7],"max_tokens":2}"#,
        )
        .unwrap()
        .json();
    assert_eq!(text["object"], "text_completion");
    assert_eq!(text["choices"][0]["text"], " t0 t1");
    assert_eq!(text["usage"]["prompt_tokens"], 3);
    assert_eq!(server.seen().connections, 1);
}

/// The usage objects of a stream, with whether `choices` was empty.
fn usages(usage: Usage, asked: bool) -> Vec<(bool, u64)> {
    let server = Scripted::start(Script::default().usage(usage)).unwrap();
    let mut body = streamed(2, "x");
    body["stream_options"]["include_usage"] = Value::Bool(asked);
    let events = Client::connect(server.addr()).chat(&body).unwrap().events();
    let with_usage = events.iter().filter(|(_, e)| e["usage"].is_object());
    with_usage
        .map(|(_, e)| {
            (
                e["choices"] == json!([]),
                e["usage"]["completion_tokens"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn usage_is_told_in_the_style_asked_for() {
    assert_eq!(usages(Usage::WhenAsked, true), [(true, 2)]);
    assert_eq!(usages(Usage::WhenAsked, false), []);
    assert_eq!(usages(Usage::Always, false), [(true, 2)]);
    assert_eq!(usages(Usage::OnFinish, false), [(false, 2)]);
    assert_eq!(
        usages(Usage::Cumulative, false),
        [(false, 1), (false, 2), (false, 2)]
    );
    assert_eq!(usages(Usage::Never, true), []);
}

#[test]
fn chunks_may_hold_several_tokens_and_begin_with_reasoning() {
    let server = Scripted::start(Script::default().tokens_per_chunk(4).reasoning_tokens(6)).unwrap();
    let response = Client::connect(server.addr()).chat(&streamed(12, "x")).unwrap();
    let deltas: Vec<(bool, usize)> = response
        .events()
        .iter()
        .filter_map(|(_, e)| {
            let delta = &e["choices"][0]["delta"];
            let words = |v: &Value| {
                v.as_str()
                    .map(|s| s.split_whitespace().count())
                    .filter(|n| *n > 0)
            };
            words(&delta["reasoning_content"])
                .map(|n| (true, n))
                .or(words(&delta["content"]).map(|n| (false, n)))
        })
        .collect();
    assert_eq!(deltas, [(true, 4), (true, 2), (false, 4), (false, 2)]);
}
