//! A reply under way: its tokens on their way from the engine to the client.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::engine::Token;
use crate::http::pacer::Command;
use crate::http::shared::Shared;
use crate::http::wire::Wire;

/// The engine's side of a reply. Dropped before the last token, it aborts the request: that is how the engine
/// learns that a client has gone.
#[derive(Debug)]
pub(crate) struct Source {
    id: u64,
    tokens: UnboundedReceiver<Token>,
    shared: Arc<Shared>,
    stops: bool,
    complete: bool,
}

impl Source {
    pub(crate) fn new(id: u64, tokens: UnboundedReceiver<Token>, shared: Arc<Shared>, stops: bool) -> Self {
        Source {
            id,
            tokens,
            shared,
            stops,
            complete: false,
        }
    }

    /// The next token; `None` when the engine gives no more.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Token>> {
        let polled = self.tokens.poll_recv(context);
        match &polled {
            Poll::Ready(Some(token)) if token.last => {
                self.complete = true;
                self.shared.count_ending(self.stops);
            }
            Poll::Ready(None) => self.complete = true,
            _ => {}
        }
        polled
    }

    /// All tokens; fewer than asked for when the engine has stopped.
    pub(crate) async fn all(mut self) -> Vec<Token> {
        let mut all = Vec::new();
        while let Some(token) = std::future::poll_fn(|context| self.poll(context)).await {
            all.push(token);
            if token.last {
                break;
            }
        }
        all
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.complete {
            // An engine that has stopped has nothing to abort.
            let _ = self.shared.commands.send(Command::Abort(self.id));
        }
    }
}

/// The body of a streamed reply.
#[derive(Debug)]
pub(crate) struct TokenStream {
    source: Source,
    wire: Wire,
    include_usage: bool,
    /// Where chunks are written; handed on piece by piece, so that many tokens share an allocation.
    buffer: BytesMut,
    ended: bool,
}

impl TokenStream {
    pub(crate) fn new(source: Source, wire: Wire, include_usage: bool) -> Self {
        TokenStream {
            source,
            wire,
            include_usage,
            buffer: BytesMut::with_capacity(4_096),
            ended: false,
        }
    }
}

impl Body for TokenStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        // Tokens that are due together go out together, each in an event of its own.
        while !this.ended {
            match this.source.poll(context) {
                Poll::Ready(Some(token)) => {
                    this.wire.put_token(&mut this.buffer, &token);
                    if token.last {
                        this.wire.put_end(&mut this.buffer, &token, this.include_usage);
                        this.ended = true;
                    }
                }
                Poll::Ready(None) => this.ended = true,
                Poll::Pending => break,
            }
        }
        if !this.buffer.is_empty() {
            let chunk = this.buffer.split().freeze();
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if this.ended {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.buffer.is_empty()
    }
}
