//! Workloads out of files: datasets, traces, a tokenizer.

use std::collections::HashSet;

use plimsoll_scripted::{Script, Scripted, Usage};

use crate::harness::{Folder, number};
use crate::{asked, generates, measured, ms, server, sweep, words};

#[test]
fn a_dataset_is_sent_as_it_is_and_its_end_is_said() {
    let (server, folder) = (server(), Folder::new());
    let lines: String = (0..40)
        .map(|n| {
            format!(
                "{{\"prompt\": \"question {n} of \\\"forty\\\"\\tplease 🌊\", \"max_tokens\": {}}}\r\n",
                4 + n % 3
            )
        })
        .collect();
    std::fs::write(folder.path().join("d.jsonl"), format!("\u{feff}{lines}")).unwrap();
    let run = measured(sweep(
        &folder,
        &server,
        &["--dataset", "d.jsonl", "--levels", "4"],
    ));
    assert_eq!(run["workload"]["source"]["format"], "openai");
    assert_eq!(run["workload"]["source"]["requests"], 40);
    assert_eq!(run["workload"]["source"]["kind"], "dataset");
    let texts: HashSet<String> = asked(&server)[1..]
        .iter()
        .map(|messages| messages[0].1.clone())
        .collect();
    assert_eq!(texts.len(), 40);
    assert!(texts.contains("question 7 of \"forty\"\tplease 🌊"));
    let warnings = run["plan"]["warnings"].to_string();
    assert!(warnings.contains("used up and begun again"), "{warnings}");
    let lengths = &run["rungs"][0]["lengths"]["output"];
    let mean = lengths["asked"].as_f64().unwrap();
    assert!((4.5..5.5).contains(&mean), "{lengths}");
}

#[test]
fn a_trace_gives_lengths_and_the_peak() {
    let (server, folder) = (server(), Folder::new());
    let mut csv = "TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned();
    for n in 0..240 {
        // Two a second; long prompts have short replies.
        let (input, output) = if n % 2 == 0 { (200, 3) } else { (30, 9) };
        csv += &format!(
            "2023-11-16 18:{:02}:{:02}.{}000000,{input},{output}\n",
            n / 120,
            n / 2 % 60,
            n % 2 * 5
        );
    }
    std::fs::write(folder.path().join("azure.csv"), csv).unwrap();
    let run = measured(sweep(
        &folder,
        &server,
        &["--trace", "azure.csv", "--levels", "4"],
    ));
    assert_eq!(run["workload"]["source"]["format"], "azure");
    let peak = number(&run, "/plan/instances/peak_per_s");
    assert!((peak - 2.0).abs() < 0.05, "{peak}");
    let mut pairs = HashSet::new();
    for request in &server.seen().last {
        if request.path.ends_with("/chat/completions") && generates(request) {
            let text = request.body["messages"][0]["content"].as_str().unwrap();
            pairs.insert((words(text), request.body["max_tokens"].as_u64().unwrap()));
        }
    }
    // Twelve tokens of each prompt are the template's.
    assert!(pairs.contains(&(188, 3)) && pairs.contains(&(18, 9)), "{pairs:?}");
    assert!(
        !pairs.contains(&(188, 9)) && !pairs.contains(&(18, 3)),
        "{pairs:?}"
    );
}

#[test]
fn a_tokenizer_counts_where_the_endpoint_does_not() {
    let script = Script::default()
        .ttft(ms(10))
        .itl(ms(1))
        .usage(Usage::Never)
        .keep_requests(1_000_000);
    let (server, folder) = (Scripted::start(script).unwrap(), Folder::new());
    // Knows every letter and nothing longer: a word has as many tokens as letters.
    let letters: Vec<String> = ('a'..='z')
        .enumerate()
        .map(|(at, letter)| format!("\"{letter}\": {at}"))
        .collect();
    let tokenizer = format!(
        "{{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {{\"type\": \"WhitespaceSplit\"}}, \
         \"post_processor\": null, \"decoder\": null, \"truncation\": null, \"padding\": null, \"model\": {{\"type\": \"BPE\", \
         \"vocab\": {{{}}}, \"merges\": []}}}}",
        letters.join(", ")
    );
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer).unwrap();
    let run = measured(sweep(
        &folder,
        &server,
        &[
            "--input-tokens",
            "400",
            "--output-tokens",
            "5",
            "--levels",
            "4",
            "--tokenizer",
            "tokenizer.json",
        ],
    ));
    assert_eq!(run["workload"]["tokenizer"]["file"], "tokenizer.json");
    assert!(
        run["notes"].to_string().contains("given tokenizer"),
        "{}",
        run["notes"]
    );
    let all = asked(&server);
    let tokens: usize = all[2..]
        .iter()
        .map(|messages| messages[0].1.bytes().filter(u8::is_ascii_lowercase).count())
        .sum();
    let mean = tokens as f64 / (all.len() - 2) as f64;
    assert!((mean - 400.0).abs() < 12.0, "{mean}");
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    let refused = sweep(&folder, &server, &["--tokenizer", "tokenizer.json"]).expect_code(2);
    assert!(refused.stderr.contains("not a tokenizer"), "{}", refused.stderr);
}

#[test]
fn published_traces_give_the_peak_to_a_prediction() {
    let folder = Folder::new();
    // Three requests a second for two minutes, in Mooncake's milliseconds.
    let lines: String = (0..360)
        .map(|n| {
            format!(
                "{{\"timestamp\": {}, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, {n}]}}\n",
                n * 1000 / 3
            )
        })
        .collect();
    std::fs::write(folder.path().join("m.jsonl"), lines).unwrap();
    let run = folder
        .plimsoll(&["predict", "--levels", "16", "--peak-trace", "m.jsonl", "--json"])
        .json();
    let peak = number(&run, "/plan/instances/peak_per_s");
    assert!((peak - 3.0).abs() < 0.05, "{peak}");
    // Its lengths, and the block that all its prompts begin with, are asked of the model.
    let run = folder
        .plimsoll(&["predict", "--levels", "4", "--trace", "m.jsonl", "--json"])
        .json();
    let lengths = &run["rungs"][0]["lengths"];
    assert_eq!(
        (&lengths["input"]["actual"], &lengths["output"]["actual"]),
        (&600.0.into(), &5.0.into())
    );
    let rate = number(&run, "/rungs/0/server/prefix_cache_hit_rate");
    assert!((rate - 512.0 / 600.0).abs() < 0.03, "{rate}");
}
