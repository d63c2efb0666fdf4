//! The line to one endpoint: where it is, what every request to it carries, and how long to wait.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use rustls_pki_types::ServerName;

use crate::connect::Link;
use crate::endpoint::Endpoint;
use crate::error::PrepareError;
use crate::exchange::Patience;
use crate::options::TargetOptions;
use crate::secret::{Redactor, Secret};
use crate::tls;

/// Everything needed to send a request to an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub endpoint: Endpoint,
    pub link: Link,
    pub patience: Patience,
    pub redactor: Redactor,
    headers: HeaderMap,
    credentials: bool,
}

impl Line {
    /// Checks the options and resolves the host within `within`.
    pub(crate) fn new(options: &TargetOptions, within: Duration) -> Result<Self, PrepareError> {
        let endpoint =
            crate::endpoint::resolve(&options.url, options.dialect, options.endpoint_path.as_deref())?;
        let headers = headers(options, &endpoint)?;
        let tls = if endpoint.https() {
            let settings = tls::settings(options.insecure, options.ca_file.as_deref())
                .map_err(PrepareError::TlsSettings)?;
            let host = endpoint.host();
            let name = ServerName::try_from(host.clone()).map_err(|_| PrepareError::Dns {
                host,
                problem: "it is not a host name".to_owned(),
            })?;
            Some((Arc::clone(&settings), name))
        } else {
            None
        };
        let addresses = look_up(&endpoint, within)?;
        Ok(Line {
            link: Link {
                addresses,
                tls,
                timeout: options.connect_timeout,
            },
            patience: Patience {
                whole: options.request_timeout,
                first: options.request_timeout,
                idle: options.idle_timeout,
            },
            redactor: Redactor::new(
                options
                    .api_key
                    .iter()
                    .chain(options.headers.iter().map(|(_, value)| value)),
            ),
            headers,
            credentials: options.api_key.is_some() || !options.headers.is_empty(),
            endpoint,
        })
    }

    /// Whether a key or any header of the user's goes with requests.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials
    }

    /// A `POST` of this body to the endpoint's route.
    pub(crate) fn post(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::POST, &self.endpoint.route(), body);
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request
    }

    /// A `GET` of this request target.
    pub(crate) fn get(&self, target: &str) -> Request<Full<Bytes>> {
        self.request(Method::GET, target, Bytes::new())
    }

    fn request(&self, method: Method, target: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        // The targets are made from a parsed URL: they are valid.
        if let Ok(uri) = target.parse() {
            *request.uri_mut() = uri;
        }
        *request.headers_mut() = self.headers.clone();
        request
    }
}

fn headers(options: &TargetOptions, endpoint: &Endpoint) -> Result<HeaderMap, PrepareError> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &Secret| -> Result<(), PrepareError> {
        let bad = |problem: &'static str| PrepareError::Header {
            name: name.to_owned(),
            problem,
        };
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| bad("the name is not a header name"))?;
        let mut value: HeaderValue = value
            .expose()
            .trim()
            .parse()
            .map_err(|_| bad("the value has characters that no header may have"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    };
    put(HOST.as_str(), &Secret::new(endpoint.authority()))?;
    put(
        USER_AGENT.as_str(),
        &Secret::new(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))),
    )?;
    put("accept", &Secret::new("*/*"))?;
    if let Some(key) = &options.api_key {
        put(
            AUTHORIZATION.as_str(),
            &Secret::new(format!("Bearer {}", key.expose())),
        )?;
    }
    for (name, value) in &options.headers {
        // These say where a request ends; another value would make the server wait or read nonsense.
        if ["content-length", "transfer-encoding"].contains(&name.trim().to_ascii_lowercase().as_str()) {
            return Err(PrepareError::Framing { name: name.clone() });
        }
        put(name, value)?;
    }
    Ok(headers)
}

/// Resolves the host. The system's resolver cannot be told to hurry, so it runs beside us.
fn look_up(endpoint: &Endpoint, within: Duration) -> Result<Vec<SocketAddr>, PrepareError> {
    let (host, port) = (endpoint.host(), endpoint.port());
    let fail = |problem: String| PrepareError::Dns {
        host: endpoint.host(),
        problem,
    };
    let (found, wait) = mpsc::channel();
    std::thread::Builder::new()
        .name("plimsoll-dns".to_owned())
        .spawn(move || {
            // Nobody listens any more once the time is up.
            let _ = found.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
        })
        .map_err(|error| fail(error.to_string()))?;
    match wait.recv_timeout(within) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        Ok(Ok(_)) => Err(fail("it has no address".to_owned())),
        Ok(Err(error)) => Err(fail(
            error
                .to_string()
                .replace("failed to lookup address information: ", ""),
        )),
        Err(_) => Err(fail(format!("no answer within {} s", within.as_secs_f64()))),
    }
}
