//! The port, the thread and the connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::certificate::credentials;
use crate::connection::Connection;
use crate::generation::After;
use crate::route::House;
use crate::script::Script;
use crate::seen::{Ledger, Seen};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// A running server. Dropping it closes the port and every connection.
pub struct Scripted {
    addr: SocketAddr,
    ledger: Arc<Ledger>,
    ca_pem: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Starts a server on a free loopback port; it accepts connections when this returns.
    ///
    /// # Errors
    /// No port, thread or certificate could be had.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script)
    }

    /// Starts a server at this address: where another one was before it, as after a restart.
    ///
    /// # Errors
    /// The address is taken, or no thread or certificate could be had.
    pub fn start_at(addr: SocketAddr, script: Script) -> io::Result<Self> {
        let credentials = script.tls.then(credentials).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _guard = runtime.enter();
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            socket.listen(BACKLOG)?
        };
        let addr = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let house = Arc::new(House {
            ledger: Arc::clone(&ledger),
            slots: script.slots.map(|slots| Arc::new(Semaphore::new(slots))),
            script,
        });
        let (ca_pem, tls) = match credentials {
            Some(made) => (Some(made.ca_pem), Some(TlsAcceptor::from(made.config))),
            None => (None, None),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("scripted-server".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(listener, house, tls) => {}
                    }
                });
                // The runtime is dropped here, and every connection with it.
            })?;
        Ok(Self {
            addr,
            ledger,
            ca_pem,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Address of the port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, or `https://...` with TLS; no path and no slash at the end.
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// The authority to trust, with TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// What the server has seen so far.
    pub fn seen(&self) -> Seen {
        self.ledger.snapshot()
    }

    /// Stops the server now, and says what it saw.
    pub fn stop(mut self) -> Seen {
        self.halt();
        self.seen()
    }

    fn halt(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Nobody listens any more where the thread has ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread has been printed; the test sees closed connections.
            let _ = thread.join();
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.halt();
    }
}

/// A loopback address where nothing listens: connecting is refused.
///
/// # Errors
/// No port could be had.
pub fn closed_port() -> io::Result<SocketAddr> {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

async fn accept(listener: TcpListener, house: Arc<House>, tls: Option<TlsAcceptor>) {
    let places = house.script.max_connections.map(|n| Arc::new(Semaphore::new(n)));
    loop {
        let place = match &places {
            // The semaphore is never closed, so a place is always granted in the end.
            Some(places) => Arc::clone(places).acquire_owned().await.ok(),
            None => None,
        };
        // Out of descriptors or a client gone before it was accepted: later ones may do better.
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            continue;
        };
        let (house, tls) = (Arc::clone(&house), tls.clone());
        tokio::spawn(async move {
            let _connected = house.ledger.connected();
            serve(tcp, &house, tls).await;
            drop(place);
        });
    }
}

async fn serve(tcp: TcpStream, house: &House, tls: Option<TlsAcceptor>) {
    // Without it small writes wait for acknowledgements; where it fails timing tests will say so.
    let _ = tcp.set_nodelay(true);
    if house.script.silent {
        Connection::plain(tcp).gone().await;
        return;
    }
    let mut connection = match tls {
        Some(tls) => match tls.accept(tcp).await {
            Ok(stream) => Connection::tls(stream),
            Err(_) => return,
        },
        None => Connection::plain(tcp),
    };
    let mut idle = None;
    let mut left = house.script.requests_per_connection.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        let Ok(request) = connection.request(idle).await else {
            break;
        };
        let after = match house.answer(&mut connection, &request).await {
            Ok(After::KeepAlive) if request.keeps_alive() => After::KeepAlive,
            Ok(After::KeepAlive) => After::Close,
            Ok(after) => after,
            Err(_) => return,
        };
        match after {
            After::KeepAlive => idle = house.script.idle_close,
            After::Close => break,
            After::Reset => return connection.reset().await,
        }
    }
    connection.close().await;
}
