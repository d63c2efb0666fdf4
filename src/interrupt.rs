//! Ctrl-C: the first asks for an orderly stop, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_run::runner::{Stop, Watch};

use crate::console::say;
use crate::exit::Exit;

/// Whether load is running, so that a first Ctrl-C has something to stop in order.
pub type UnderLoad = Arc<AtomicBool>;

/// Whoever starts a sweep as a part of something larger, as `plimsoll serve` does, sets this variable and holds the other end
/// of its stdin: when that closes, however it came about, nobody watches the load any more, and it ends.
const END_WITH_STDIN: &str = "PLIMSOLL_END_WITH_STDIN";

fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        say("plimsoll: interrupted: what started this sweep has gone");
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
}

/// Routes SIGINT and SIGTERM to `watch`. Before there is any load, and on the second signal, the program ends at
/// once with exit code 130: every file of a run is replaced atomically, so what is on disk is whole.
///
/// # Errors
/// When the handler cannot be installed.
pub fn listen(watch: Arc<Watch>, under_load: UnderLoad) -> anyhow::Result<()> {
    if std::env::var_os(END_WITH_STDIN).is_some() {
        end_with_stdin();
    }
    ctrlc::set_handler(move || {
        watch.ask_to_stop();
        if watch.stop() == Stop::Now || !under_load.load(Ordering::SeqCst) {
            say("plimsoll: interrupted");
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        say("plimsoll: stopping: no new requests, draining for a moment (Ctrl-C again to stop at once)");
    })?;
    Ok(())
}
