//! Connections: TCP, a proxy, TLS, and HTTP on top, each driven by the task that uses it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use plimsoll_run::request::FailureClass;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::proxy::Proxy;
use crate::stamped::{Stamped, WireClock};
use crate::tls;

/// Where connections go.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Of the endpoint or of the proxy before it; tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// Between us and the endpoint.
    pub proxy: Option<Proxy>,
    /// Where the proxy is to lead to.
    pub destination: Uri,
    /// For HTTPS.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// HTTP/2 in place of HTTP/1.1.
    pub http2: bool,
    /// For TCP, proxy and TLS together.
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
    pub send: Sender,
    /// Moves bytes.
    pub drive: Drive,
    /// When they moved.
    pub clock: Rc<WireClock>,
    /// Whether it speaks HTTP/2.
    pub http2: bool,
    /// Replies it has brought: only after one may its death be that of an idle connection.
    pub replies: u64,
}

/// The moving part of a connection, polled in the task that waits for the reply.
pub(crate) enum Drive {
    One(Box<http1::Connection<TokioIo<Transport>, Full<Bytes>>>),
    Two(Box<http2::Connection<TokioIo<Transport>, Full<Bytes>, OnThisThread>>),
    Ended,
}

impl Drive {
    /// Moves what can be moved. What goes wrong shows at whoever waits for the reply.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        let over = match self {
            Drive::One(connection) => Pin::new(connection).poll(cx).is_ready(),
            Drive::Two(connection) => Pin::new(connection).poll(cx).is_ready(),
            Drive::Ended => false,
        };
        if over {
            *self = Drive::Ended;
        }
    }
}

/// Takes requests.
pub(crate) enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self {
            Sender::One(send) => send.poll_ready(cx),
            Sender::Two(send) => send.poll_ready(cx),
        }
    }

    /// Sends a request; [`Drive::poll`] moves it.
    pub(crate) async fn request(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Sender::One(send) => send.send_request(request).await,
            Sender::Two(send) => send.send_request(request).await,
        }
    }
}

/// Runs the side tasks of an HTTP/2 connection on the load thread that owns it; needs a [`tokio::task::LocalSet`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnThisThread;

impl<F: Future + 'static> hyper::rt::Executor<F> for OnThisThread {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move {
            let _ = task.await;
        });
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
                Ok(socket) => return self.pass(socket).await,
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

    async fn pass(&self, socket: TcpStream) -> Result<TcpStream, DialError> {
        let Some(proxy) = &self.proxy else {
            return Ok(socket);
        };
        proxy
            .pass(socket, &self.destination)
            .await
            .map_err(|message| DialError {
                class: FailureClass::Connect,
                message,
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
                if self.http2 && stream.get_ref().1.alpn_protocol() != Some(tls::H2) {
                    return Err(DialError {
                        class: FailureClass::Tls,
                        message: "the server does not offer HTTP/2; leave out --http2".to_owned(),
                    });
                }
                Transport::Tls(Box::new(stream))
            }
        };
        let transport = TokioIo::new(transport);
        let (send, drive) = if self.http2 {
            let (send, connection) = http2::handshake(OnThisThread, transport)
                .await
                .map_err(|error| connect(&error))?;
            (Sender::Two(send), Drive::Two(Box::new(connection)))
        } else {
            let (send, connection) = http1::handshake(transport)
                .await
                .map_err(|error| connect(&error))?;
            (Sender::One(send), Drive::One(Box::new(connection)))
        };
        Ok(Wire {
            send,
            drive,
            clock,
            http2: self.http2,
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
    Plain(Stamped),
    Tls(Box<TlsStream<Stamped>>),
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
