//! Any bytes as an event stream of frames: no panic, and the same payload and error however the bytes were cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_aws::event_stream::{FrameError, Frames};

fn payload<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Result<bool, FrameError>) {
    let mut frames = Frames::default();
    let mut bytes = Vec::new();
    for piece in pieces {
        if let Err(error) = frames.push(piece, |part| bytes.extend_from_slice(part)) {
            return (bytes, Err(error));
        }
    }
    (bytes, Ok(frames.partial()))
}

fuzz_target!(|input: &[u8]| {
    let [cut, body @ ..] = input else {
        return;
    };
    let cut = usize::from(*cut) % 29 + 1;
    assert_eq!(payload([body]), payload(body.chunks(cut)), "cut every {cut} bytes");
});
