use std::collections::HashSet;
use std::sync::Arc;

use plimsoll_run::workload::Workload;

use super::*;
use crate::{Calibration, Prompts, Rows, SlotPrompts, load_trace};

fn read_text(name: &str, bytes: &[u8], unit: Option<TimeUnit>) -> Result<Read, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let found = read(path.to_str().unwrap(), unit).map_err(|error| error.to_string());
    if let Err(error) = &found {
        assert!(!error.contains('\n') && error.len() < 600, "{error}");
    }
    found
}

/// The first lines of the published traces, as they are.
const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}
{"timestamp": 0, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27]}
{"timestamp": 3052, "input_length": 7236, "output_length": 794, "hash_ids": [0, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41]}
"#;
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\
                     2023-11-16 18:15:50.9951690,396,109\r\n2023-11-16 18:15:51.2224670,879,55\r\n";
const AZURE_2024: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n\
                          2024-05-10 00:00:00.017335+00:00,2399,6\n";
const BURSTGPT: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                        5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n\
                        118,GPT-4,417,0,417,Conversation log\n121,ChatGPT,1360,276,1636,Conversation log\n";

fn near(times: &[f64], expected: &[f64]) {
    let gaps: Vec<f64> = times.iter().map(|at| at - times[0]).collect();
    assert_eq!(gaps.len(), expected.len());
    for (gap, expected) in gaps.iter().zip(expected) {
        assert!((gap - expected).abs() < 1e-5, "{gaps:?}");
    }
}

#[test]
fn published_traces_are_read() {
    let mooncake = read_text("m.jsonl", MOONCAKE.as_bytes(), None).unwrap();
    assert_eq!((mooncake.format, mooncake.notes.len()), ("mooncake", 0));
    near(&mooncake.trace.times_s(), &[0.0, 0.0, 3.052]);
    let lengths: Vec<_> = mooncake.trace.lengths().collect();
    assert_eq!(lengths, [(6758, 500), (7322, 490), (7236, 794)]);
    assert!(mooncake.trace.has_blocks());

    let azure = read_text("a.csv", AZURE.as_bytes(), None).unwrap();
    assert_eq!((azure.format, azure.notes.len()), ("azure", 0));
    near(&azure.trace.times_s(), &[0.0, 4.314_579, 4.541_877]);
    // 2023-11-16 18:15:46 UTC.
    assert_eq!(azure.trace.times_s()[0].floor(), 1_700_158_546.0);
    let azure = read_text("a.csv", AZURE_2024.as_bytes(), None).unwrap();
    near(&azure.trace.times_s(), &[0.0, 0.007_405]);

    let burst = read_text("b.csv", BURSTGPT.as_bytes(), None).unwrap();
    assert_eq!(burst.format, "burstgpt");
    near(&burst.trace.times_s(), &[0.0, 40.0, 116.0]);
    assert!(burst.notes[0].contains("line 4"), "{:?}", burst.notes);
}

