//! Any bytes as a reply in any dialect: no panic, and the same verdict however the bytes were cut.
//!
//! The first byte chooses the dialect, the second the content type, the third the status, the fourth how the body is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_load::fuzzed::hear;
use plimsoll_run::target::Dialect;

const KINDS: [&[u8]; 5] = [
    b"text/event-stream",
    b"application/x-ndjson",
    b"application/json",
    b"application/vnd.amazon.eventstream",
    b"text/html",
];

fuzz_target!(|input: &[u8]| {
    let [dialect, kind, status, cut, body @ ..] = input else {
        return;
    };
    let (_, dialect) = Dialect::NAMES[usize::from(*dialect) % Dialect::NAMES.len()];
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let status = if status % 8 == 7 { 500 } else { 200 };
    let whole = hear(dialect, status, kind, [body]);
    let cut = usize::from(*cut) % 13 + 1;
    assert_eq!(whole, hear(dialect, status, kind, body.chunks(cut)), "cut every {cut} bytes");
});
