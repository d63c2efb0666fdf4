//! A blocking client over a bare socket that notes when each HTTP chunk came.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One response, as far as it came.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub sent: Instant,
    /// Instant and bytes of each HTTP chunk; one entry for a body with a length.
    pub chunks: Vec<(Instant, Vec<u8>)>,
    /// How the body ended, where not in good order.
    pub cut: Option<io::ErrorKind>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.chunks.iter().flat_map(|(_, bytes)| bytes.clone()).collect()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The JSON events of a stream with the instants of their chunks.
    pub fn events(&self) -> Vec<(Instant, Value)> {
        let mut events = Vec::new();
        for (at, bytes) in &self.chunks {
            for line in String::from_utf8_lossy(bytes).lines() {
                if let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") {
                    events.push((*at, serde_json::from_str(data).unwrap()));
                }
            }
        }
        events
    }

    /// Milliseconds from send to each event with text.
    pub fn token_ms(&self) -> Vec<f64> {
        let text = |event: &Value| {
            let choice = &event["choices"][0];
            let of = |v: &Value| v.as_str().is_some_and(|s| !s.is_empty());
            of(&choice["delta"]["content"])
                || of(&choice["delta"]["reasoning_content"])
                || of(&choice["text"])
        };
        let events = self.events();
        let tokens = events.iter().filter(|(_, event)| text(event));
        tokens
            .map(|(at, _)| (*at - self.sent).as_secs_f64() * 1e3)
            .collect()
    }
}

/// One kept-alive connection.
pub struct Client<S: Read + Write = TcpStream> {
    reader: BufReader<S>,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        let tcp = TcpStream::connect(addr).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self::over(tcp)
    }

    pub fn read_timeout(&self, timeout: Duration) {
        self.reader.get_ref().set_read_timeout(Some(timeout)).unwrap();
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.call("GET", path, "", "")
    }

    pub fn chat(&mut self, body: &Value) -> io::Result<Response> {
        self.call("POST", "/v1/chat/completions", "", &body.to_string())
    }

    pub fn call(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Response> {
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        let sent = Instant::now();
        self.reader.get_mut().write_all(request.as_bytes())?;
        self.response(sent)
    }

    fn response(&mut self, sent: Instant) -> io::Result<Response> {
        let mut head = String::new();
        loop {
            let line = self.line()?;
            head.push_str(&line);
            if line == "\r\n" {
                break;
            }
        }
        let lower = head.to_ascii_lowercase();
        let mut response = Response {
            status: lower[9..12].parse().unwrap(),
            head,
            sent,
            chunks: Vec::new(),
            cut: None,
        };
        let ended = match lower
            .lines()
            .find_map(|l| l.strip_prefix("content-length: ").map(str::to_owned))
        {
            Some(length) => self.chunk(&mut response, length.parse().unwrap()).map(drop),
            None => self.body(&mut response),
        };
        response.cut = ended.err().map(|e| e.kind());
        Ok(response)
    }

    fn body(&mut self, response: &mut Response) -> io::Result<()> {
        loop {
            let size = usize::from_str_radix(self.line()?.trim(), 16).unwrap();
            if size == 0 {
                return self.line().map(drop);
            }
            self.chunk(response, size)?;
            self.line()?;
        }
    }

    fn chunk(&mut self, response: &mut Response, size: usize) -> io::Result<()> {
        let mut bytes = vec![0; size];
        self.reader.read_exact(&mut bytes)?;
        response.chunks.push((Instant::now(), bytes));
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

/// A streamed chat request.
pub fn streamed(max_tokens: u32, prompt: &str) -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": prompt}],
    })
}