#[test]
fn bad_lines_are_named_by_number() {
    let line = |at: &str| format!("{{\"timestamp\": {at}, \"input_length\": 10, \"output_length\": 5}}\n");
    let good = line("1");
    for (name, text, expected) in [
        (
            "m.jsonl",
            format!("{good}{{\"input_length\": 10}}\n"),
            "line 2: it has no `timestamp`",
        ),
        (
            "m.jsonl",
            format!("{good}{}", line("\"x\"")),
            "line 2: its timestamp, \"x\", is not a number",
        ),
        (
            "m.jsonl",
            format!("{good}\n{}", line("-5")),
            "line 3: its timestamp, -0.005 s, cannot be one",
        ),
        (
            "m.jsonl",
            format!("{good}{}", line("1e300")),
            "line 2: its timestamp",
        ),
        (
            "m.jsonl",
            format!("{good}{}", line("NaN")),
            "line 2: it is not JSON",
        ),
        (
            "m.jsonl",
            format!("{good}{{\"timestamp\": 2, \"output_length\": 5}}"),
            "line 2: its `input_length`",
        ),
        (
            "m.jsonl",
            format!("{good}{{\"timestamp\": 2, \"input_length\": -3, \"output_length\": 5}}"),
            "line 2: its `input_length`",
        ),
        (
            "m.jsonl",
            format!("{good}{{\"timestamp\": 2, \"input_length\": 3, \"output_length\": 1e30}}"),
            "line 2: its `output_length`",
        ),
        (
            "m.jsonl",
            "{\"timestamp\": 2, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1]}".to_owned(),
            "line 1: it has 1 `hash_ids` where a prompt of 600 tokens has 2 blocks",
        ),
        (
            "m.jsonl",
            "{\"timestamp\": 2, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [1.5]}".to_owned(),
            "line 1: its `hash_ids`",
        ),
        (
            "m.jsonl",
            format!("{good}{}", line("9000000000")),
            "line 2: its timestamp is 104 days after",
        ),
        ("a.csv", AZURE.replace("879", ""), "line 4: its prompt length"),
        (
            "a.csv",
            AZURE.replace("2023-11-16 18:15:50.9951690", ""),
            "line 3: it has no timestamp",
        ),
        (
            "a.csv",
            AZURE.replace("2023-11-16 18:15:50.9951690", "soon"),
            "line 3: `soon` is neither",
        ),
        (
            "a.csv",
            AZURE.replace("2023-11-16 18:15:50.9951690", "17"),
            "line 3: `17` is a time of another kind",
        ),
        (
            "a.csv",
            AZURE.replace("2023-11-16 18:15:50", "2053-11-16 18:15:50"),
            "line 3: its timestamp is",
        ),
        (
            "a.csv",
            AZURE.replace(",109", ""),
            "line 3: it has no `GeneratedTokens`",
        ),
        (
            "b.csv",
            BURSTGPT.replace("\n45,", "\nnan,"),
            "line 3: its timestamp",
        ),
        (
            "b.csv",
            BURSTGPT.replace("1087", "10.5"),
            "line 3: its prompt length",
        ),
        (
            "b.csv",
            BURSTGPT.replace("Timestamp", "When"),
            "line 1: there is no column of times",
        ),
        (
            "b.csv",
            "a,b\n1,2\n".to_owned(),
            "line 1: there is no column of times",
        ),
        (
            "b.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned(),
            "no request with a prompt and a reply",
        ),
        ("b.csv", String::new(), "there is nothing in it"),
    ] {
        let error = read_text(name, text.as_bytes(), None).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = read_text("x.csv", b"\x00\xff\x01binary\n\x00", None).unwrap_err();
    assert!(error.contains("line 1"), "{error}");
}

#[test]
fn disorder_is_put_in_order_and_named() {
    let unsorted = BURSTGPT.replace("\n45,", "\n4,");
    let read = read_text("b.csv", unsorted.as_bytes(), None).unwrap();
    near(&read.trace.times_s(), &[0.0, 1.0, 117.0]);
    assert!(
        read.notes[0].contains("line 3 is earlier than line 2"),
        "{:?}",
        read.notes
    );
}

#[test]
fn a_unit_that_would_be_absurd_is_refused_unless_it_is_confirmed() {
    // One request a second for an hour, in seconds where Mooncake has milliseconds.
    let text: String = (0..3600)
        .map(|at| {
            format!(
                "{{\"timestamp\": {}, \"input_length\": 10, \"output_length\": 5}}\n",
                at / 4
            )
        })
        .collect();
    let error = read_text("m.jsonl", text.as_bytes(), None).unwrap_err();
    assert!(
        error.contains("line 1") && error.contains("look like seconds") && error.contains("--trace-unit s"),
        "{error}"
    );
    let span = |unit| {
        let times = read_text("m.jsonl", text.as_bytes(), Some(unit))
            .unwrap()
            .trace
            .times_s();
        times[times.len() - 1]
    };
    assert_eq!(span(TimeUnit::Seconds), 899.0);
    assert_eq!(span(TimeUnit::Milliseconds), 0.899);
    let burst: String = std::iter::once("Timestamp,Request tokens,Response tokens\n".to_owned())
        .chain((0..100).map(|at| format!("{},10,5\n", at * 2_000)))
        .collect();
    let error = read_text("b.csv", burst.as_bytes(), None).unwrap_err();
    assert!(
        error.contains("line 2") && error.contains("look like milliseconds"),
        "{error}"
    );
    assert!(read_text("b.csv", burst.as_bytes(), Some(TimeUnit::Milliseconds)).is_ok());
    assert_eq!("ms".parse(), Ok(TimeUnit::Milliseconds));
    assert!("min".parse::<TimeUnit>().is_err());
}

#[test]
fn prompts_share_the_blocks_that_the_trace_says_within_a_rung_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.jsonl");
    std::fs::write(&path, MOONCAKE).unwrap();
    let loaded = load_trace(path.to_str().unwrap(), None).unwrap();
    assert_eq!(
        (loaded.source.requests, loaded.source.named.sha256.len()),
        (3, 64)
    );
    assert!((loaded.input_tokens.mean() - (6758.0 + 7322.0 + 7236.0) / 3.0).abs() < 0.5);
    let workload = Workload {
        source: Some(loaded.source.clone()),
        ..Workload::default()
    };
    let prompts = Arc::new(Prompts::new(
        &workload,
        Some(Arc::new(loaded.rows)),
        Calibration::UNKNOWN,
        4,
    ));
    let mut openings = HashSet::new();
    let mut hashes = HashSet::new();
    for order in 1..=2 {
        let rung = prompts.rung(order);
        let mut slot = SlotPrompts::new(&rung);
        for nth in 0..6_u64 {
            let outline = slot.next(std::time::Duration::ZERO, || nth + 100 * u64::from(order));
            let blocks = outline.block_hashes(512);
            hashes.insert(blocks[0]);
            let drawn = outline.drawn(Calibration::UNKNOWN);
            assert_eq!(drawn.turns.len(), 1);
            let words: Vec<&str> = drawn.turns[0].text.split(' ').collect();
            assert_eq!(words.len(), drawn.input_tokens as usize);
            openings.insert(words[..512].join(" "));
        }
    }
    // All prompts begin with block 0; two rungs, two passes each.
    assert_eq!((openings.len(), hashes.len()), (4, 4));
}

