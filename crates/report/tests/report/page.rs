//! The HTML report as a document: whole, offline, in the agreed order.

use plimsoll_report::html;

use crate::fixture;

fn page() -> String {
    let run = fixture::run();
    html(&run, &fixture::timelines(&run))
}

/// The page without the plotting script, which is not ours.
fn ours(page: &str) -> String {
    let start = page.find("<script type=\"text/javascript\">").unwrap();
    let end = start + page[start..].find("</script>").unwrap();
    format!("{}{}", &page[..start], &page[end..])
}

/// The figures that stand in the page as JSON.
pub fn figures(page: &str) -> serde_json::Value {
    let start = page.find("id=\"figures\">").unwrap() + "id=\"figures\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn the_parts_come_in_the_agreed_order() {
    let page = ours(&page());
    let parts = [
        "<h1>Load line of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16</h1>",
        "2026-11-30T12:00:00Z</span> · complete",
        "Best concurrency</h3><p class=\"figure\">256<",
        "SLA limit</h3><p class=\"figure\">284<",
        "Instances</h3><p class=\"figure\">6<",
        "Knee</h3><p class=\"figure\">221<",
        "Cost</h3>",
        "Before you rely on these numbers",
        "id=\"throughput\"",
        "id=\"latency\"",
        "id=\"interactivity\"",
        "id=\"timeline\"",
        "<table>",
        "470 of 512 requests were in flight",
        "<dt>Workload</dt>",
        "<dt>Command</dt>",
    ];
    let mut at = 0;
    for part in parts {
        let found = page[at..].find(part);
        assert!(found.is_some(), "`{part}` is missing or out of order");
        at += found.unwrap();
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_the_script_stands_once() {
    let page = page();
    assert_eq!(page.matches("plotly.js v").count(), 1);
    assert!(!page.contains("MathJax ="));
    let ours = ours(&page);
    for loading in ["src=", "href=\"http", "url(", "@import", "fetch("] {
        assert!(!ours.contains(loading), "{loading}");
    }
    assert!(ours.contains("default-src 'none'"));
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
}

#[test]
fn every_chart_has_its_summary() {
    let page = ours(&page());
    for summary in [
        "Throughput goes from 492 output tokens/s at level 16 to 2,782 output tokens/s at level 512. It is best with \
         2,823 output tokens/s at level 256. It stops growing at the knee, 221. The SLA holds at 284 and breaks at 320.",
        "TTFT p95 goes from 182 ms at level 16 to 30.7 s at level 512, limit 5.00 s.",
        "At level 16 each user sees 31.2 tokens/s and the endpoint yields 492 output tokens/s;",
        "Level 256, 90 seconds long: the measured window, shaded, runs from second 20 to 80.",
    ] {
        assert!(page.contains(summary), "{summary}");
    }
}

#[test]
fn points_are_those_of_the_rungs() {
    let figures = figures(&page());
    let traces = figures["charts"]["throughput"]["data"].as_array().unwrap();
    assert_eq!(
        traces[0]["x"],
        serde_json::json!([16.0, 32.0, 64.0, 128.0, 256.0, 284.0, 320.0])
    );
    assert_eq!(traces[0]["y"][4], 2823.4);
    // The interval of level 256 reaches 3 % to both sides.
    let above = traces[0]["error_y"]["array"][4].as_f64().unwrap();
    assert!((above - 2823.4 * 0.03).abs() < 1e-6, "{above}");
    // The rung that was not delivered is hollow and apart.
    assert_eq!(traces[1]["x"], serde_json::json!([512.0]));
    assert_eq!(traces[1]["marker"]["symbol"], "circle-open");
    // Users see 1000 / TPOT p50 tokens per second.
    let run = fixture::run();
    let tpot = run.rungs[1].latency.tpot_ms.as_ref().unwrap().p50.unwrap();
    let x = figures["charts"]["interactivity"]["data"][0]["x"][4]
        .as_f64()
        .unwrap();
    assert!((x - 1000.0 / tpot).abs() < 1e-9);
    // The crossing lies on the binding term's limit, between the passing and the failing level.
    let crossing = figures["charts"]["latency"]["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|trace| trace["name"] == "crossing")
        .unwrap();
    assert_eq!(crossing["x"], serde_json::json!([284.0, 320.0]));
    assert_eq!(crossing["y"], serde_json::json!([5000.0, 5000.0]));
    assert_eq!(figures["timelines"].as_object().unwrap().len(), 8);
}

#[test]
fn a_percentile_among_the_failures_has_no_point() {
    let mut run = fixture::run();
    for outcome in &mut run.rungs[4].sla {
        if outcome.term.subject() == "ttft.p95" {
            outcome.observed = None;
            outcome.pass = Some(false);
        }
    }
    let figures = figures(&html(&run, &[]));
    let ttft = &figures["charts"]["latency"]["data"][0];
    assert_eq!(ttft["name"], "TTFT p95");
    assert!(!ttft["x"].as_array().unwrap().contains(&serde_json::json!(320.0)));
}
