//! What stands between us and an endpoint: proxies, HTTP/2, compression.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use plimsoll_load::{ProxyChoice, Secret, TargetOptions};
use plimsoll_run::evidence::Evidence;
use plimsoll_run::request::FailureClass;
use plimsoll_scripted::{Script, Scripted};

use crate::harness::{at, measure, ms, prepared, refusal, rung, server, workload};

/// A thread a connection, each told what to do with it. Ends with the process.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

/// Moves bytes both ways until either side ends.
fn splice(client: &TcpStream, to: SocketAddr) {
    let upstream = TcpStream::connect(to).unwrap();
    let (mut from, mut into) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut into);
        let _ = into.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut into) = (upstream, client.try_clone().unwrap());
    let _ = std::io::copy(&mut from, &mut into);
    let _ = into.shutdown(std::net::Shutdown::Both);
}

/// Reads up to the empty line.
fn head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

type Heads = Arc<Mutex<Vec<String>>>;

/// A `CONNECT` proxy that leads everyone to `to` and keeps what it was asked.
fn tunnel(to: SocketAddr, answer: &'static str) -> (SocketAddr, Heads) {
    let heads = Heads::default();
    let seen = Arc::clone(&heads);
    let address = listen(move |mut socket| {
        seen.lock().unwrap().push(head(&mut socket));
        socket.write_all(answer.as_bytes()).unwrap();
        if answer.contains(" 200 ") {
            splice(&socket, to);
        }
    });
    (address, heads)
}

/// A SOCKS 5 proxy with a password that leads everyone to `to`; keeps the names it was asked for.
fn socks(to: SocketAddr) -> (SocketAddr, Heads) {
    let names = Heads::default();
    let seen = Arc::clone(&names);
    let address = listen(move |socket| {
        let take = |n: usize| {
            let mut bytes = vec![0; n];
            (&socket).read_exact(&mut bytes).unwrap();
            bytes
        };
        let counted = |n: usize| usize::from(take(n)[n - 1]);
        take(counted(2));
        (&socket).write_all(&[5, 2]).unwrap();
        take(counted(2));
        take(counted(1));
        (&socket).write_all(&[1, 0]).unwrap();
        assert_eq!(take(4), [5, 1, 0, 3], "connect to a name");
        let name = String::from_utf8(take(counted(1))).unwrap();
        let port = take(2);
        seen.lock()
            .unwrap()
            .push(format!("{name}:{}", u16::from_be_bytes([port[0], port[1]])));
        (&socket).write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).unwrap();
        splice(&socket, to);
    });
    (address, names)
}

/// Compresses a body frame by frame, each flushed at once.
struct Zipped {
    inner: Incoming,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Body for Zipped {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let encoder = self.encoder.as_mut().unwrap();
                encoder.write_all(frame.data_ref().unwrap()).unwrap();
                encoder.flush().unwrap();
                Some(Ok(Frame::data(std::mem::take(encoder.get_mut()).into())))
            }
            Some(Err(error)) => Some(Err(error)),
            None => self
                .encoder
                .take()
                .map(|encoder| Ok(Frame::data(encoder.finish().unwrap().into()))),
        })
    }
}

/// What a gateway does to a reply's head; its body is zipped where that says so.
type Alter = fn(&mut http::response::Parts);

/// Passes a request on to `to`, each over a connection of its own.
async fn pass_on(
    request: Request<Incoming>,
    to: SocketAddr,
    alter: Alter,
    seen: Heads,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, hyper::Error>>, hyper::Error> {
    seen.lock()
        .unwrap()
        .push(format!("{} {}", request.method(), request.uri()));
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    parts.uri = parts
        .uri
        .path_and_query()
        .unwrap()
        .as_str()
        .parse::<Uri>()
        .unwrap();
    parts.version = http::Version::HTTP_11;
    parts
        .headers
        .insert("host", HeaderValue::from_static("endpoint.test"));
    let socket = tokio::net::TcpStream::connect(to).await.unwrap();
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    tokio::task::spawn_local(connection);
    let reply = send
        .send_request(Request::from_parts(parts, Full::new(body)))
        .await?;
    let (mut parts, body) = reply.into_parts();
    parts.headers.remove("connection");
    parts.headers.remove("transfer-encoding");
    alter(&mut parts);
    let body = if parts.headers.get("content-encoding").is_some_and(|e| e == "gzip") {
        parts.headers.remove("content-length");
        Zipped {
            inner: body,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        }
        .boxed()
    } else {
        body.boxed()
    };
    Ok(Response::from_parts(parts, body))
}

#[derive(Clone, Copy)]
struct Here;

impl<F: Future + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move {
            let _ = task.await;
        });
    }
}

