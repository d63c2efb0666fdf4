use std::collections::{HashMap, HashSet};

use plimsoll_run::workload::{Conversation, SharedPrefix, TokenLength};

use super::*;
use crate::request::Drawn;
use crate::seed::Which;

fn workload(input: &str, output: &str) -> Workload {
    Workload {
        input_tokens: input.parse().unwrap(),
        output_tokens: output.parse().unwrap(),
        ..Workload::default()
    }
}

fn prompts(workload: &Workload) -> Arc<Prompts> {
    Arc::new(Prompts::new(workload, None, Calibration::UNKNOWN, 42))
}

fn id(rung: u32, slot: u32, nth: u64) -> u64 {
    Which {
        seed: 42,
        rung,
        slot,
        nth,
    }
    .hash()
}

fn opening(drawn: &Drawn) -> String {
    let all: Vec<&str> = drawn.turns.iter().flat_map(|turn| turn.text.split(' ')).collect();
    all[..16].join(" ")
}

/// `per_slot` requests of each of `slots` slots in each of `rungs` rungs, each answered at once.
fn whole_sweep(prompts: &Arc<Prompts>, rungs: u32, slots: u32, per_slot: u64) -> Vec<Drawn> {
    let mut drawn = Vec::new();
    for order in 1..=rungs {
        let rung = prompts.rung(order);
        let mut all: Vec<SlotPrompts> = (0..slots).map(|_| SlotPrompts::new(&rung)).collect();
        for nth in 0..per_slot {
            for (slot, prompts) in (0..).zip(&mut all) {
                let now = Duration::from_secs(nth);
                // Looked ahead by some and not by others.
                if slot % 2 == 0 {
                    prompts.look_ahead(now, || id(order, slot, nth));
                }
                drawn.push(
                    prompts
                        .next(now, || id(order, slot, nth))
                        .drawn(Calibration::UNKNOWN),
                );
                prompts.ended(now, true);
            }
        }
    }
    drawn
}

#[test]
fn cold_prompts_never_begin_alike_and_come_again_with_the_same_seed() {
    let workload = workload("64:10", "7");
    let all = whole_sweep(&prompts(&workload), 4, 16, 30);
    let openings: HashSet<String> = all.iter().map(opening).collect();
    assert_eq!(openings.len(), 4 * 16 * 30);
    assert_eq!(all, whole_sweep(&prompts(&workload), 4, 16, 30));
    for drawn in &all {
        assert_eq!(drawn.turns.len(), 1);
        assert_eq!(
            drawn.turns[0].text.split(' ').count(),
            drawn.input_tokens as usize
        );
    }
}

#[test]
fn exactly_the_asked_share_begins_with_a_prefix_of_the_pool() {
    for (share, pool) in [(0.8, 10), (0.0, 3), (1.0, 1), (0.37, 7)] {
        let mut workload = workload("64", "7");
        workload.shared_prefix = Some(SharedPrefix {
            tokens: 32,
            share,
            pool,
        });
        let all = whole_sweep(&prompts(&workload), 3, 8, 25);
        let mut uses: HashMap<&str, usize> = HashMap::new();
        let mut rest = HashSet::new();
        for drawn in &all {
            let [system, user] = &drawn.turns[..] else {
                panic!("{drawn:?}")
            };
            assert_eq!(system.role, Role::System);
            assert_eq!(
                (system.text.split(' ').count(), user.text.split(' ').count()),
                (32, 32)
            );
            assert_eq!(drawn.input_tokens, 64);
            *uses.entry(&system.text).or_default() += 1;
            assert!(rest.insert(user.text.clone()), "what follows a prefix is new");
        }
        let shared: Vec<usize> = uses.values().copied().filter(|n| *n > 1).collect();
        let asked = (600.0 * share + 1e-9) as usize;
        assert_eq!(shared.iter().sum::<usize>(), asked, "{share} {pool}");
        assert_eq!(shared.len(), if asked == 0 { 0 } else { pool as usize });
    }
}

#[test]
fn a_prompt_no_longer_than_its_prefix_keeps_a_word_of_its_own() {
    let mut workload = workload("10", "7");
    workload.shared_prefix = Some(SharedPrefix {
        tokens: 32,
        share: 1.0,
        pool: 1,
    });
    let drawn = prompts(&workload).rung(1).alone(5).drawn(Calibration::UNKNOWN);
    assert_eq!(drawn.turns[1].text.split(' ').count(), 1);
    assert_eq!(drawn.input_tokens, 33);
}

fn talking(turns: u32, think_s: f64) -> Arc<Prompts> {
    let mut workload = workload("20:5", "8:2");
    workload.conversation = Some(Conversation { turns, think_s });
    prompts(&workload)
}

