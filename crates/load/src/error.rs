//! Why a target cannot be measured. Every message is one line that names the cause and the remedy, without
//! credentials.

use plimsoll_aws::credentials::EnvironmentError;
use plimsoll_run::target::CustomError;

use crate::endpoint::EndpointError;

/// A target that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The URL leads nowhere.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A custom dialect that cannot be spoken.
    #[error(transparent)]
    Custom(#[from] CustomError),
    /// No credentials or no region for an endpoint that wants signed requests.
    #[error("SageMaker requests are signed, but {0}")]
    Signing(#[from] EnvironmentError),
    /// A header that cannot be sent.
    #[error("header `{name}`: {problem}; write --header 'Name: value'")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A header that only the client itself may write.
    #[error("header `{name}` is set by plimsoll from each request's body; leave it out")]
    Framing {
        /// Its name.
        name: String,
    },
    /// TLS cannot be set up on this side.
    #[error("{0}")]
    TlsSettings(String),
    /// The client itself cannot work.
    #[error("the load generator cannot start: {0}")]
    Client(String),
    /// The host name does not resolve.
    #[error("cannot resolve the host `{host}`: {problem}; check its spelling and this machine's DNS")]
    Dns {
        /// The host.
        host: String,
        /// What the resolver said.
        problem: String,
    },
    /// A proxy that cannot be used.
    #[error("proxy {proxy}: {problem}")]
    Proxy {
        /// Its URL, without credentials.
        proxy: String,
        /// What is wrong, with the remedy.
        problem: String,
    },
    /// Nobody listens, or nobody can be reached.
    #[error(
        "cannot reach {url}: {problem}; check that the server runs, its port, and that no firewall is between"
    )]
    Connect {
        /// The endpoint.
        url: String,
        /// What the system said.
        problem: String,
    },
    /// The TLS handshake failed.
    #[error("{url}: {problem}")]
    Tls {
        /// The endpoint.
        url: String,
        /// Why, with the remedy.
        problem: String,
    },
    /// Plain HTTP was sent to a port that speaks TLS.
    #[error("{url}: the port speaks TLS; write https:// in place of http://")]
    SpeaksTls {
        /// The endpoint.
        url: String,
    },
    /// The connection stands but nothing comes back.
    #[error(
        "{url} took the connection but did not answer within {seconds} s; check that the server has finished loading and is not stuck"
    )]
    Silent {
        /// The endpoint.
        url: String,
        /// How long was waited.
        seconds: u64,
    },
    /// An answer that is not HTTP, or a connection that broke.
    #[error("{url}: {problem}; check that this port serves an OpenAI-compatible API")]
    Broken {
        /// The endpoint.
        url: String,
        /// What happened.
        problem: String,
    },
    /// 401 or 403.
    #[error("{url} answered {status}: {message}; {remedy}")]
    Unauthorized {
        /// The endpoint.
        url: String,
        /// 401 or 403.
        status: u16,
        /// What it said.
        message: String,
        /// Depends on whether a key was given.
        remedy: &'static str,
    },
    /// 404 or 405 for the route.
    #[error(
        "{url} answered {status}: {message}; check the path, or name the route with --endpoint-path or --dialect"
    )]
    NoRoute {
        /// The endpoint.
        url: String,
        /// 404 or 405.
        status: u16,
        /// What it said.
        message: String,
    },
    /// A redirection, which is not followed.
    #[error("{url} redirects ({status}) to {location}; give that URL")]
    Moved {
        /// The endpoint.
        url: String,
        /// 3xx.
        status: u16,
        /// Where to.
        location: String,
    },
    /// A page for people.
    #[error(
        "{url} answered with an HTML page in place of JSON; this is a web site or a proxy's page: check host, port and path"
    )]
    Html {
        /// The endpoint.
        url: String,
    },
    /// The endpoint does not know the model.
    #[error("{url} has no model `{model}`{hint}: {message}; {known}")]
    NoModel {
        /// The endpoint.
        url: String,
        /// The model asked for.
        model: String,
        /// The nearest that it has.
        hint: String,
        /// What it said.
        message: String,
        /// What it has.
        known: String,
    },
    /// Several models, none chosen.
    #[error("{url} serves several models; choose one with --model: {models}")]
    ChooseModel {
        /// The endpoint.
        url: String,
        /// All of them.
        models: String,
    },
    /// Any other refusal.
    #[error("{url} refused a request of this workload ({status}): {message}; {remedy}")]
    Refused {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// What to change.
        remedy: &'static str,
    },
    /// A reply came but it is no good.
    #[error("{url} answers, but a test request failed ({class}): {message}; {remedy}")]
    Failed {
        /// The endpoint.
        url: String,
        /// The class of the failure.
        class: plimsoll_run::request::FailureClass,
        /// What was seen.
        message: String,
        /// What to change.
        remedy: &'static str,
    },
}

impl PrepareError {
    /// Whether what the user wrote is at fault, so that no endpoint was asked anything.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            PrepareError::Endpoint(_)
                | PrepareError::Custom(_)
                | PrepareError::Signing(_)
                | PrepareError::Header { .. }
                | PrepareError::Framing { .. }
                | PrepareError::TlsSettings(_)
        )
    }
}
