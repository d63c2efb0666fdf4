//! What is asked, as a server sees it: through the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails where its helpers do")]

mod files;
#[path = "../harness/mod.rs"]
mod harness;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use harness::{Finished, Folder, number};
use plimsoll_scripted::{Script, Scripted, SeenRequest};
use serde_json::Value;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn server() -> Scripted {
    let script = Script::default()
        .ttft(ms(10))
        .itl(ms(1))
        .prompt_tokens(1.0, 12)
        .keep_requests(1_000_000);
    Scripted::start(script).unwrap()
}

/// A short sweep of levels 2, 4 and 8, unless `extra` says otherwise.
fn sweep(folder: &Folder, server: &Scripted, extra: &[&str]) -> Finished {
    let url = server.url();
    let mut arguments = vec!["sweep", url.as_str(), "--warmup", "0", "--json", "--quiet"];
    for (flag, usual) in [("--levels", "2,4,8"), ("--rung-time", "1s")] {
        if !extra.contains(&flag) {
            arguments.extend([flag, usual]);
        }
    }
    arguments.extend(extra);
    folder.plimsoll(&arguments)
}

/// The run of a sweep that measured: whether a second on a busy machine is steady enough to be believed is not asked here.
#[track_caller]
fn measured(finished: Finished) -> Value {
    assert!([0, 5].contains(&finished.code), "{finished:#?}");
    finished.json()
}

/// The messages of each request to the chat route whose reply was longer than calibration's single token, in the order in
/// which they came. The first two are those of the preparation: the probe, and one of the workload's own lengths.
fn asked(server: &Scripted) -> Vec<Vec<(String, String)>> {
    server
        .seen()
        .last
        .iter()
        .filter(|request| request.path.ends_with("/chat/completions") && generates(request))
        .map(|request| {
            let messages = request.body["messages"].as_array().unwrap();
            messages
                .iter()
                .map(|message| {
                    (
                        message["role"].as_str().unwrap().to_owned(),
                        message["content"].as_str().unwrap().to_owned(),
                    )
                })
                .collect()
        })
        .collect()
}

