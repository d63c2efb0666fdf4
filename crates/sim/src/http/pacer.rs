//! The engine in wall time.
//!
//! Step n + 1 begins when step n was due to end, not when this thread woke up for it, so the engine keeps its pace
//! over any length of time; a late wake-up delays one step's tokens and nothing after them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::counters::Counters;
use crate::engine::{Engine, Request, Step, Token};

/// What the routes ask of the engine.
#[derive(Debug)]
pub(crate) enum Command {
    /// A request that came at `arrived`. Its tokens go to `tokens`, which is closed without any when the engine
    /// refuses it.
    Submit {
        arrived: Instant,
        request: Request,
        tokens: UnboundedSender<Token>,
    },
    /// The client of this request has gone.
    Abort(u64),
    /// For `/metrics`.
    Counters(oneshot::Sender<Counters>),
    /// The end.
    Stop,
}

/// Runs the engine until it is told to stop or nobody is left to tell it.
pub(crate) fn run(engine: Engine, commands: &Receiver<Command>) {
    let mut pacer = Pacer {
        engine,
        origin: Instant::now(),
        replies: HashMap::new(),
    };
    let mut step: Option<Step> = None;
    loop {
        match step.take() {
            None => match commands.recv() {
                Ok(command) => {
                    if !pacer.handle(command) {
                        return;
                    }
                    step = pacer.engine.step(pacer.origin.elapsed());
                }
                Err(_) => return,
            },
            Some(running) => {
                if !pacer.wait(commands, running.ends_at) {
                    return;
                }
                pacer.emit(&running);
                // Requests that came while this thread was waking up have missed the step that follows at once;
                // when there is none, they begin one now.
                step = pacer
                    .engine
                    .step(running.ends_at)
                    .or_else(|| pacer.engine.step(pacer.origin.elapsed()));
            }
        }
    }
}

struct Pacer {
    engine: Engine,
    origin: Instant,
    replies: HashMap<u64, UnboundedSender<Token>>,
}

impl Pacer {
    /// Handles commands until the engine's clock shows `until`. `false` at the end.
    fn wait(&mut self, commands: &Receiver<Command>, until: Duration) -> bool {
        loop {
            let left = until.saturating_sub(self.origin.elapsed());
            let command = if left.is_zero() {
                match commands.try_recv() {
                    Ok(command) => command,
                    // Disconnection shows again at the next wait.
                    Err(_) => return true,
                }
            } else {
                match commands.recv_timeout(left) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return false,
                }
            };
            if !self.handle(command) {
                return false;
            }
        }
    }

    /// `false` for the command to stop.
    fn handle(&mut self, command: Command) -> bool {
        match command {
            Command::Submit {
                arrived,
                request,
                tokens,
            } => {
                let id = request.id;
                let now = arrived.saturating_duration_since(self.origin);
                // A refused request's sender is dropped here, which tells its reader.
                if self.engine.submit(now, request).is_ok() {
                    self.replies.insert(id, tokens);
                }
            }
            Command::Abort(id) => {
                self.engine.abort(id);
                self.replies.remove(&id);
            }
            Command::Counters(reply) => {
                // A reader that has gone needs no answer.
                let _ = reply.send(self.engine.counters());
            }
            Command::Stop => return false,
        }
        true
    }

    fn emit(&mut self, step: &Step) {
        for token in &step.tokens {
            let Some(reply) = self.replies.get(&token.id) else {
                continue;
            };
            // A client that has gone aborts its request by a command of its own.
            let _ = reply.send(*token);
            if token.last {
                self.replies.remove(&token.id);
            }
        }
    }
}
