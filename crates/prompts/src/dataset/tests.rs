use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_run::workload::{Conversation, Workload};

use crate::{
    Calibration, DatasetFormat, DatasetOptions, Drawn, Loaded, Prompts, Role, SlotPrompts, load_dataset,
};

fn load(name: &str, bytes: &[u8], options: &DatasetOptions) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let loaded = load_dataset(path.to_str().unwrap(), options).map_err(|error| error.to_string());
    if let Err(error) = &loaded {
        assert!(!error.contains('\n') && error.len() < 600, "{error}");
    }
    loaded
}

fn plain(name: &str, text: &str) -> Result<Loaded, String> {
    load(name, text.as_bytes(), &DatasetOptions::default())
}

/// The first `n` requests that one slot sends.
fn sent(loaded: Loaded, n: u64, change: impl FnOnce(&mut Workload)) -> (Arc<Prompts>, Vec<Drawn>) {
    let mut workload = Workload {
        output_tokens: "33".parse().unwrap(),
        source: Some(loaded.source),
        ..Workload::default()
    };
    change(&mut workload);
    let prompts = Arc::new(Prompts::new(
        &workload,
        Some(Arc::new(loaded.rows)),
        Calibration::UNKNOWN,
        1,
    ));
    let mut slot = SlotPrompts::new(&prompts.rung(1));
    let drawn = (0..n)
        .map(|nth| {
            let now = Duration::from_secs(nth);
            let drawn = slot.next(now, || nth + 1).drawn(Calibration::UNKNOWN);
            slot.ended(now, true);
            drawn
        })
        .collect();
    (prompts, drawn)
}

fn texts(drawn: &Drawn) -> Vec<(Role, &str)> {
    drawn.turns.iter().map(|turn| (turn.role, &*turn.text)).collect()
}

const SHAREGPT: &str = r#"[
  {"id": "a_0", "conversations": [
    {"from": "human", "value": "What is \"tea\"?\nSay."},
    {"from": "gpt", "value": "A drink of leaves."},
    {"from": "human", "value": "Hot?"},
    {"from": "gpt", "value": "Often."}]},
  {"id": "b_0", "conversations": [{"from": "gpt", "value": "cut off"}]},
  {"id": "c_0", "conversations": [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "Name a sea 🌊"},
    {"from": "gpt", "value": "The North Sea, between Britain and Norway."}]}
]"#;

#[test]
fn sharegpt_gives_first_exchanges_with_the_lengths_of_their_replies() {
    for mark in ["", "\u{feff}"] {
        let loaded = plain("s.json", &format!("{mark}{SHAREGPT}")).unwrap();
        assert_eq!(
            (loaded.source.format.as_str(), loaded.source.requests),
            ("sharegpt", 2)
        );
        assert!(loaded.notes[0].contains("1 entries"), "{:?}", loaded.notes);
        let (_, mut all) = sent(loaded, 2, |_| ());
        all.sort_by_key(|drawn| drawn.turns.len());
        assert_eq!(texts(&all[0]), [(Role::User, "What is \"tea\"?\nSay.")]);
        // 18 bytes of reply at four bytes a token; 42 of the other.
        assert_eq!((all[0].output_tokens, all[1].output_tokens), (5, 11));
        assert_eq!(
            texts(&all[1]),
            [(Role::System, "Be brief."), (Role::User, "Name a sea 🌊")]
        );
    }
}

#[test]
fn conversations_of_a_dataset_are_replayed_turn_by_turn() {
    let loaded = plain("s.json", SHAREGPT).unwrap();
    let (_, all) = sent(loaded, 30, |workload| {
        workload.conversation = Some(Conversation {
            turns: 3,
            think_s: 0.0,
        });
    });
    let second: Vec<&Drawn> = all.iter().filter(|drawn| drawn.turns.len() == 3).collect();
    assert!(second.len() >= 8);
    assert_eq!(
        texts(second[0]),
        [
            (Role::User, "What is \"tea\"?\nSay."),
            (Role::Assistant, "A drink of leaves."),
            (Role::User, "Hot?")
        ]
    );
    assert_eq!(second[0].output_tokens, 2);
}

