use super::*;
use crate::spec::Serving;
use crate::step_cost::StepCost;

use proptest::prelude::*;

fn tiny(kv_blocks: u32, max_num_seqs: u32, max_num_batched_tokens: u32) -> EngineSpec {
    EngineSpec {
        model: "tiny".to_owned(),
        instance: "none".to_owned(),
        // 10 ms a step, 1 ms a sequence, 0.1 ms a prompt token.
        cost: StepCost {
            fixed_s: 10e-3,
            launch_floor_s: 0.0,
            dense_s: 0.0,
            experts: None,
            kv_token_s: 0.0,
            state_s: 0.0,
            sequence_s: 1e-3,
            prefill_token_s: 0.1e-3,
        },
        serving: Serving {
            max_num_seqs,
            max_num_batched_tokens,
            block_size: 16,
            gpu_memory_utilization: 0.9,
            max_model_len: 4_096,
            prefix_caching: true,
        },
        kv_blocks,
        state_blocks: 0,
    }
}

fn request(id: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request {
        id,
        prompt_tokens,
        block_hashes: (0..prompt_tokens / 16)
            .map(|block| id * 1_000 + u64::from(block))
            .collect(),
        output_tokens,
    }
}

fn run_dry(engine: &mut Engine, mut now: Duration) -> (Duration, Vec<Token>) {
    let mut tokens = Vec::new();
    while let Some(step) = engine.step(now) {
        now = step.ends_at;
        tokens.extend(step.tokens);
        engine.pool.check();
    }
    (now, tokens)
}

