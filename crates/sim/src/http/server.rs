//! The server's threads: begun, and ended with its handle.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use axum::serve::ListenerExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::http::ask::Limits;
use crate::http::pacer::{self, Command};
use crate::http::routes;
use crate::http::shared::Shared;
use crate::spec::EngineSpec;

/// Connections that may wait to be accepted: a whole level may connect at once.
const BACKLOG: u32 = 4_096;

/// How to serve.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How many times as fast as real time the engine's clock runs; above 0. Levels do not change, rates do.
    pub speed: f64,
    /// What `Authorization: Bearer` must say under `/v1`, if anything.
    pub api_key: Option<String>,
}

impl Default for ServeOptions {
    /// A free port on the loopback, real time, no key.
    fn default() -> Self {
        ServeOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            speed: 1.0,
            api_key: None,
        }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct ServerHandle {
    addr: SocketAddr,
    commands: Sender<Command>,
    stop: Option<oneshot::Sender<()>>,
    connections: Option<JoinHandle<io::Result<()>>>,
    engine: Option<JoinHandle<()>>,
}

impl ServerHandle {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as `http://HOST:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Blocks until the server ends, which by itself it only does when something is wrong.
    ///
    /// # Errors
    /// What went wrong.
    pub fn wait(mut self) -> io::Result<()> {
        match self.connections.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the simulated engine's server thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        // Either thread may have ended already; then nobody listens, and the join returns at once.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = self.commands.send(Command::Stop);
        if let Some(connections) = self.connections.take() {
            let _ = connections.join();
        }
        if let Some(engine) = self.engine.take() {
            let _ = engine.join();
        }
    }
}

/// Serves an engine on threads of its own. Connections are accepted from the moment this returns.
///
/// # Errors
/// When the address cannot be had or the speed is not above 0.
pub fn serve(spec: &EngineSpec, options: &ServeOptions) -> io::Result<ServerHandle> {
    if !(options.speed > 0.0 && options.speed.is_finite()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "speed {} must be a number above 0, such as 1 or 10",
                options.speed
            ),
        ));
    }
    let spec = spec.at_speed(options.speed);
    let engine = Engine::new(spec.clone());
    let limits = Limits {
        model: spec.model.clone(),
        max_model_len: u32::try_from(engine.longest()).unwrap_or(u32::MAX),
        block_size: engine.spec().serving.block_size,
    };
    let (commands, inbox) = mpsc::channel();
    let shared = Arc::new(Shared::new(
        spec,
        limits,
        options.api_key.clone(),
        commands.clone(),
    ));
    let (stop, stopped) = oneshot::channel();
    let (bound, when_bound) = mpsc::channel();
    let listen = options.listen;
    let connections = thread::Builder::new()
        .name("sim-http".to_owned())
        .spawn(move || hold_connections(listen, shared, &bound, stopped))?;
    let addr = when_bound.recv().unwrap_or_else(|_| {
        Err(io::Error::other(
            "the simulated engine's server thread ended at once",
        ))
    })?;
    let engine = thread::Builder::new()
        .name("sim-engine".to_owned())
        .spawn(move || pacer::run(engine, &inbox))?;
    Ok(ServerHandle {
        addr,
        commands,
        stop: Some(stop),
        connections: Some(connections),
        engine: Some(engine),
    })
}

/// The thread that holds all connections.
fn hold_connections(
    listen: SocketAddr,
    shared: Arc<Shared>,
    bound: &Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = bound.send(Err(error));
            return Ok(());
        }
    };
    runtime.block_on(async move {
        let listener = match listener(listen).and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((addr, listener)) => {
                // Whoever started this waits for the answer.
                let _ = bound.send(Ok(addr));
                listener
            }
            Err(error) => {
                let _ = bound.send(Err(error));
                return Ok(());
            }
        };
        // A token must not wait for the acknowledgement of the one before.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        tokio::select! {
            served = axum::serve(listener, routes::router(shared)) => served,
            _ = stopped => Ok(()),
        }
    })
    // The runtime ends here and with it every connection.
}

fn listener(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}