#[test]
fn json_lines_of_messages_prompts_and_batches_are_read() {
    let lines = r#"{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "one"}, {"role": "assistant", "content": "uno"}, {"role": "user", "content": [{"type": "text", "text": "two"}]}], "max_tokens": 9}
{"prompt": "three"}

{"custom_id": "x", "method": "POST", "body": {"model": "m", "messages": [{"role": "user", "content": "four"}], "max_completion_tokens": 12}}
{"prompt": "five", "completion": "cinq six sept huit"}
"#;
    for lines in [
        lines.to_owned(),
        lines.replace('\n', "\r\n"),
        format!("\u{feff}{lines}"),
    ] {
        let loaded = plain("d.jsonl", &lines).unwrap();
        assert_eq!(
            (loaded.source.format.as_str(), loaded.source.requests),
            ("openai", 4)
        );
        let (_, all) = sent(loaded, 4, |_| ());
        let by_last = |text: &str| {
            all.iter()
                .find(|drawn| drawn.turns.last().is_some_and(|turn| &*turn.text == text))
                .unwrap()
        };
        assert_eq!(
            texts(by_last("two")),
            [
                (Role::System, "S"),
                (Role::User, "one"),
                (Role::Assistant, "uno"),
                (Role::User, "two")
            ]
        );
        let outputs: Vec<u32> = ["two", "three", "four", "five"]
            .map(|text| by_last(text).output_tokens)
            .to_vec();
        assert_eq!(
            outputs,
            [9, 33, 12, 5],
            "given, the workload's own, given, by its text"
        );
    }
}

#[test]
fn the_users_own_reply_length_takes_the_place_of_the_files() {
    let loaded = plain("d.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 9}\n").unwrap();
    let (_, all) = sent(loaded, 1, |workload| {
        if let Some(source) = &mut workload.source {
            source.own_output_tokens = true;
        }
    });
    assert_eq!(all[0].output_tokens, 33);
}

#[test]
fn columns_of_tables_are_found_or_named() {
    let csv = "id,question,answer\r\n1,\"a, b\nc\",x y\r\n2,d,\r\n";
    let loaded = plain("d.csv", csv).unwrap();
    let (_, mut all) = sent(loaded, 2, |_| ());
    all.sort_by_key(|drawn| drawn.turns[0].text.len());
    assert_eq!(texts(&all[0]), [(Role::User, "d")]);
    assert_eq!(texts(&all[1]), [(Role::User, "a, b\nc")]);
    assert_eq!((all[0].output_tokens, all[1].output_tokens), (33, 1));

    let named = DatasetOptions {
        prompt_column: Some("Body".to_owned()),
        output_column: Some("n".to_owned()),
        ..DatasetOptions::default()
    };
    let loaded = load("d.csv", b"body,n\nhello,7\n", &named).unwrap();
    assert_eq!(sent(loaded, 1, |_| ()).1[0].output_tokens, 7);
    let loaded = load("d.tsv", b"body\tn\nhello, you\t7\n", &named).unwrap();
    assert_eq!(texts(&sent(loaded, 1, |_| ()).1[0]), [(Role::User, "hello, you")]);
}

