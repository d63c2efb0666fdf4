//! Bytes: requests read, answers written, and waits that notice a client leaving.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::fault::Page;

/// Longest request head and body accepted, in bytes.
const MAX_REQUEST: usize = 64 << 20;
/// Time given to the client to read what was sent before a reset throws it away.
const BEFORE_RESET: Duration = Duration::from_millis(5);

/// The client went away, or sent no HTTP: nothing more can be said on this connection.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Gone
    }
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// One request, read to its last byte.
#[derive(Debug)]
pub(crate) struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub arrived: Instant,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    pub fn keeps_alive(&self) -> bool {
        !self
            .header("connection")
            .is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }
}

/// A client's connection.
pub(crate) struct Connection {
    wire: Box<dyn Wire>,
    /// Bytes read and not yet consumed.
    unread: Vec<u8>,
}

impl Connection {
    pub fn plain(tcp: TcpStream) -> Self {
        Self {
            wire: Box::new(tcp),
            unread: Vec::new(),
        }
    }

    pub fn tls(tls: TlsStream<TcpStream>) -> Self {
        Self {
            wire: Box::new(tls),
            unread: Vec::new(),
        }
    }

    async fn fill(&mut self) -> Result<(), Gone> {
        if self.unread.len() > MAX_REQUEST || self.wire.read_buf(&mut self.unread).await? == 0 {
            return Err(Gone);
        }
        Ok(())
    }

    /// The next request; an error also where none has begun within `idle`.
    pub async fn request(&mut self, idle: Option<Duration>) -> Result<Request, Gone> {
        if self.unread.is_empty() {
            match idle {
                Some(idle) => tokio::time::timeout(idle, self.fill())
                    .await
                    .map_err(|_| Gone)??,
                None => self.fill().await?,
            }
        }
        let head_len = self.find(b"\r\n\r\n").await? + 4;
        let head = String::from_utf8_lossy(&self.unread[..head_len]).into_owned();
        self.unread.drain(..head_len);
        let mut lines = head.lines();
        let mut first = lines.next().ok_or(Gone)?.split(' ');
        let (Some(method), Some(path)) = (first.next(), first.next()) else {
            return Err(Gone);
        };
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body: Vec::new(),
            arrived: Instant::now(),
        };
        if request.header("expect").is_some() {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        request.body = if request
            .header("transfer-encoding")
            .is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
        {
            self.chunked_body().await?
        } else {
            let length = request
                .header("content-length")
                .map_or(Ok(0), str::parse)
                .map_err(|_| Gone)?;
            self.take(length).await?
        };
        request.arrived = Instant::now();
        Ok(request)
    }

    async fn chunked_body(&mut self) -> Result<Vec<u8>, Gone> {
        let mut body = Vec::new();
        loop {
            let line_len = self.find(b"\r\n").await? + 2;
            let line = String::from_utf8_lossy(&self.unread[..line_len]).into_owned();
            self.unread.drain(..line_len);
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| Gone)?;
            if body.len().saturating_add(size) > MAX_REQUEST {
                return Err(Gone);
            }
            body.extend(self.take(size).await?);
            self.take(2).await?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn find(&mut self, needle: &[u8]) -> Result<usize, Gone> {
        loop {
            if let Some(at) = self.unread.windows(needle.len()).position(|w| w == needle) {
                return Ok(at);
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, Gone> {
        if length > MAX_REQUEST {
            return Err(Gone);
        }
        while self.unread.len() < length {
            self.fill().await?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    /// Resolves only when the client has gone.
    pub async fn gone(&mut self) -> Gone {
        loop {
            if let Err(gone) = self.fill().await {
                return gone;
            }
        }
    }

    /// Waits for `what`, unless the client leaves first.
    pub async fn until<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::select! {
            biased;
            done = what => Ok(done),
            gone = self.gone() => Err(gone),
        }
    }

    /// Waits for an instant, unless the client leaves first.
    pub async fn until_instant(&mut self, deadline: Instant) -> Result<(), Gone> {
        if deadline <= Instant::now() {
            return Ok(());
        }
        self.until(tokio::time::sleep_until(deadline.into())).await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.wire.write_all(bytes).await?;
        // TLS keeps records back until flushed.
        self.wire.flush().await?;
        Ok(())
    }

    pub async fn page(&mut self, page: &Page) -> Result<(), Gone> {
        let mut bytes = page_head(page).into_bytes();
        bytes.extend_from_slice(&page.body);
        self.send(&bytes).await
    }

    /// Closes in order (FIN).
    pub async fn close(mut self) {
        // The client may have closed first; then there is nothing to shut down.
        let _ = self.wire.shutdown().await;
    }

    /// Resets (RST), after a moment in which the client can read what was sent.
    pub async fn reset(self) {
        tokio::time::sleep(BEFORE_RESET).await;
        // Where this fails the drop below closes in order: the client sees a cut body all the same.
        let _ = self.wire.tcp().set_zero_linger();
    }
}

/// Head of a page's response.
pub(crate) fn page_head(page: &Page) -> String {
    let mut head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
        page.status,
        reason(page.status),
        page.content_type,
        page.body.len()
    );
    for (name, value) in &page.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

/// Head of a chunked response; `status` with its reason phrase, `extra` as whole header lines.
pub(crate) fn stream_head(status: &str, content_type: &str, extra: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{extra}transfer-encoding: chunked\r\n\r\n")
}

/// One HTTP chunk, appended to `out`.
pub(crate) fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Scripted",
    }
}