fn generates(request: &SeenRequest) -> bool {
    request.body["stream"] == true
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn case_21_no_prompt_of_a_sweep_begins_like_another() {
    let (server, folder) = (server(), Folder::new());
    for _ in 0..2 {
        // The second sweep has another seed, as every run should against a warm server.
        let seed = server.seen().requests.to_string();
        measured(sweep(
            &folder,
            &server,
            &[
                "--input-tokens",
                "lognormal:100:0.4",
                "--output-tokens",
                "uniform:4-12",
                "--seed",
                &seed,
            ],
        ));
    }
    let seen = server.seen();
    assert!(seen.requests > 1_000, "{}", seen.requests);
    assert_eq!((seen.repeated_prompts, seen.repeated_first_blocks), (0, 0));
}

#[test]
fn exactly_the_asked_share_of_a_sweep_has_a_shared_prefix() {
    for (share, pool) in [(0.8, 10), (0.0, 3), (1.0, 1)] {
        let (server, folder) = (server(), Folder::new());
        let (share_text, pool_text) = (share.to_string(), pool.to_string());
        let run = measured(sweep(
            &folder,
            &server,
            &[
                "--input-tokens",
                "96",
                "--output-tokens",
                "5",
                "--shared-prefix",
                "48",
                "--share",
                &share_text,
                "--pool",
                &pool_text,
            ],
        ));
        assert_eq!(number(&run, "/workload/shared_prefix/tokens"), 48.0);
        let all = asked(&server);
        // The two of the preparation have no part in it.
        let rungs = &all[2..];
        let mut uses: HashMap<&str, u64> = HashMap::new();
        let mut own = HashSet::new();
        for messages in rungs {
            let [(system, prefix), (user, text)] = &messages[..] else {
                panic!("{messages:?}")
            };
            assert_eq!((system.as_str(), user.as_str()), ("system", "user"));
            assert_eq!(words(prefix), 48);
            *uses.entry(prefix).or_default() += 1;
            assert!(own.insert(text.as_str()), "what follows the prefix is new");
        }
        let shared: Vec<u64> = uses.values().copied().filter(|n| *n > 1).collect();
        let total: u64 = shared.iter().sum();
        let expected = rungs.len() as f64 * share;
        assert!(
            (total as f64 - expected).abs() < 1.0,
            "{total} of {}",
            rungs.len()
        );
        assert_eq!(shared.len(), if share == 0.0 { 0 } else { pool });
        if let (Some(least), Some(most)) = (shared.iter().min(), shared.iter().max()) {
            assert!(most - least <= 1, "prefixes take turns: {shared:?}");
        }
        // What the server counts as seen before is just the reuse of each prefix after its first use.
        let seen = server.seen();
        assert_eq!(
            seen.repeated_first_blocks,
            total.saturating_sub(shared.len() as u64)
        );
        let lengths = &run["rungs"][0]["lengths"]["input"];
        assert_eq!(lengths["asked"], 96.0);
        assert!(
            (lengths["actual"].as_f64().unwrap() - 96.0).abs() < 2.0,
            "{lengths}"
        );
    }
}

#[test]
fn conversations_grow_and_their_users_think_out_of_flight() {
    let (server, folder) = (server(), Folder::new());
    let run = measured(sweep(
        &folder,
        &server,
        &[
            "--levels",
            "3",
            "--rung-time",
            "4s",
            "--input-tokens",
            "40",
            "--output-tokens",
            "10",
            "--turns",
            "3",
            "--think",
            "500ms",
        ],
    ));
    assert_eq!(run["workload"]["conversation"]["turns"], 3);
    assert_eq!(run["workload"]["conversation"]["think_s"], 0.5);
    // Who thinks is not in flight, and the level is held all the same.
    let in_flight = number(&run, "/rungs/0/in_flight/mean");
    assert!((2.5..=3.0).contains(&in_flight), "{in_flight}");
    assert!(server.seen().max_in_flight <= 3);
    let verdict = run["rungs"][0]["validity"]["verdict"].as_str().unwrap();
    assert!(["valid", "unsteady"].contains(&verdict), "{run:#}");

    let mut by_length: BTreeMap<usize, u64> = BTreeMap::new();
    let all = asked(&server);
    let mut prompts = HashSet::new();
    // Two of the preparation, and the longest turn as a third.
    for messages in &all[3..] {
        *by_length.entry(messages.len()).or_default() += 1;
        let roles: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
        let expected = ["user", "assistant", "user", "assistant", "user"];
        assert_eq!(roles, expected[..messages.len()]);
        for (at, (_, text)) in messages.iter().enumerate() {
            let expected = match at {
                0 => 28,
                1 | 3 => 10,
                _ => 40,
            };
            assert_eq!(words(text), expected, "{at}");
        }
        assert!(prompts.insert(messages.clone()), "no prompt comes twice");
    }
    let counts: Vec<u64> = by_length.values().copied().collect();
    assert_eq!(by_length.keys().copied().collect::<Vec<_>>(), [1, 3, 5]);
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least as f64 > 0.85 * *most as f64, "{by_length:?}");
    let went_on = all[3..]
        .iter()
        .filter(|messages| messages.len() > 1)
        .filter(|messages| prompts.contains(&messages[..messages.len() - 2]))
        .count();
    assert!(went_on * 3 > all.len(), "{went_on} of {}", all.len());
    let pauses = pauses(&server);
    assert!(!pauses.is_empty());
    assert!(
        pauses.iter().all(|pause| *pause >= ms(500)),
        "{:?}",
        pauses.iter().min()
    );
}