#[test]
fn one_request_takes_the_time_of_the_formula() {
    let mut engine = Engine::new(tiny(100, 8, 512));
    engine.submit(Duration::ZERO, request(1, 100, 3)).unwrap();
    let first = engine.step(Duration::ZERO).unwrap();
    // 10 + 1 + 100 * 0.1 ms
    assert_eq!(first.ends_at, Duration::from_millis(21));
    assert_eq!(first.tokens.len(), 1);
    let (end, rest) = run_dry(&mut engine, first.ends_at);
    assert_eq!(end, Duration::from_millis(21 + 11 + 11));
    assert_eq!(
        rest.iter().map(|token| token.last).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(engine.pool.held(), 0);
}

#[test]
fn long_prompts_are_chunked_and_decodes_go_on_meanwhile() {
    let mut engine = Engine::new(tiny(1_000, 8, 100));
    engine.submit(Duration::ZERO, request(1, 50, 10)).unwrap();
    let mut now = engine.step(Duration::ZERO).unwrap().ends_at;
    engine.submit(now, request(2, 250, 2)).unwrap();
    // 99 tokens of the prompt beside each decode: 99 + 99 + 52.
    for first_of_two in [false, false, true] {
        let step = engine.step(now).unwrap();
        assert_eq!(step.tokens[0].id, 1);
        assert_eq!(step.tokens.len() == 2, first_of_two);
        now = step.ends_at;
    }
}

#[test]
fn a_request_never_joins_a_step_that_began_before_it_came() {
    let mut engine = Engine::new(tiny(100, 8, 512));
    engine
        .submit(Duration::from_millis(5), request(1, 16, 1))
        .unwrap();
    assert_eq!(engine.step(Duration::from_millis(4)), None);
    assert!(engine.step(Duration::from_millis(5)).is_some());
}

#[test]
fn max_num_seqs_bounds_the_batch_and_the_rest_wait_in_order() {
    let mut engine = Engine::new(tiny(1_000, 2, 512));
    for id in 0..5 {
        engine.submit(Duration::ZERO, request(id, 16, 4)).unwrap();
    }
    let step = engine.step(Duration::ZERO).unwrap();
    assert_eq!(
        step.tokens.iter().map(|token| token.id).collect::<Vec<_>>(),
        [0, 1]
    );
    let counters = engine.counters();
    assert_eq!((counters.running, counters.waiting), (2, 3));
}

#[test]
fn equal_prompts_hit_the_prefix_cache_but_for_the_last_token() {
    let mut engine = Engine::new(tiny(100, 8, 512));
    let ask = |id| Request {
        id,
        prompt_tokens: 64,
        block_hashes: vec![11, 12, 13, 14],
        output_tokens: 1,
    };
    engine.submit(Duration::ZERO, ask(1)).unwrap();
    let (now, tokens) = run_dry(&mut engine, Duration::ZERO);
    assert_eq!(tokens[0].cached_tokens, 0);
    engine.submit(now, ask(2)).unwrap();
    let (end, tokens) = run_dry(&mut engine, now);
    // The fourth block would leave nothing to compute.
    assert_eq!(tokens[0].cached_tokens, 48);
    assert_eq!(end - now, Duration::from_micros(11_000 + 16 * 100));
    let counters = engine.counters();
    assert_eq!((counters.prefix_queries, counters.prefix_hits), (128, 48));
}

#[test]
fn the_youngest_is_preempted_and_still_answered_in_full() {
    // Two sequences of 64 + 64 tokens need 16 blocks; there are 10.
    let mut engine = Engine::new(tiny(10, 8, 512));
    for id in [1, 2] {
        engine.submit(Duration::ZERO, request(id, 64, 64)).unwrap();
    }
    let (_, tokens) = run_dry(&mut engine, Duration::ZERO);
    assert!(engine.counters().preemptions >= 1);
    for id in [1, 2] {
        let own: Vec<u32> = tokens
            .iter()
            .filter(|token| token.id == id)
            .map(|token| token.index)
            .collect();
        assert_eq!(own, (0..64).collect::<Vec<_>>());
    }
    let last_of = |id| tokens.iter().position(|token| token.id == id && token.last);
    assert!(last_of(1) < last_of(2), "the older one was not held up");
    assert_eq!(engine.pool.held(), 0);
}

#[test]
fn impossible_requests_are_refused() {
    let mut engine = Engine::new(tiny(4, 8, 512));
    assert_eq!(
        engine.submit(Duration::ZERO, request(1, 0, 1)),
        Err(SubmitError::Empty)
    );
    assert_eq!(
        engine.submit(Duration::ZERO, request(1, 60, 5)),
        Err(SubmitError::TooLong { asked: 65, most: 64 })
    );
    assert_eq!(engine.submit(Duration::ZERO, request(1, 59, 5)), Ok(()));
    assert_eq!(
        engine.submit(Duration::ZERO, request(1, 59, 5)),
        Err(SubmitError::Duplicate(1))
    );
    assert!(engine.abort(1));
    assert!(!engine.abort(1));
}

#[derive(Debug, Clone)]
enum Call {
    Submit { prompt: u32, output: u32, family: u64 },
    Abort { nth: usize },
    Steps(u8),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => (1_u32..200, 1_u32..60, 0_u64..4)
            .prop_map(|(prompt, output, family)| Call::Submit { prompt, output, family }),
        1 => (0_usize..50).prop_map(|nth| Call::Abort { nth }),
        3 => (1_u8..20).prop_map(Call::Steps),
    ];
    proptest::collection::vec(call, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Blocks never leak, replies are whole and in order, the batch is bounded, the aborted are gone.
    #[test]
    fn no_sequence_of_calls_breaks_the_engine(
        calls in calls(),
        blocks in 20_u32..60,
        seqs in 1_u32..6,
        batched in 1_u32..300,
        state in 0_u32..3,
        caching in any::<bool>(),
    ) {
        let mut spec = tiny(blocks, seqs, batched);
        spec.state_blocks = state;
        spec.serving.prefix_caching = caching;
        let mut engine = Engine::new(spec);
        let mut now = Duration::ZERO;
        let mut asked = std::collections::HashMap::new();
        let mut got: std::collections::HashMap<u64, u32> = std::collections::HashMap::new();
        let mut aborted = std::collections::HashSet::new();
        let mut take = |engine: &mut Engine, step: Step, aborted: &std::collections::HashSet<u64>| {
            engine.pool.check();
            assert!(engine.running.len() <= seqs as usize);
            for token in step.tokens {
                assert!(!aborted.contains(&token.id), "token of an aborted request");
                let so_far = got.entry(token.id).or_default();
                assert_eq!(token.index, *so_far);
                *so_far += 1;
            }
            step.ends_at
        };
        for call in calls {
            match call {
                Call::Submit { prompt, output, family } => {
                    let id = asked.len() as u64;
                    let request = Request {
                        id,
                        prompt_tokens: prompt,
                        block_hashes: (0..prompt / 16).map(|block| family * 1_000 + u64::from(block)).collect(),
                        output_tokens: output,
                    };
                    if engine.submit(now, request).is_ok() {
                        asked.insert(id, output);
                    }
                }
                Call::Abort { nth } => {
                    let id = nth as u64;
                    if engine.abort(id) {
                        aborted.insert(id);
                    }
                    engine.pool.check();
                }
                Call::Steps(count) => {
                    for _ in 0..count {
                        if let Some(step) = engine.step(now) {
                            now = take(&mut engine, step, &aborted);
                        }
                    }
                }
            }
        }
        while let Some(step) = engine.step(now) {
            now = take(&mut engine, step, &aborted);
        }
        prop_assert_eq!(engine.pool.held(), 0);
        prop_assert!(engine.running.is_empty() && engine.waiting.is_empty() && engine.ids.is_empty());
        for (id, output) in asked {
            if !aborted.contains(&id) {
                prop_assert_eq!(got.get(&id).copied().unwrap_or(0), output);
            }
        }
    }
}