/// A gateway before `to`, over HTTP/1.1 or HTTP/2; keeps the request lines it saw.
fn gateway(to: SocketAddr, http2: bool, alter: Alter) -> (SocketAddr, Heads) {
    let seen = Heads::default();
    let kept = Arc::clone(&seen);
    let address = listen(move |socket| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        socket.set_nonblocking(true).unwrap();
        let kept = Arc::clone(&kept);
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let io = TokioIo::new(tokio::net::TcpStream::from_std(socket).unwrap());
            let service =
                hyper::service::service_fn(move |request| pass_on(request, to, alter, Arc::clone(&kept)));
            let _ = if http2 {
                hyper::server::conn::http2::Builder::new(Here)
                    .serve_connection(io, service)
                    .await
            } else {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service)
                    .await
            };
        });
    });
    (address, seen)
}

fn zip(parts: &mut http::response::Parts) {
    parts
        .headers
        .insert("content-encoding", HeaderValue::from_static("gzip"));
}

fn leave(_: &mut http::response::Parts) {}

/// Tokens 10 ms apart after 30 ms: whatever holds them back shows.
fn engine() -> Scripted {
    server(Script::default().ttft(ms(30)).itl(ms(10)))
}

fn short_rung(options: &TargetOptions) -> Evidence {
    let workload = workload(16, 8);
    measure(
        prepared(options, &workload),
        &workload,
        &rung(4, 1, Duration::ZERO, ms(500)),
    )
}

/// All went well, and the tokens came one by one.
fn assert_clean(evidence: &Evidence) {
    let ended = evidence.requests.iter().filter(|r| r.ok()).count();
    assert!(ended >= 8, "{ended}");
    for request in &evidence.requests {
        assert!(request.ok(), "{request:?}");
        assert_eq!(request.output_tokens, Some(8), "{request:?}");
        let (first, last) = (request.first_token.unwrap(), request.last_token.unwrap());
        assert!(first - request.sent >= ms(29), "{request:?}");
        assert!(last - request.sent >= ms(99), "{request:?}");
        assert!(last - first >= ms(30), "{request:?}");
    }
}

fn through(proxy: String, url: &str) -> TargetOptions {
    TargetOptions {
        proxy: ProxyChoice::Url(Secret::new(proxy)),
        ..at(url)
    }
}

#[test]
fn a_forwarding_proxy_is_told_the_whole_url() {
    let engine = engine();
    let (proxy, lines) = gateway(engine.addr(), false, leave);
    let options = through(
        format!("http://user:hunter2@{proxy}"),
        "http://endpoint.test:8000",
    );
    let found = prepared(&options, &workload(16, 8));
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains(&format!("http://{proxy}"))),
        "{:?}",
        found.notes
    );
    assert!(!format!("{found:?}").contains("hunter2"));
    assert_clean(&short_rung(&options));
    let lines = lines.lock().unwrap();
    assert!(
        lines
            .iter()
            .any(|line| line == "POST http://endpoint.test:8000/v1/chat/completions"),
        "{:?}",
        lines.first()
    );
    let seen = engine.seen();
    let authorization = seen.last.last().unwrap().header("proxy-authorization");
    assert_eq!(authorization, Some("Basic dXNlcjpodW50ZXIy"));
}