/// From the end of each reply to the arrival of the turn after it.
fn pauses(server: &Scripted) -> Vec<Duration> {
    let seen = server.seen();
    let requests: Vec<&SeenRequest> = seen
        .last
        .iter()
        .filter(|request| request.path.ends_with("/chat/completions"))
        .collect();
    // Requests are numbered from 1 in the order in which they came.
    let served: HashMap<u64, _> = seen.served.iter().map(|served| (served.number, served)).collect();
    let by_messages: HashMap<String, u64> = (1..)
        .zip(&requests)
        .filter(|(_, request)| generates(request))
        .map(|(number, request)| (request.body["messages"].to_string(), number))
        .collect();
    let mut pauses = Vec::new();
    for (number, request) in (1..).zip(&requests).filter(|(_, request)| generates(request)) {
        let mut messages = request.body["messages"].as_array().unwrap().clone();
        if messages.len() < 3 {
            continue;
        }
        messages.truncate(messages.len() - 2);
        let before = by_messages.get(&Value::from(messages).to_string());
        if let (Some(before), Some(now)) = (before.and_then(|n| served.get(n)), served.get(&number)) {
            pauses.push(now.arrived.saturating_duration_since(before.ended));
        }
    }
    pauses
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_sent() {
    let (server, folder) = (server(), Folder::new());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("d.jsonl", "{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n");
    write(
        "t.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\nsoon,5,5\n",
    );
    write(
        "good.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n",
    );
    write("lengths", "5\n-1\n");
    write("empty", "");
    for (extra, expected) in [
        (&["--input-tokens", "lognorm:5:1"][..], "did you mean `lognormal`"),
        (&["--input-tokens", "file:lengths"], "lengths, line 2"),
        (&["--input-tokens", "file:empty"], "there is nothing in it"),
        (&["--input-tokens", "nan"], "is not a token length"),
        (&["--share", "0.5"], "--shared-prefix"),
        (&["--shared-prefix", "2000"], "leaves nothing of prompts"),
        (
            &["--shared-prefix", "5", "--share", "1.5"],
            "fraction from 0 to 1",
        ),
        (
            &["--shared-prefix", "5", "--share", "nan"],
            "fraction from 0 to 1",
        ),
        (&["--shared-prefix", "99999999999"], "whole number from 1"),
        (&["--think", "2s"], "--turns"),
        (&["--turns", "0"], "whole number from 1"),
        (&["--turns", "3", "--think", "99h"], "at most 24h"),
        (&["--dataset", "nowhere"], "nowhere"),
        (&["--dataset", "d.jsonl"], "d.jsonl, line 2"),
        (&["--dataset", "empty"], "there is nothing in it"),
        (
            &["--dataset", "d.jsonl", "--input-tokens", "5"],
            "their own lengths",
        ),
        (&["--dataset-format", "csv"], "--dataset"),
        (
            &["--dataset", "d.jsonl", "--dataset-format", "shareGPT"],
            "did you mean `sharegpt`",
        ),
        (&["--trace", "t.csv"], "t.csv, line 3: `soon`"),
        (&["--trace", "good.csv", "--turns", "2"], "--trace"),
        (&["--trace", "good.csv", "--trace-unit", "min"], "write ms or s"),
    ] {
        let finished = sweep(&folder, &server, extra).expect_code(2);
        assert!(
            finished.stderr.contains(expected),
            "{extra:?}: {}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
    assert_eq!(server.seen().requests + server.seen().other_requests, 0);
}

#[test]
fn the_simulated_engine_shows_what_reuse_is_worth() {
    let folder = Folder::new();
    let predict = |share: &str| {
        let run = folder
            .plimsoll(&[
                "predict",
                "--model",
                "llama-3.1-8b",
                "--input-tokens",
                "2048",
                "--output-tokens",
                "64",
                "--levels",
                "64",
                "--shared-prefix",
                "1792",
                "--share",
                share,
                "--json",
            ])
            .json();
        (
            number(&run, "/rungs/0/throughput/requests_per_s"),
            number(&run, "/rungs/0/server/prefix_cache_hit_rate"),
        )
    };
    let ((cold, none), (warm, most)) = (predict("0"), predict("1"));
    assert!(warm > 1.5 * cold, "{cold} {warm}");
    assert!(none < 0.001 && most > 0.8, "{none} {most}");
}

#[test]
fn prefix_shares_are_sweeps_of_their_own_in_one_table() {
    let folder = Folder::new();
    let sweep = |extra: &[&str]| {
        let mut arguments = vec![
            "sweep",
            "sim",
            "--speed",
            "4",
            "--levels",
            "4,16",
            "--rung-time",
            "1500ms",
            "--warmup",
            "0",
            "--sla",
            "e2e.p95<=60s",
            "--prefix-shares",
            "0,0.5,1",
        ];
        arguments.extend(extra);
        folder.plimsoll(&arguments)
    };
    let table = measured(sweep(&[
        "--input-tokens",
        "512",
        "--shared-prefix",
        "448",
        "--pool",
        "2",
        "--json",
        "--quiet",
    ]));
    assert_eq!(table["schema"], "plimsoll.shares/1");
    let rows = table["shares"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let mut seeds = HashSet::new();
    for (row, share) in rows.iter().zip([0.0, 0.5, 1.0]) {
        assert_eq!(row["share"], share);
        let text = std::fs::read_to_string(folder.path().join(row["run"].as_str().unwrap()).join("run.json"))
            .unwrap();
        let run: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(run["workload"]["shared_prefix"]["share"], share);
        assert_eq!(run["plan"]["best"]["concurrency"], row["best"]);
        assert!(
            seeds.insert(run["seed"].to_string()),
            "each sweep has prompts of its own"
        );
        // Seven of eight tokens of a prompt are its prefix; some thirty more are the template's.
        let rate = number(&run, "/rungs/1/server/prefix_cache_hit_rate");
        assert!((rate - share * 448.0 / 512.0).abs() < 0.1, "{share}: {rate}");
    }
    let shown = sweep(&["--max-rungs", "1"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", shown.stdout);
    assert!(
        lines[0].contains("share") && lines[3].trim_start().starts_with("1 "),
        "{}",
        shown.stdout
    );
    let refused = sweep(&["--share", "0.5"]).expect_code(2);
    assert!(refused.stderr.contains("--share"), "{}", refused.stderr);
}