#[test]
fn what_is_wrong_is_named_by_its_line() {
    let good = "{\"prompt\": \"a\"}\n";
    for (name, text, expected) in [
        (
            "d.jsonl",
            format!("{good}{{\"prompt\": \n"),
            "line 2: it is not JSON",
        ),
        (
            "d.jsonl",
            format!("{good}\n[1]\n"),
            "line 3: [1] is not an object",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"x\": 1}}\n"),
            "line 2: it has none of `messages`",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"messages\": 5}}\n"),
            "line 2: `messages` is not a list",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"messages\": [5]}}\n"),
            "line 2: a message has no `role`",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"messages\": [{{\"role\": \"alien\", \"content\": \"x\"}}]}}\n"),
            "line 2: `alien` is not a role",
        ),
        (
            "d.jsonl",
            format!(
                "{good}{{\"messages\": [{{\"role\": \"user\", \"content\": [{{\"type\": \"image_url\"}}]}}]}}\n"
            ),
            "line 2: a message has a part of type `image_url`",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"prompt\": \"x\", \"max_tokens\": 0}}\n"),
            "line 2: 0 is not the length of a reply",
        ),
        (
            "d.jsonl",
            format!("{good}{{\"prompt\": \"x\", \"max_tokens\": 1e99}}\n"),
            "line 2: 1e",
        ),
        ("d.jsonl", "{\"prompt\": \"  \"}\n".to_owned(), "no prompt in it"),
        (
            "s.json",
            "[{\"conversations\": 3}]".to_owned(),
            "entry 1: `conversations` is not a list",
        ),
        (
            "s.json",
            "[\n{\"conversations\": []},\n{\"conv".to_owned(),
            "line 3: it is not a JSON array",
        ),
        ("s.json", format!("{SHAREGPT} x"), "it is not a JSON array"),
        ("s.json", "[]".to_owned(), "no prompt in it"),
        (
            "d.csv",
            "a,b\n1,2\n".to_owned(),
            "line 1: there is no column of prompts",
        ),
        (
            "d.csv",
            "prompt,max_tokens\nx,5\ny,-2\n".to_owned(),
            "line 3: `-2` is not the length",
        ),
        (
            "d.csv",
            "id,prompt\n1,x\n2\n".to_owned(),
            "line 3: it has no `prompt`",
        ),
        (
            "d.csv",
            "prompt,max_tokens\r\n\"a\nb\",5\r\n\r\n\r\ny,-2".to_owned(),
            "line 6: `-2` is not the length",
        ),
        (
            "d.csv",
            "prompt,max_tokens\n\n\ny,-2\nx,3".to_owned(),
            "line 4: `-2` is not the length",
        ),
        ("d.bin", "neither".to_owned(), "--dataset-format"),
        ("d.jsonl", String::new(), "there is nothing in it"),
    ] {
        let error = plain(name, &text).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = load(
        "d.jsonl",
        b"{\"prompt\": \"a\"}\n\xff\xfe\n",
        &DatasetOptions::default(),
    )
    .unwrap_err();
    assert!(error.contains("line 2: it is not UTF-8"), "{error}");
    let error = load("d.parquet", b"PAR1 and no more", &DatasetOptions::default()).unwrap_err();
    assert!(error.contains("not a Parquet file"), "{error}");
    let missing = DatasetOptions {
        prompt_column: Some("promt".to_owned()),
        ..DatasetOptions::default()
    };
    let error = load("d.csv", b"prompt,b\n1,2\n", &missing).unwrap_err();
    assert!(error.contains("did you mean `prompt`"), "{error}");
    assert_eq!("parquet".parse(), Ok(DatasetFormat::Parquet));
    let error = "sharegtp".parse::<DatasetFormat>().unwrap_err().to_string();
    assert!(error.contains("did you mean `sharegpt`"), "{error}");
}

#[test]
fn parquet_columns_are_read() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let schema =
        parse_message_type("message m { REQUIRED BYTE_ARRAY prompt (UTF8); REQUIRED INT64 output_tokens; }")
            .unwrap();
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut writer = SerializedFileWriter::new(
        std::fs::File::create(&path).unwrap(),
        Arc::new(schema),
        Arc::new(properties),
    )
    .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts: Vec<ByteArray> = ["first", "second"].map(ByteArray::from).to_vec();
    column
        .typed::<ByteArrayType>()
        .write_batch(&texts, None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int64Type>()
        .write_batch(&[11, 22], None, None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

    let loaded = load_dataset(path.to_str().unwrap(), &DatasetOptions::default()).unwrap();
    assert_eq!(loaded.source.format, "parquet");
    let (_, all) = sent(loaded, 2, |_| ());
    let found: HashSet<(&str, u32)> = all
        .iter()
        .map(|drawn| (&*drawn.turns[0].text, drawn.output_tokens))
        .collect();
    assert_eq!(found, HashSet::from([("first", 11), ("second", 22)]));
}

#[test]
fn every_prompt_is_used_once_before_any_comes_again_and_that_is_said() {
    let lines: String = (0..50).map(|n| format!("{{\"prompt\": \"p{n}\"}}\n")).collect();
    let (prompts, all) = sent(plain("d.jsonl", &lines).unwrap(), 50, |_| ());
    let different: HashSet<&str> = all.iter().map(|drawn| &*drawn.turns[0].text).collect();
    assert_eq!((different.len(), prompts.warnings().len()), (50, 0));
    let (prompts, all) = sent(plain("d.jsonl", &lines).unwrap(), 51, |_| ());
    assert_eq!(all[50].turns, all[0].turns);
    assert!(
        prompts.warnings()[0].contains("51 requests were drawn from 50"),
        "{:?}",
        prompts.warnings()
    );
    let twice = plain("d.jsonl", &format!("{lines}{lines}")).unwrap();
    assert!(
        twice.notes[0].contains("100 prompts of which only 50 are distinct"),
        "{:?}",
        twice.notes
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn no_bytes_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..200), head in 0..4_usize) {
        let heads = ["PAR1", "[{\"conversations\":[{\"from\":\"human\",\"value\":\"", "{\"messages\":[{", "prompt,output_tokens\n"];
        let bytes = [heads[head].as_bytes(), &tail].concat();
        for name in ["x.csv", "x.json", "x.parquet"] {
            let _ = load(name, &bytes, &DatasetOptions::default());
        }
    }
}
