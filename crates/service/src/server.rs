//! Everything together: store, conductor and web.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::api::Api;
use crate::conductor::{Conductor, Means, Results};
use crate::folder::Folders;
use crate::name::Arns;
use crate::process::Processes;
use crate::results::LocalS3;
use crate::store::{Store, StoreError};
use crate::target::Targets;
use crate::web::gate::Gate;
use crate::web::{House, serve};
use crate::workload;

/// How long a sweep may take to stop in good order.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server needs to know.
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Its data: the job store and the jobs' folders.
    pub data: PathBuf,
    /// The folder that stands for S3.
    pub local_s3: PathBuf,
    /// What may be measured.
    pub targets: Targets,
    /// Who may come in.
    pub gate: Gate,
    /// How ARNs look.
    pub arns: Arns,
    /// No job may take longer.
    pub longest: Duration,
    /// The executable that sweeps.
    pub executable: PathBuf,
    /// Environment variables that no sweep needs.
    pub hidden: Vec<String>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A folder or file.
    #[error("{}: {source}; name another folder with --data", .path.display())]
    Data {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another server has the data.
    #[error("{}: another server is using this folder; stop it, or name another with --data", .0.display())]
    Locked(PathBuf),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port.
    #[error("cannot listen on {listen}: {source}; choose another address with --listen")]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Serves until the process ends. `ready` is told the address once it is open.
///
/// # Errors
/// When it cannot begin, or the system takes the port away.
pub fn run(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServerError> {
    let data = options.data.clone();
    let wrong = |source| ServerError::Data {
        path: data.clone(),
        source,
    };
    make_private(&data).map_err(wrong)?;
    // Held as long as the server lives; the system lets go of it however that ends.
    let lock = File::create(data.join("lock")).map_err(wrong)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(ServerError::Locked(data)),
        Err(fs::TryLockError::Error(source)) => return Err(wrong(source)),
    }
    let store = Arc::new(Store::open(&data.join("jobs.sqlite"))?);
    let folders = Folders::below(&data);
    let results = LocalS3::new(options.local_s3);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listen = options.listen;
    let refused = |source| ServerError::Listen { listen, source };
    // The port first: without it no job is begun.
    let listener = runtime.block_on(TcpListener::bind(listen)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let conductor = Conductor::start(Means {
        store: Arc::clone(&store),
        folders: folders.clone(),
        targets: options.targets.clone(),
        executor: Box::new(Processes::new(options.executable, options.hidden)),
        results: Arc::new(results.clone()) as Arc<dyn Results>,
        flags: workload::flags,
        longest: options.longest,
        patience: PATIENCE,
    })?;
    let house = House {
        api: Api {
            store,
            folders,
            targets: options.targets,
            arns: options.arns,
            bell: conductor.bell(),
        },
        gate: options.gate,
        results,
    };
    ready(address);
    Ok(runtime.block_on(serve(listener, house))?)
}

/// Makes a folder that only its owner reads: what is measured is nobody else's business.
fn make_private(folder: &PathBuf) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
