//! Connections: TLS, idle ones closed, a backlog, a closed port, the end of the server.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_scripted::{Script, Scripted, closed_port};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, streamed};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn tls_client(
    server: &Scripted,
    roots: RootCertStore,
    name: &str,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    Client::over(StreamOwned::new(
        session,
        TcpStream::connect(server.addr()).unwrap(),
    ))
}

#[test]
fn tls_is_trusted_by_its_own_authority_only() {
    let server = Scripted::start(Script::default().tls().ttft(ms(20)).itl(ms(5))).unwrap();
    assert!(server.url().starts_with("https://127.0.0.1:"));
    for name in ["127.0.0.1", "localhost"] {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap())
            .unwrap();
        let response = tls_client(&server, roots, name).chat(&streamed(5, "x")).unwrap();
        assert_eq!((response.status, response.token_ms().len()), (200, 5));
    }
    let error = tls_client(&server, RootCertStore::empty(), "localhost")
        .get("/v1/models")
        .unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let server = Scripted::start(Script::default().idle_close(ms(100))).unwrap();
    let mut client = Client::connect(server.addr());
    thread::sleep(ms(150)); // before the first request it may idle as long as it likes
    assert_eq!(client.get("/v1/models").unwrap().status, 200);
    assert_eq!(client.get("/v1/models").unwrap().status, 200);
    thread::sleep(ms(250));
    client.get("/v1/models").unwrap_err();
    assert_eq!(server.seen().open_connections, 0);
}

#[test]
fn a_connection_may_end_unannounced() {
    let server = Scripted::start(Script::default().requests_per_connection(2)).unwrap();
    let mut client = Client::connect(server.addr());
    for _ in 0..2 {
        let response = client.chat(&streamed(2, "x")).unwrap();
        assert!(response.cut.is_none() && !response.head.to_lowercase().contains("connection:"));
    }
    client.chat(&streamed(2, "x")).unwrap_err();
    assert_eq!(server.seen().requests, 2);
}

#[test]
fn connections_beyond_the_places_wait_in_the_backlog() {
    let server = Scripted::start(Script::default().max_connections(2)).unwrap();
    let mut first: Vec<_> = (0..2).map(|_| Client::connect(server.addr())).collect();
    for client in &mut first {
        assert_eq!(client.get("/v1/models").unwrap().status, 200);
    }
    let mut third = Client::connect(server.addr());
    third.read_timeout(ms(150));
    third.get("/v1/models").unwrap_err();
    assert_eq!(server.seen().connections, 2);
    drop(first);
    let mut fourth = Client::connect(server.addr());
    assert_eq!(fourth.get("/v1/models").unwrap().status, 200);
    assert!(server.seen().max_open_connections <= 2);
}

#[test]
fn a_dropped_server_leaves_no_port_and_no_connection() {
    let server = Scripted::start(Script::default().ttft(Duration::from_secs(600))).unwrap();
    let addr = server.addr();
    let waiting = thread::spawn(move || Client::connect(addr).chat(&streamed(1, "x")).unwrap().cut);
    while server.seen().in_flight == 0 {
        thread::sleep(ms(2));
    }
    let begin = Instant::now();
    let seen = server.stop();
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(waiting.join().unwrap().is_some());
    assert_eq!((seen.in_flight, seen.served.len()), (0, 1));
    TcpStream::connect(addr).unwrap_err();
    TcpStream::connect(closed_port().unwrap()).unwrap_err();
}