#[test]
fn https_goes_through_a_tunnel() {
    let engine = server(Script::default().ttft(ms(30)).itl(ms(10)).tls());
    let (proxy, heads) = tunnel(engine.addr(), "HTTP/1.1 200 Connection established\r\n\r\n");
    let mut options = through(format!("http://user:hunter2@{proxy}"), "https://localhost:8443");
    options.insecure = true;
    assert_clean(&short_rung(&options));
    let heads = heads.lock().unwrap();
    assert!(
        heads[0].starts_with("CONNECT localhost:8443 HTTP/1.1\r\n"),
        "{}",
        heads[0]
    );
    assert!(heads[0].contains("Basic dXNlcjpodW50ZXIy"), "{}", heads[0]);
}

#[test]
fn a_proxy_that_refuses_is_named() {
    let engine = engine();
    let (proxy, _) = tunnel(
        engine.addr(),
        "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
    );
    let error = refusal(&through(format!("http://{proxy}"), "https://localhost:8443")).to_string();
    assert!(
        error.contains(&proxy.to_string()) && error.contains("authorization"),
        "{error}"
    );
    let closed = plimsoll_scripted::closed_port().unwrap();
    let error = refusal(&through(format!("http://{closed}"), "http://endpoint.test")).to_string();
    assert!(error.contains(&closed.to_string()), "{error}");
}

#[test]
fn socks_resolves_the_name_at_the_far_end() {
    let engine = engine();
    let (proxy, names) = socks(engine.addr());
    let options = through(
        format!("socks5h://user:hunter2@{proxy}"),
        "http://endpoint.test:8000",
    );
    assert_clean(&short_rung(&options));
    assert_eq!(names.lock().unwrap()[0], "endpoint.test:8000");
}

#[test]
fn http2_by_prior_knowledge_gives_the_same_figures() {
    let engine = engine();
    let (gateway, lines) = gateway(engine.addr(), true, leave);
    let options = TargetOptions {
        http2: true,
        ..at(format!("http://{gateway}"))
    };
    let found = prepared(&options, &workload(16, 8));
    assert!(
        found.notes.iter().any(|note| note.starts_with("HTTP/2")),
        "{:?}",
        found.notes
    );
    assert_clean(&short_rung(&options));
    assert!(
        lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| *line == format!("POST http://{gateway}/v1/chat/completions"))
    );
}

#[test]
fn a_server_without_http2_is_said_to_lack_it() {
    let engine = server(Script::default().tls());
    let options = TargetOptions {
        http2: true,
        insecure: true,
        ..at(engine.url())
    };
    let error = refusal(&options).to_string();
    assert!(error.contains("--http2"), "{error}");
    let plain = server(Script::default());
    let options = TargetOptions {
        http2: true,
        ..at(plain.url())
    };
    let error = refusal(&options).to_string();
    assert!(error.contains("--http2"), "{error}");
}

#[test]
fn a_gateway_that_compresses_unasked_is_understood() {
    let engine = engine();
    let (gateway, _) = gateway(engine.addr(), false, zip);
    assert_clean(&short_rung(&at(format!("http://{gateway}"))));
    let seen = engine.seen();
    assert_eq!(
        seen.last.last().unwrap().header("accept-encoding"),
        Some("identity")
    );
}

#[test]
fn an_encoding_that_we_do_not_speak_is_named() {
    let engine = engine();
    let (gateway, _) = gateway(engine.addr(), false, |parts| {
        parts
            .headers
            .insert("content-encoding", HeaderValue::from_static("br"));
    });
    let error = refusal(&at(format!("http://{gateway}"))).to_string();
    assert!(error.contains("content-encoding: br"), "{error}");
}

#[test]
fn the_first_byte_has_a_deadline_of_its_own() {
    let engine = server(
        Script::default()
            .role_first(false)
            .ttft_by_load(|load| if load > 2 { ms(2000) } else { ms(5) }),
    );
    let options = TargetOptions {
        first_byte_timeout: Some(ms(200)),
        ..at(engine.url())
    };
    let evidence = short_rung(&options);
    let late = evidence
        .requests
        .iter()
        .find_map(|request| request.failure.as_ref())
        .unwrap();
    assert_eq!(late.class, FailureClass::Deadline);
    assert!(late.message.contains("0.2 s"), "{}", late.message);
}
