//! The server's own side beside the client's, in every format.

use plimsoll_report::terminal::{Style, answer, table};
use plimsoll_report::{csv, html, markdown};
use plimsoll_run::answer::{Bound, BoundBy, LevelBound};
use plimsoll_run::document::Run;

use crate::fixture;

/// The fixture with what a server told at two levels.
fn told() -> Run {
    let mut run = fixture::run();
    for rung in &mut run.rungs {
        let server = &mut rung.server;
        match rung.concurrency {
            256 => {
                server.prefix_cache_hit_rate = Some(0.0071);
                server.kv_cache_usage_max = Some(0.42);
                server.running_mean = Some(254.6);
                server.running_max = Some(256);
                server.waiting_max = Some(0);
                server.preemptions = Some(0);
                server.ttft_mean_ms = Some(1002.0);
            }
            512 => {
                server.kv_cache_usage_max = Some(0.42);
                server.running_max = Some(256);
                server.waiting_max = Some(256);
                server.preemptions = Some(1234);
            }
            _ => {}
        }
    }
    run.plan.bound = Some(Bound {
        by: BoundBy::Admission,
        concurrency: 512,
        reason: "It admits <no> more.".to_owned(),
        levels: vec![LevelBound {
            concurrency: 512,
            by: BoundBy::Admission,
        }],
    });
    run
}

fn style(width: u16) -> Style {
    Style {
        colour: false,
        width: Some(width),
    }
}

#[test]
fn the_terminal_has_a_second_table() {
    let shown = table(&told(), &style(120));
    let own = shown.split("The server's own side\n").nth(1).unwrap();
    let cells = |level: &str| -> Vec<String> {
        let line = own
            .lines()
            .find(|line| line.trim_start().starts_with(level))
            .unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let heading: Vec<&str> = own.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        heading.join(" "),
        "level running waiting KV cache prefix preemptions TTFT there TTFT here binds"
    );
    assert_eq!(
        cells("256")[..9],
        ["256", "255/256", "0", "42", "%", "0.7", "%", "0", "1.00"]
    );
    assert_eq!(cells("512")[..6], ["512", "256", "256", "42", "%", "–"]);
    assert!(
        cells("512").ends_with(&["admission".to_owned(), "cap".to_owned()]),
        "{own}"
    );
    let narrow = table(&told(), &style(80));
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(
        narrow.contains("binds") && narrow.contains("admission cap"),
        "{narrow}"
    );
    assert!(!table(&fixture::run(), &style(120)).contains("server's own side"));
}

#[test]
fn what_binds_is_among_the_answers() {
    let shown = answer(&told(), &style(120));
    assert!(
        shown.contains("Bound by          admission cap by the server's own metrics (seen at 512)"),
        "{shown}"
    );
    assert!(!answer(&fixture::run(), &style(120)).contains("Bound by"));
}

#[test]
fn page_markdown_and_csv_have_it_too() {
    let page = html(&told(), &[]);
    assert!(page.contains("id=\"server-title\""));
    assert!(page.contains("<td>255/256</td>") && page.contains("<td class=\"words\">admission cap</td>"));
    assert!(page.contains("It admits &lt;no&gt; more."));
    assert!(!html(&fixture::run(), &[]).contains("server-title"));
    let text = markdown(&told());
    assert!(text.contains("#### The server's own side"), "{text}");
    assert!(
        text.contains(
            "| level | running mean/max | waiting mean/max | KV cache most used | prefix cache hits |"
        ),
        "{text}"
    );
    let rows = csv(&told()).unwrap();
    let mut lines = rows.lines();
    assert!(lines.next().unwrap().ends_with(
        "prefix_cache_hit_rate,kv_cache_usage_max,running_mean,running_max,waiting_max,preemptions,\
         server_ttft_mean_ms,server_queue_mean_ms,ttft_n,tpot_n,e2e_n,verdict_reasons,answers"
    ));
    assert!(
        lines.any(|line| line.starts_with("256,") && line.contains(",0.0071,0.42,254.6,256,0,0,1002,,")),
        "{rows}"
    );
}
