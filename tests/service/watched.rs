//! REST and the page: what is seen of a job while it goes on and afterwards.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::server::{Server, config, job};

/// The summaries that a job's events tell, to its end.
fn watch(server: &Server, name: &str) -> Vec<Value> {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    let request = format!(
        "GET /api/runs/{name}/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            line.strip_prefix("data: ")
                .map(|data| serde_json::from_str(data).unwrap())
        })
        .collect()
}

#[test]
fn a_job_is_watched_asked_again_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut tagged = config("seen", &json!({"concurrency": [2, 4]}));
    tagged["Tags"] = json!([{"Key": "<script>alert(1)</script>", "Value": "<img src=x>"}]);
    server.call("CreateAIWorkloadConfig", &tagged);
    server.call("CreateAIBenchmarkJob", &job("seen"));
    let queued = server.get("/jobs/seen");
    assert_eq!(queued.status, 200);
    let told = watch(&server, "seen");
    let counts: Vec<usize> = told
        .iter()
        .map(|summary| summary["levels"].as_array().unwrap().len())
        .collect();
    assert!(
        counts.is_sorted() && counts.contains(&1) && counts.last() == Some(&2),
        "{counts:?}"
    );
    assert_eq!(told.last().unwrap()["status"], "Completed", "{told:#?}");

    let listed = server.get("/api/runs?limit=1").json();
    assert_eq!(&listed["runs"][0], told.last().unwrap());
    let one = server.get("/api/runs/seen").json();
    assert_eq!(one["run"]["rungs"].as_array().unwrap().len(), 2);

    // An SLA that no level can meet, and a peak that was not asked for.
    let question =
        json!({"sla": ["e2e.p50<=1ms"], "peak": "400rps", "price": 4.2, "currency": "EUR", "spares": 2});
    let again = server.post("/api/runs/seen/plan", &question);
    assert_eq!(again.status, 200, "{again:#?}");
    let again = again.json();
    assert_eq!(again["plan"]["limit"]["status"], "never_met");
    assert_eq!(
        (&again["currency"], &again["price_per_hour"]),
        (&json!("EUR"), &json!(4.2))
    );
    assert_eq!(again["rungs"].as_array().unwrap().len(), 2);
    let unchanged = server.get("/api/runs/seen").json();
    assert_eq!(unchanged["run"], one["run"], "only asked");
    for (question, expected) in [
        (json!({"sla": "x"}), "`sla`"),
        (json!({"sla": ["tfft.p95<=1s"]}), "did you mean `ttft`"),
        (json!({"peak": 40}), "`peak`"),
        (json!({"peak": "40"}), "`peak`"),
        (json!({"price": -1}), "`price`"),
        (json!({"prise": 1}), "did you mean `price`"),
        (json!([1]), "not a JSON object"),
    ] {
        let answer = server.post("/api/runs/seen/plan", &question);
        assert_eq!(answer.status, 400, "{answer:#?}");
        assert!(
            answer.json()["error"].as_str().unwrap().contains(expected),
            "{answer:#?}"
        );
    }

    let report = server.get("/api/runs/seen/report");
    assert!(report.status == 200 && report.body.contains("id=\"figures\""));
    let archive = server.get("/api/runs/seen/output.tar.gz");
    assert_eq!(
        archive.headers["content-disposition"],
        "attachment; filename=\"seen.tar.gz\""
    );
    let page = server.get("/jobs/seen");
    for part in ["SLA limit", "Levels measured", "<iframe", "output.tar.gz"] {
        assert!(page.body.contains(part), "{part}");
    }
    assert!(!page.body.contains("<form"), "there is nothing to stop");
    assert!(page.headers["content-security-policy"].contains("script-src 'self'"));
    let list = server.get("/");
    assert!(list.body.contains("href=\"/jobs/seen\"") && list.body.contains("Completed"));
    for text in [&page.body, &list.body] {
        assert!(!text.contains("<script>alert") && !text.contains("<img"));
    }
    // Everything that the page asks for is here.
    assert_eq!(server.get("/page.js").status, 200);
    assert!(!list.body.contains("http://") && !list.body.contains("https://"));
}

#[test]
fn the_stop_button_stops_and_what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.create("long", &json!({"concurrency": [2, 3, 4, 5, 6, 7, 8, 9]}));
    server.create("waits", &json!({"concurrency": 2}));
    let page = server.get("/jobs/waits").body;
    assert!(
        page.contains("Queued") && page.contains("action=\"/jobs/waits/stop\""),
        "{page}"
    );
    assert_eq!(server.get("/api/runs/waits/report").status, 404);
    server.until_rungs(1, 1);
    assert!(
        server
            .get("/api/runs/long/report")
            .body
            .contains("id=\"figures\""),
        "so far"
    );
    assert_eq!(server.get("/api/runs/long/output.tar.gz").status, 404);
    let foreign = server.send(
        "POST /jobs/long/stop HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example",
        b"",
    );
    assert_eq!(foreign.status, 403);
    for name in ["long", "waits"] {
        let pressed = server.send(
            &format!("POST /jobs/{name}/stop HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST"),
            b"",
        );
        assert_eq!(
            (pressed.status, pressed.headers["location"].clone()),
            (303, format!("/jobs/{name}"))
        );
        assert_eq!(server.until_ended(name)["AIBenchmarkJobStatus"], "Stopped");
    }
    assert_eq!(server.post("/api/runs/long/stop", &json!({})).status, 400);
    for path in [
        "/jobs/none",
        "/api/runs/none",
        "/api/runs/none/events",
        "/api/runs/..%2f..%2fetc",
        "/jobs/%3Cb%3E",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains("<b>"), "{answer:#?}");
    }
    for path in ["/api/runs?limit=0", "/api/runs?limt=5", "/api/runs?next=zz"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
}

#[test]
fn with_a_token_nobody_without_it_sees_anything() {
    const TOKEN: &str = "a-token-of-some-length";
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        folder.path(),
        &["--target", "demo=sim", "--token-env", "PLIMSOLL_TEST_TOKEN"],
        &[("PLIMSOLL_TEST_TOKEN", TOKEN)],
    );
    let get = |path: &str, authorization: &str| {
        server.send(
            &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nAuthorization: {authorization}"),
            b"",
        )
    };
    for path in ["/", "/api/runs", "/jobs/x", "/page.js"] {
        let refused = get(path, "Bearer wrong-token-of-length");
        assert_eq!(
            (refused.status, refused.headers["www-authenticate"].as_str()),
            (401, "Basic realm=\"plimsoll\"")
        );
        assert_eq!(server.get(path).status, 401);
    }
    assert_eq!(get("/api/runs", &format!("Bearer {TOKEN}")).status, 200);
    // `me:` and the token, as a browser sends it.
    assert_eq!(get("/", "Basic bWU6YS10b2tlbi1vZi1zb21lLWxlbmd0aA==").status, 200);
    assert_eq!(server.get("/health").status, 200);
}
