//! The socket with its clock: when bytes left and when they came.
//!
//! The wrapper sits directly on TCP, below TLS, so that a time stamp is that of the read and not of what decryption
//! or HTTP made of it later.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the socket noted since it was last armed.
#[derive(Debug)]
pub(crate) struct WireClock {
    first_write: Cell<Option<Instant>>,
    last_read: Cell<Instant>,
    bytes_read: Cell<u64>,
    first_byte: Cell<Option<u8>>,
    write_failed: Cell<bool>,
}

impl WireClock {
    fn new() -> Self {
        WireClock {
            first_write: Cell::new(None),
            last_read: Cell::new(Instant::now()),
            bytes_read: Cell::new(0),
            first_byte: Cell::new(None),
            write_failed: Cell::new(false),
        }
    }

    /// Forgets: a new request begins.
    pub(crate) fn arm(&self) {
        self.first_write.set(None);
        self.bytes_read.set(0);
        self.first_byte.set(None);
        self.write_failed.set(false);
    }

    /// When the first byte was handed to the system.
    pub(crate) fn first_write(&self) -> Option<Instant> {
        self.first_write.get()
    }

    /// When bytes last came.
    pub(crate) fn last_read(&self) -> Instant {
        self.last_read.get()
    }

    /// Whether any byte came.
    pub(crate) fn answered(&self) -> bool {
        self.bytes_read.get() > 0
    }

    /// The first byte that came.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.first_byte.get()
    }

    /// Whether a write failed.
    pub(crate) fn write_failed(&self) -> bool {
        self.write_failed.get()
    }

    fn writing(&self) {
        if self.first_write.get().is_none() {
            self.first_write.set(Some(Instant::now()));
        }
    }

    fn wrote<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(outcome, Poll::Ready(Err(_))) {
            self.write_failed.set(true);
        }
        outcome
    }
}

/// A stream that notes when bytes go and come.
#[derive(Debug)]
pub(crate) struct Stamped<S> {
    inner: S,
    clock: Rc<WireClock>,
}

impl<S> Stamped<S> {
    /// Wraps a socket.
    pub(crate) fn new(inner: S) -> Self {
        Stamped {
            inner,
            clock: Rc::new(WireClock::new()),
        }
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> Rc<WireClock> {
        Rc::clone(&self.clock)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stamped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buf);
        let came = &buf.filled()[before..];
        if let Some(&first) = came.first() {
            let clock = &self.clock;
            clock.last_read.set(Instant::now());
            if clock.bytes_read.get() == 0 {
                clock.first_byte.set(Some(first));
            }
            clock.bytes_read.set(clock.bytes_read.get() + came.len() as u64);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stamped<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.clock.writing();
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.clock.wrote(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.clock.writing();
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.clock.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