#[test]
fn a_conversation_grows_by_what_was_said_and_its_user_thinks() {
    let prompts = talking(4, 2.0);
    let rung = prompts.rung(1);
    let mut slot = SlotPrompts::new(&rung);
    let ms = Duration::from_millis;
    // A reply takes 100 ms and three of four are followed by a pause of twenty: fifteen users think.
    let mut sent: Vec<(Duration, Drawn)> = Vec::new();
    let mut now = ms(0);
    for nth in 0..400 {
        let drawn = slot.next(now, || id(1, 0, nth)).drawn(Calibration::UNKNOWN);
        sent.push((now, drawn));
        now += ms(100);
        slot.ended(now, true);
    }
    assert!((14..=16).contains(&slot.open()), "{}", slot.open());
    let mut by_turn = [0; 4];
    let mut followed = 0;
    for (at, (began, drawn)) in sent.iter().enumerate() {
        let words: usize = drawn.turns.iter().map(|turn| turn.text.split(' ').count()).sum();
        assert_eq!(words, drawn.input_tokens as usize);
        by_turn[drawn.turns.len() / 2] += 1;
        assert_eq!(
            drawn
                .turns
                .iter()
                .map(|turn| turn.role.name())
                .collect::<Vec<_>>(),
            ["user", "assistant"]
                .iter()
                .cycle()
                .take(drawn.turns.len())
                .copied()
                .collect::<Vec<_>>()
        );
        // The turn after it repeats it word for word, and asked for a reply of the length that stands in it.
        if let Some((later, next)) = sent[at + 1..]
            .iter()
            .find(|(_, next)| next.turns.len() > drawn.turns.len() && next.turns.starts_with(&drawn.turns))
        {
            followed += 1;
            assert_eq!(next.turns.len(), drawn.turns.len() + 2);
            let pause = *later - (*began + ms(100));
            assert!(pause >= ms(2000) && pause < ms(2200), "{pause:?}");
            let reply = next.turns[drawn.turns.len()].text.split(' ').count();
            assert_eq!(reply, drawn.output_tokens as usize);
        }
    }
    // From the first request on, each turn is as frequent as any other.
    assert!(by_turn.iter().all(|n| (95..=105).contains(n)), "{by_turn:?}");
    assert!(followed > 270, "{followed}");
}

#[test]
fn without_thinking_a_slot_holds_one_conversation_and_a_failure_ends_it() {
    let prompts = talking(3, 0.0);
    let rung = prompts.rung(1);
    let mut slot = SlotPrompts::new(&rung);
    let mut turns = Vec::new();
    for nth in 0..9 {
        let now = Duration::from_millis(10 * nth);
        turns.push(
            slot.next(now, || id(1, 0, nth))
                .drawn(Calibration::UNKNOWN)
                .turns
                .len(),
        );
        slot.ended(now, nth != 4);
        assert!(slot.open() <= 1);
    }
    assert_eq!(turns, [1, 3, 5, 1, 3, 1, 3, 5, 1]);
}

#[test]
fn arrivals_by_themselves_meet_every_turn_alike() {
    let prompts = talking(4, 1.0);
    let rung = prompts.rung(3);
    let mut by_turn = [0; 4];
    for n in 0..40 {
        let drawn = rung.alone(id(3, 0, n)).drawn(Calibration::UNKNOWN);
        by_turn[drawn.turns.len() / 2] += 1;
    }
    assert_eq!(by_turn, [10; 4]);
}

#[test]
fn a_shared_prefix_stays_with_its_conversation() {
    let mut workload = workload("20", "8");
    workload.conversation = Some(Conversation {
        turns: 2,
        think_s: 0.0,
    });
    workload.shared_prefix = Some(SharedPrefix {
        tokens: 5,
        share: 0.5,
        pool: 1,
    });
    let prompts = prompts(&workload);
    let rung = prompts.rung(1);
    let mut slot = SlotPrompts::new(&rung);
    let all: Vec<Drawn> = (0..40)
        .map(|nth| {
            let drawn = slot
                .next(Duration::from_secs(nth), || id(1, 0, nth))
                .drawn(Calibration::UNKNOWN);
            slot.ended(Duration::from_secs(nth), true);
            drawn
        })
        .collect();
    for pair in all.chunks(2) {
        assert_eq!(pair[0].turns[..2], pair[1].turns[..2]);
        assert_eq!(pair[1].turns.len(), 4);
    }
    let prefixes: HashSet<&str> = all.iter().map(|drawn| &*drawn.turns[0].text).collect();
    assert_eq!(prefixes.len(), 11, "ten of their own and one shared");
}

#[test]
fn the_overhead_of_the_template_is_counted_once() {
    let calibration = Calibration {
        overhead: 12.0,
        per_word: 1.25,
        ..Calibration::UNKNOWN
    };
    let mut workload = workload("112", "8");
    let plain = Arc::new(Prompts::new(&workload, None, calibration, 1));
    let drawn = plain.rung(1).alone(9).drawn(calibration);
    assert_eq!(drawn.turns[0].text.split(' ').count(), 80);
    workload.shared_prefix = Some(SharedPrefix {
        tokens: 50,
        share: 1.0,
        pool: 1,
    });
    let shared = Arc::new(Prompts::new(&workload, None, calibration, 1));
    let drawn = shared.rung(1).alone(9).drawn(calibration);
    let words: Vec<usize> = drawn
        .turns
        .iter()
        .map(|turn| turn.text.split(' ').count())
        .collect();
    assert_eq!(words, [40, 40]);
    assert_eq!(workload.input_tokens, TokenLength::Fixed(112));
}
