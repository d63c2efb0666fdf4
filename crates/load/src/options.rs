//! What the user says of a target.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_run::target::{CustomDialect, Dialect};

use crate::secret::Secret;

/// Which proxy requests go through.
#[derive(Debug, Clone, Default)]
pub enum ProxyChoice {
    /// The one that the environment names by curl's rules; never for a loopback endpoint.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one: `http://[user:password@]host:port`, or `socks4`, `socks4a`, `socks5`, `socks5h` in place of `http`.
    Url(Secret),
}

/// What the user says of a target: where it is, how to speak to it, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// The URL, in any spelling that [`crate::resolve`] takes.
    pub url: String,
    /// How to speak to it; `None` follows the URL's route, and asks the endpoint where it has none.
    pub dialect: Option<Dialect>,
    /// What the dialect `custom` is made of.
    pub custom: Option<CustomDialect>,
    /// The model to ask for; `None` takes the only one that the endpoint lists.
    pub model: Option<String>,
    /// Sent as `Authorization: Bearer ...`.
    pub api_key: Option<Secret>,
    /// Further request headers. Their values are treated as credentials.
    pub headers: Vec<(String, Secret)>,
    /// The route, where it is none of the usual: it takes the place of `/v1/chat/completions`.
    pub endpoint_path: Option<String>,
    /// Accept any TLS certificate.
    pub insecure: bool,
    /// PEM file with certificate authorities to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The proxy between us and the endpoint.
    pub proxy: ProxyChoice,
    /// Speak HTTP/2 in place of HTTP/1.1: by ALPN over TLS, else by prior knowledge. Time stamps are then those of reads
    /// that may hold the frames of several tokens.
    pub http2: bool,
    /// Longest time for a TCP connection with its TLS handshake.
    pub connect_timeout: Duration,
    /// Longest time for one request from its first byte sent to its last byte received.
    pub request_timeout: Duration,
    /// Longest time from the first byte sent to the first byte of the reply's body; `None` waits as long as for the whole.
    pub first_byte_timeout: Option<Duration>,
    /// Longest time between two reads of a reply once it has begun. Comments in a stream count as reads.
    pub idle_timeout: Duration,
    /// Where the server's own metrics are; `None` looks for `/metrics` beside the endpoint and at its origin. Another origin is sent
    /// no credential.
    pub metrics_url: Option<String>,
    /// What the user tells of the server's configuration, credentials already hidden.
    pub serving: BTreeMap<String, serde_json::Value>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        TargetOptions {
            url: String::new(),
            dialect: None,
            custom: None,
            model: None,
            api_key: None,
            headers: Vec::new(),
            endpoint_path: None,
            insecure: false,
            ca_file: None,
            proxy: ProxyChoice::Environment,
            http2: false,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(600),
            first_byte_timeout: None,
            idle_timeout: Duration::from_secs(120),
            metrics_url: None,
            serving: BTreeMap::new(),
        }
    }
}
