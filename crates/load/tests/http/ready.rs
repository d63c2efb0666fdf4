//! What is found out of an endpoint that can be measured.

use plimsoll_load::Secret;
use plimsoll_run::target::Dialect;
use plimsoll_run::workload::Workload;
use plimsoll_scripted::{Fault, Page, Script, Seen, Usage, When};

use crate::harness::{at, measure, ms, prepared, rung, server, workload};

/// The body of the last request that had one: pages about the server are asked for as well.
fn last_body(seen: &Seen) -> &serde_json::Value {
    let post = seen.last.iter().rfind(|request| request.method == "POST");
    &post.unwrap().body
}

#[test]
fn one_model_is_found_and_every_spelling_leads_to_one_url() {
    let server = server(Script::default().models(["org/model-1"]));
    for tail in ["", "/", "/v1", "/v1/", "/v1/chat/completions"] {
        let found = prepared(&at(server.url() + tail), &workload(16, 4));
        assert_eq!(found.target.url, server.url() + "/v1/chat/completions");
        assert_eq!(found.target.model.as_deref(), Some("org/model-1"));
        assert_eq!(found.target.dialect, Dialect::OpenaiChat);
        assert_eq!(found.notes, [""; 0]);
    }
}

#[test]
fn a_path_prefix_and_a_key_are_used() {
    let server = server(Script::default().path_prefix("/inference").api_key("sk-secret"));
    let mut options = at(server.url() + "/inference");
    options.api_key = Some(Secret::new("sk-secret"));
    let found = prepared(&options, &workload(16, 4));
    assert_eq!(found.target.url, server.url() + "/inference/v1/chat/completions");
    assert!(!format!("{found:?}").contains("sk-secret"));
}

#[test]
fn without_a_list_of_models_none_is_named() {
    let server = server(Script::default().models([""; 0]).without_route("/v1/models"));
    let found = prepared(&at(server.url()), &workload(16, 4));
    assert_eq!(found.target.model, None);
    assert!(found.notes[0].contains("404"), "{:?}", found.notes);
    let seen = server.seen();
    let body = last_body(&seen);
    assert_eq!(body.get("model"), None);
}

#[test]
fn refused_fields_are_dropped_and_named() {
    let server = server(Script::default().refuses(["ignore_eos", "stream_options", "max_tokens"]));
    let found = prepared(&at(server.url()), &workload(16, 4));
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("`ignore_eos`") && notes.contains("`stream_options`"),
        "{notes}"
    );
    assert!(!notes.contains("min_tokens"), "{notes}");
}

#[test]
fn a_server_that_only_takes_max_completion_tokens_gets_it() {
    let refusal = r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}"#;
    let server = server(Script::default().fault(When::Only(1), Fault::Page(Page::json(400, refusal))));
    let found = prepared(&at(server.url()), &workload(16, 4));
    assert!(
        found.notes[0].contains("max_completion_tokens"),
        "{:?}",
        found.notes
    );
    let seen = server.seen();
    let body = last_body(&seen);
    assert_eq!(body["max_completion_tokens"], 4);
    assert_eq!(body.get("max_tokens"), None);
}

#[test]
fn a_field_dropped_by_guess_comes_back_when_it_was_innocent() {
    let dumb = Page::json(422, r#"{"detail":"bad request"}"#);
    // Refused until `ignore_eos` has gone, which is the second to go.
    let server = server(Script::default().fault(When::First(2), Fault::Page(dumb)));
    let found = prepared(&at(server.url()), &workload(16, 4));
    assert!(found.notes[0].contains("`ignore_eos`"), "{:?}", found.notes);
    assert!(!found.notes[0].contains("`min_tokens`"), "{:?}", found.notes);
    assert_eq!(last_body(&server.seen())["min_tokens"], 4);
}

#[test]
fn prompts_reach_their_length_by_the_servers_count() {
    for (per_word, overhead, asked) in [(1.0, 0, 64), (1.3, 37, 512), (2.6, 11, 300), (1.0, 30, 1024)] {
        for streaming in [true, false] {
            let server = server(Script::default().prompt_tokens(per_word, overhead));
            let workload = Workload {
                streaming,
                ..workload(asked, 3)
            };
            let found = prepared(&at(server.url()), &workload);
            assert_eq!(found.notes, [""; 0]);
            let evidence = measure(found, &workload, &rung(2, 1, ms(0), ms(100)));
            assert!(!evidence.requests.is_empty());
            for record in &evidence.requests {
                let tokens = f64::from(record.input_tokens.unwrap());
                let asked = f64::from(asked);
                assert!((tokens - asked).abs() <= 0.05 * asked, "{tokens} for {asked}");
                assert_eq!(record.output_tokens, Some(3));
            }
        }
    }
}

#[test]
fn an_overhead_above_the_asked_length_is_said() {
    let server = server(Script::default().prompt_tokens(1.0, 40));
    let found = prepared(&at(server.url()), &workload(16, 4));
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("overhead is 40 tokens") && notes.contains("41 tokens where 16"),
        "{notes}"
    );
}

#[test]
fn without_usage_lengths_are_estimates_and_said_to_be() {
    let server = server(Script::default().usage(Usage::Never));
    let workload = workload(16, 4);
    let found = prepared(&at(server.url()), &workload);
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("one token a word") && notes.contains("counted from chunks"),
        "{notes}"
    );
    let evidence = measure(found, &workload, &rung(1, 1, ms(0), ms(50)));
    let record = &evidence.requests[0];
    assert_eq!((record.output_tokens, record.output_estimated), (Some(4), true));
    assert_eq!(record.input_tokens, None);
}

#[test]
fn one_response_time_is_known_before_the_first_rung() {
    let server = server(Script::default().ttft(ms(40)).itl(ms(10)));
    let found = prepared(&at(server.url()), &workload(16, 7));
    assert!(found.first_response >= ms(100), "{:?}", found.first_response);
    assert!(found.first_response < ms(400), "{:?}", found.first_response);
}

#[test]
fn a_server_that_fails_some_requests_can_still_be_measured() {
    for fault in [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Empty,
        Fault::Closed { after_tokens: 1 },
        Fault::StreamError { after_tokens: 0 },
    ] {
        let server = server(Script::default().fault(When::Every(2), fault.clone()));
        let found = prepared(&at(server.url()), &workload(16, 4));
        assert_eq!(found.notes, [""; 0], "{fault:?}");
    }
}
