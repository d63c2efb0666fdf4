//! Bad input is found before any load is sent, and the one line that says so names the thing and the remedy.

mod harness;

use std::time::Duration;

use harness::Folder;
use plimsoll_scripted::{Page, Script, Scripted, closed_port};

/// Usage errors: exit 2, and nothing is written.
#[test]
fn usage_errors_name_the_nearest_valid_thing() {
    let url = format!("http://{}", closed_port().unwrap());
    for (arguments, expected) in [
        (&["--levls", "1"][..], "--levels"),
        (&["--sla", "tfft.p95<=1s"], "did you mean `ttft`"),
        (&["--sla", "ttft.p955<=1s"], "did you mean `p95`"),
        (&["--sla", "ttft.p95<=1sec"], "units are ms and s"),
        (&["--sla", "ttft.p95<=1"], "needs a unit"),
        (&["--sla", "error_rate<=5"], "error_rate<=0.05"),
        (&["--levels", "0,4"], "level `0`"),
        (&["--levels", "16,4"], "ascending"),
        (&["--levels", "4,4"], "stands twice"),
        (&["--levels", "4,x"], "level `x`"),
        (&["--levels", ""], "level ``"),
        (&["--peak", "40"], "has no unit"),
        (&["--peak", "40rsp"], "did you mean `rps`"),
        (&["--rung-time", "10"], "has no unit"),
        (&["--rung-time", "10sm"], "not a unit"),
        (&["--input-tokens", "0"], "not a token length"),
        (&["--resolution", "0"], "0.05"),
        (&["--dialect", "openai-chats"], "did you mean `openai-chat`"),
        (&["--no-stream", "--sla", "ttft.p95<=1s"], "--no-stream"),
        (&["--min", "8", "--max", "4"], "--min 8 is above --max 4"),
        (&["--levels", "1,4", "--max", "2"], "--max 2"),
        (
            &["--api-key-env", "PLIMSOLL_NO_SUCH_VARIABLE"],
            "PLIMSOLL_NO_SUCH_VARIABLE",
        ),
        (&["--config", "no-such-file.toml"], "no-such-file.toml"),
        (&["--speed", "2"], "simulated engine"),
    ] {
        let folder = Folder::new();
        let mut all = vec!["sweep", url.as_str()];
        all.extend(arguments);
        let finished = folder.plimsoll(&all).expect_code(2);
        assert!(
            finished.stderr.contains(expected),
            "{arguments:?}: {}",
            finished.stderr
        );
        assert!(finished.stdout.is_empty(), "{arguments:?}");
        assert!(folder.files().is_empty(), "{arguments:?} wrote something");
    }
}

#[test]
fn targets_that_are_none_name_what_would_do() {
    let folder = Folder::new();
    std::fs::write(
        folder.path().join("plimsoll.toml"),
        "[targets.prod]\nurl = \"http://127.0.0.1:1\"\n",
    )
    .unwrap();
    for (target, expected) in [
        ("prdo", "did you mean `prod`"),
        ("simm", "did you mean `sim`"),
        ("sim:nemotron-3-nan", "nemotron-3-nano"),
        ("sim:nemotron-3-nano@ml.g7e.2xlage", "ml.g7e.2xlarge"),
    ] {
        let finished = folder.plimsoll(&["sweep", target]).expect_code(2);
        assert!(
            finished.stderr.contains(expected),
            "{target}: {}",
            finished.stderr
        );
    }
}

#[test]
fn unknown_keys_of_the_sweep_file_name_line_and_nearest_key() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("plimsoll.toml"), "[sweep]\nresoluton = 0.1\n").unwrap();
    let finished = folder.plimsoll(&["sweep", "sim"]).expect_code(2);
    assert!(finished.stderr.contains("line 2"), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("did you mean `resolution`"),
        "{}",
        finished.stderr
    );
}

/// Values of the wrong kind: the line, the key, and what to write, without the names of the program's types.
#[test]
fn wrong_kinds_in_the_sweep_file_are_said_in_plain_words() {
    let folder = Folder::new();
    for (text, expected) in [
        (
            "[sweep]\nmin = \"4\"\n",
            "line 2: `sweep.min` is \"4\"; write a whole number",
        ),
        (
            "[peak]\nload = \"40rps\"\nmean-load = \"x\"\n",
            "line 3: `peak.mean-load`",
        ),
        ("[workload]\nturns = \"x\"\n", "line 2: `workload.turns`"),
        (
            "[targets.prod]\nhttp2 = \"yes\"\n",
            "line 2: `targets.prod.http2` is \"yes\"; write true or false",
        ),
    ] {
        std::fs::write(folder.path().join("plimsoll.toml"), text).unwrap();
        let finished = folder.plimsoll(&["sweep", "sim"]).expect_code(2);
        let said = &finished.stderr;
        assert!(said.contains(expected), "{text}: {said}");
        assert!(
            !said.contains("expected") && !said.contains("u32"),
            "{text}: {said}"
        );
    }
}

/// What does nothing is said, not passed over.
#[test]
fn trust_that_plain_http_has_no_use_for_is_said() {
    let server = Scripted::start(Script::default()).unwrap();
    let folder = Folder::new();
    std::fs::write(folder.path().join("ca.pem"), "").unwrap();
    let url = server.url();
    for flags in [&["--ca-file", "ca.pem"][..], &["--insecure"]] {
        let mut all = vec!["sweep", &url, "--levels", "1", "--requests", "4", "--warmup", "0"];
        all.extend(flags);
        let finished = folder.plimsoll(&all);
        assert!(
            finished
                .stderr
                .contains(&format!("{} does nothing here", flags[0])),
            "{finished:#?}"
        );
    }
}

