//! The socket with its clock: when bytes left and when they came.
//!
//! The wrapper sits directly on TCP, below TLS, so that a time stamp is that of the receipt and not of what decryption or
//! HTTP made of it later. Where the kernel stamps what it receives, the stamp is the kernel's: a client that comes late to
//! read does not make the server slow.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::receipt;

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

    /// When bytes last came: received by the kernel where it says so, else read by us.
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

    /// Bytes came: `came`, whose last the kernel had at `kernel_ns`.
    fn read(&self, came: &[u8], kernel_ns: Option<i128>) {
        let Some(&first) = came.first() else { return };
        // Stamps of one connection never run backwards, whatever happens to the wall clock.
        self.last_read
            .set(receipt::received(kernel_ns).max(self.last_read.get()));
        if self.bytes_read.get() == 0 {
            self.first_byte.set(Some(first));
        }
        self.bytes_read.set(self.bytes_read.get() + came.len() as u64);
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

/// A socket that notes when bytes go and come.
#[derive(Debug)]
pub(crate) struct Stamped {
    inner: TcpStream,
    clock: Rc<WireClock>,
    /// Whether the kernel stamps what it receives.
    #[cfg(target_os = "linux")]
    kernel: bool,
}

impl Stamped {
    /// Wraps a socket.
    pub(crate) fn new(inner: TcpStream) -> Self {
        Stamped {
            #[cfg(target_os = "linux")]
            kernel: crate::kernel_stamp::enable(&inner),
            inner,
            clock: Rc::new(WireClock::new()),
        }
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> Rc<WireClock> {
        Rc::clone(&self.clock)
    }

    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "the buffer is not initialised before the kernel fills it"
    )]
    fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        use std::os::fd::AsRawFd;
        use std::task::ready;

        use tokio::io::Interest;

        loop {
            ready!(self.inner.poll_read_ready(cx))?;
            // SAFETY: it is only written to, by the kernel.
            let space = unsafe { buf.unfilled_mut() };
            let room = space.len();
            let socket = self.inner.as_raw_fd();
            let received = self
                .inner
                .try_io(Interest::READABLE, || crate::kernel_stamp::receive(socket, space));
            match received {
                Ok((count, kernel_ns)) => {
                    if 0 < count && count < room {
                        // Nothing is left: wait for the next bytes at once, without a read that finds nothing. Only this
                        // thread takes in the poller's news, so none can have been lost since the read.
                        let _ = self.inner.try_io(Interest::READABLE, || {
                            Err::<(), _>(io::ErrorKind::WouldBlock.into())
                        });
                    }
                    let before = buf.filled().len();
                    // SAFETY: the kernel wrote so many bytes.
                    unsafe { buf.assume_init(count) };
                    buf.advance(count);
                    self.clock.read(&buf.filled()[before..], kernel_ns);
                    return Poll::Ready(Ok(()));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        #[cfg(target_os = "linux")]
        if self.kernel {
            return self.poll_receive(cx, buf);
        }
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.clock.read(&buf.filled()[before..], None);
        outcome
    }
}

impl AsyncWrite for Stamped {
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
