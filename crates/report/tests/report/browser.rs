//! The report in a real browser, where one is installed.

use std::process::Command;

use crate::fixture;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    })
}

#[test]
fn a_browser_draws_every_chart() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not found");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let run = fixture::run();
    std::fs::write(&page, plimsoll_report::html(&run, &fixture::timelines(&run))).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            "--virtual-time-budget=8000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    // Each of the four charts is drawn, and no script complained.
    for id in ["throughput", "latency", "interactivity", "timeline"] {
        let from = dom.find(&format!("id=\"{id}\"")).unwrap();
        let chart = &dom[from..];
        let end = chart.find("</figure>").unwrap_or(chart.len());
        assert!(chart[..end].contains("main-svg"), "{id} was not drawn\n{log}");
    }
    assert!(!log.contains("Uncaught"), "{log}");
    assert!(!log.contains("Content Security Policy"), "{log}");
}