/// A run that cannot be read: what is wrong, and what to name instead.
#[test]
fn broken_runs_name_a_remedy() {
    let folder = Folder::new();
    std::fs::write(
        folder.path().join("cut.json"),
        "{\"schema\": \"plimsoll.run/1\", \"sta",
    )
    .unwrap();
    std::fs::write(folder.path().join("old.json"), "{\"schema\": \"plimsoll.run/0\"}").unwrap();
    for command in ["plan", "report", "resume"] {
        for (run, expected) in [
            ("nowhere", "name a run directory"),
            ("cut.json", "name a run directory"),
            ("old.json", "measure again"),
        ] {
            let finished = folder.plimsoll(&[command, run]).expect_code(2);
            let said = &finished.stderr;
            assert!(said.contains(run) && said.contains(expected), "{command}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

/// Endpoints that cannot be swept: exit 5 within 10 s, one line, and no run directory.
#[test]
fn the_readiness_check_names_cause_and_remedy() {
    let html =
        Scripted::start(Script::default().page(Page::html(200, "<html>Welcome to nginx!</html>"))).unwrap();
    let locked = Scripted::start(Script::default().api_key("sk-right")).unwrap();
    let nowhere = Scripted::start(Script::default().page(Page::html(404, "not here"))).unwrap();
    let several = Scripted::start(Script::default().models(["llama", "qwen"])).unwrap();
    let silent = Scripted::start(Script::default().silent()).unwrap();
    let tls = Scripted::start(Script::default().tls()).unwrap();
    let plain = Scripted::start(Script::default()).unwrap();
    let closed = format!("http://{}", closed_port().unwrap());
    let cases: Vec<(String, Vec<&str>, Vec<&str>)> = vec![
        (closed, vec![], vec!["refused"]),
        (
            "http://no-such-host.invalid".to_owned(),
            vec![],
            vec!["no-such-host.invalid"],
        ),
        (html.url(), vec![], vec!["HTML"]),
        (locked.url(), vec![], vec!["401", "--api-key"]),
        (locked.url(), vec!["--api-key", "sk-wrong-secret"], vec!["401"]),
        (nowhere.url(), vec![], vec!["404"]),
        (several.url(), vec![], vec!["llama", "qwen", "--model"]),
        (several.url(), vec!["--model", "lama"], vec!["lama"]),
        (silent.url(), vec![], vec![""]),
        (tls.url(), vec![], vec!["--ca-file"]),
        (plain.url().replace("http://", "https://"), vec![], vec!["TLS"]),
        (tls.url().replace("https://", "http://"), vec![], vec!["https"]),
    ];
    for (url, extra, expected) in cases {
        let folder = Folder::new();
        let mut arguments = vec!["sweep", &url, "--levels", "1,2"];
        arguments.extend(&extra);
        let finished = folder.plimsoll(&arguments).expect_code(5);
        for word in expected {
            assert!(
                finished.stderr.contains(word),
                "{url} {extra:?}: `{word}` not in {}",
                finished.stderr
            );
        }
        assert!(
            !finished.stderr.contains("sk-wrong-secret"),
            "{}",
            finished.stderr
        );
        let last = finished.stderr.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("plimsoll: "), "{url}: {}", finished.stderr);
        assert!(
            finished.took < Duration::from_secs(12),
            "{url}: {:?}",
            finished.took
        );
        assert!(folder.files().is_empty(), "{url}: wrote something");
    }
}

/// What cannot be a request is a usage error, found before anything is sent.
#[test]
fn urls_and_headers_that_no_request_can_have_are_usage_errors() {
    let closed = format!("http://{}", closed_port().unwrap());
    let long = format!("http://{}@h:x", "a".repeat(10_000));
    let unlisted = "a".repeat(10_000);
    for (arguments, expected) in [
        (&["http://"][..], "empty host"),
        (&["http://[::1]:99999"], "port"),
        (&["ftp://x"], "only http and https"),
        (&["me:pass-word@h:80"], "neither a URL"),
        (&[&long], "is not a URL"),
        (&[&unlisted], "neither a URL"),
        (&[&closed, "--header", "X: a\nb"], "header `X`"),
        (&[&closed, "--header", "Content-Length: 0"], "leave it out"),
        (
            &["https://127.0.0.1:1", "--ca-file", "no-such.pem"],
            "no-such.pem",
        ),
    ] {
        let folder = Folder::new();
        let mut all = vec!["sweep", "--levels", "1"];
        all.extend(arguments);
        let finished = folder.plimsoll(&all).expect_code(2);
        let said = &finished.stderr;
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("pass-word"), "{said}");
        assert!(said.lines().count() == 1 && said.len() < 4_200, "{said}");
        assert!(folder.files().is_empty(), "{arguments:?} wrote something");
    }
}

/// A reader that leaves early ends nothing badly; a full disk is said in a line.
#[cfg(unix)]
#[test]
fn stdout_and_stderr_may_be_closed_or_full() {
    use std::process::{Command, Stdio};
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let predict = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["predict", "--levels", "1", "--json"]);
        command
    };
    let mut child = predict()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let left = child.wait_with_output().unwrap();
    assert!(left.stderr.is_empty(), "{left:?}");
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let output = predict().stdout(full()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("plimsoll: stdout cannot be written"), "{said}");
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    let output = predict().arg("--no-such").stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["plan", "no-such-run"])
        .stderr(full())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