#[test]
fn a_trace_without_blocks_has_new_prompts_of_its_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, AZURE).unwrap();
    let loaded = load_trace(path.to_str().unwrap(), None).unwrap();
    let Rows::Trace(trace) = &loaded.rows else {
        panic!()
    };
    assert!(!trace.is_empty() && !trace.has_blocks());
    let prompts = Arc::new(Prompts::new(
        &Workload::default(),
        Some(Arc::new(loaded.rows)),
        Calibration::UNKNOWN,
        4,
    ));
    let mut pairs = Vec::new();
    let mut openings = HashSet::new();
    for order in 1..=2 {
        let rung = prompts.rung(order);
        for nth in 0..3_u64 {
            let drawn = rung
                .alone(nth + 10 * u64::from(order))
                .drawn(Calibration::UNKNOWN);
            pairs.push((drawn.input_tokens, drawn.output_tokens));
            let words: Vec<&str> = drawn.turns[0].text.split(' ').take(16).collect();
            assert!(openings.insert(words.join(" ")));
        }
    }
    assert_eq!(pairs[..3], pairs[3..], "each rung asks the same lengths");
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(
        pairs,
        [(374, 44), (396, 109), (879, 55)],
        "prompt and reply stay together"
    );
}

#[test]
fn only_traces_look_like_traces() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        (MOONCAKE, true),
        (AZURE, true),
        (BURSTGPT, true),
        ("1\n2\n3\n", false),
        ("timestamp\n1\n", false),
        ("", false),
    ] {
        let path = folder.path().join("x");
        std::fs::write(&path, text).unwrap();
        assert_eq!(looks_like_one(path.to_str().unwrap()), expected, "{text}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn no_bytes_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..200), head in 0..4_usize) {
        let heads = ["", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "{\"timestamp\":1,\"input_length\":5,\"output_length\":", "\u{feff}Timestamp,Request tokens,Response tokens\n1,"];
        let bytes = [heads[head].as_bytes(), &tail].concat();
        let _ = read_text("x", &bytes, None);
    }
}
