//! `plimsoll probe`: what an endpoint is, without a sweep.

mod harness;

use harness::{Folder, text};
use plimsoll_scripted::{Script, Scripted, closed_port};

#[test]
fn what_the_endpoint_is_and_the_request_it_took_are_told_without_secrets() {
    let server = Scripted::start(Script::default().api_key("sk-very-secret")).unwrap();
    let folder = Folder::new();
    let url = server.url();
    let arguments = [
        "probe",
        url.as_str(),
        "--api-key",
        "sk-very-secret",
        "--header",
        "X-Team: also-secret",
    ];
    let shown = folder.plimsoll(&arguments).expect_code(0).stdout;
    for word in [
        "Endpoint",
        "/v1/chat/completions",
        "openai-chat",
        "POST",
        "Takes",
        "Refuses",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let mut json = arguments.to_vec();
    json.push("--json");
    let finished = folder.plimsoll(&json).expect_code(0);
    for said in [&shown, &finished.stdout] {
        assert!(
            !said.contains("very-secret") && !said.contains("also-secret"),
            "{said}"
        );
    }
    let found = finished.json();
    assert_eq!(text(&found, "/schema"), "plimsoll.probe/1");
    assert_eq!(text(&found, "/target/dialect"), "openai-chat");
    assert_eq!(text(&found, "/request/method"), "POST");
    let body: serde_json::Value = serde_json::from_str(text(&found, "/request/body")).unwrap();
    assert_eq!(body["stream"], true);
    assert_eq!(body["model"], found["target"]["model"]);
    // Nothing is written.
    assert!(folder.files().is_empty());
}

#[test]
fn the_simulated_engine_is_probed_as_it_is_swept_and_an_absent_one_is_named() {
    let folder = Folder::new();
    let found = folder.plimsoll(&["probe", "sim", "--json"]).expect_code(0).json();
    assert_eq!(found["counts"], true);
    assert_eq!(found["streams"], true);
    let url = format!("http://{}", closed_port().unwrap());
    let finished = folder.plimsoll(&["probe", &url]).expect_code(5);
    assert!(finished.stderr.contains("refused"), "{finished:#?}");
    assert!(finished.stdout.is_empty());
    let finished = folder.plimsoll(&["probe", "simm"]).expect_code(2);
    assert!(finished.stderr.contains("did you mean `sim`"), "{finished:#?}");
}
