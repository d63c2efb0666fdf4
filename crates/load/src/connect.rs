//! Connections: TCP, TLS, and HTTP/1.1 on top, each driven by the task that uses it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use plimsoll_run::request::FailureClass;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::stamped::{Stamped, WireClock};
use crate::tls;

/// Where connections go.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// For HTTPS.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// For TCP and TLS together.
    pub timeout: Duration,
}

/// A connection that did not come to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DialError {
    /// [`FailureClass::Connect`] or [`FailureClass::Tls`].
    pub class: FailureClass,
    /// Why, in a sentence that names the address.
    pub message: String,
}

/// A connection.
pub(crate) struct Wire {
    /// Takes requests.
    pub send: SendRequest<Full<Bytes>>,
    /// Moves bytes.
    pub drive: Drive,
    /// When they moved.
    pub clock: Rc<WireClock>,
    /// Replies it has brought: only after one may its death be that of an idle connection.
    pub replies: u64,
}

/// The moving part of a connection, polled in the task that waits for the reply.
pub(crate) struct Drive(Option<Connection<TokioIo<Transport>, Full<Bytes>>>);

impl Drive {
    /// Moves what can be moved. What goes wrong shows at whoever waits for the reply.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.0 = None;
        }
    }
}

impl Wire {
    /// Whether it can take another request now. It cannot when the peer has closed it meanwhile, or has not taken
    /// in the last one whole.
    pub(crate) async fn ready(&mut self) -> bool {
        let ready = poll_fn(|cx| {
            self.drive.poll(cx);
            self.send.poll_ready(cx)
        });
        matches!(
            tokio::time::timeout(Duration::from_millis(100), ready).await,
            Ok(Ok(()))
        )
    }
}

impl Link {
    /// Opens a connection.
    pub(crate) async fn dial(&self) -> Result<Wire, DialError> {
        let until = tokio::time::Instant::now() + self.timeout;
        let seconds = self.timeout.as_secs_f64();
        let Ok(socket) = tokio::time::timeout_at(until, self.reach()).await else {
            return Err(DialError {
                class: FailureClass::Connect,
                message: format!("no connection to {} within {seconds} s", self.named()),
            });
        };
        match tokio::time::timeout_at(until, self.secure(socket?)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(DialError {
                class: FailureClass::Tls,
                message: format!(
                    "no answer to the TLS handshake within {seconds} s; check that the port speaks TLS, or write http://"
                ),
            }),
        }
    }

    fn named(&self) -> String {
        self.addresses
            .first()
            .map_or_else(|| "(no address)".to_owned(), ToString::to_string)
    }

    async fn reach(&self) -> Result<TcpStream, DialError> {
        let mut last = None;
        for address in &self.addresses {
            match TcpStream::connect(address).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last = Some((address, error)),
            }
        }
        Err(DialError {
            class: FailureClass::Connect,
            message: match last {
                Some((address, error)) => format!("no connection to {address}: {}", plain(&error)),
                None => "the host has no address".to_owned(),
            },
        })
    }

    async fn secure(&self, socket: TcpStream) -> Result<Wire, DialError> {
        let connect = |error: &dyn std::fmt::Display| DialError {
            class: FailureClass::Connect,
            message: format!("no connection to {}: {error}", self.named()),
        };
        socket.set_nodelay(true).map_err(|error| connect(&error))?;
        let stamped = Stamped::new(socket);
        let clock = stamped.clock();
        let transport = match &self.tls {
            None => Transport::Plain(stamped),
            Some((settings, name)) => {
                let stream = TlsConnector::from(Arc::clone(settings))
                    .connect(name.clone(), stamped)
                    .await
                    .map_err(|error| DialError {
                        class: FailureClass::Tls,
                        message: tls::explain(&error),
                    })?;
                Transport::Tls(Box::new(stream))
            }
        };
        let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(transport))
            .await
            .map_err(|error| connect(&error))?;
        Ok(Wire {
            send,
            drive: Drive(Some(connection)),
            clock,
            replies: 0,
        })
    }
}

/// An I/O error without its number.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "timed out".to_owned(),
        _ => error.to_string(),
    }
}

/// TCP with or without TLS.
pub(crate) enum Transport {
    Plain(Stamped<TcpStream>),
    Tls(Box<TlsStream<Stamped<TcpStream>>>),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Plain(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
            Transport::Tls(inner) => {
                let $stream = Pin::new(inner.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(inner) => inner.is_write_vectored(),
            Transport::Tls(inner) => inner.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
