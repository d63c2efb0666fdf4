//! The reader: one thread that reads finished replies off the hot path, one message a request.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use plimsoll_run::evidence::ChunkLog;
use plimsoll_run::request::RequestRecord;

use crate::board::Board;
use crate::flight::{Buffers, Ending, Flight};
use crate::reply;
use crate::secret::Redactor;

/// A request that is over.
#[derive(Debug)]
pub(crate) struct Landed {
    pub flight: Flight,
    pub ending: Ending,
    /// The load thread that waits for the buffers.
    pub thread: usize,
}

/// What the driver is told of a request that ended: all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice(pub RequestRecord);

/// Reads replies until all load threads are gone. `buffers` has one way back for each of them.
pub(crate) fn read_all(
    landed: &Receiver<Landed>,
    buffers: &[Sender<Buffers>],
    notices: &Sender<Notice>,
    board: &Arc<Board>,
    redactor: &Redactor,
) -> (Vec<RequestRecord>, ChunkLog) {
    let mut requests = Vec::new();
    let mut chunks = ChunkLog::default();
    for Landed {
        mut flight,
        ending,
        thread,
    } in landed
    {
        chunks.push(reply::read(&mut flight, &ending, redactor));
        let record = flight.record;
        if flight.events == 0
            && let Some(tokens) = record.output_tokens
        {
            // Nothing was counted while it came in: it was not streamed.
            board.chunks_of(buffers.len()).add(u64::from(tokens));
        }
        // The driver and the load thread may both have finished: then nobody needs these any more.
        let _ = notices.send(Notice(record.clone()));
        if let Some(back) = buffers.get(thread) {
            let _ = back.send(flight.buffers.recycled());
        }
        requests.push(record);
    }
    (requests, chunks)
}
