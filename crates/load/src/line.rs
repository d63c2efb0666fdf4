//! The line to one endpoint: where it is, what every request to it carries, and how long to wait.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use rustls_pki_types::ServerName;

use crate::connect::Link;
use crate::endpoint::Endpoint;
use crate::error::PrepareError;
use crate::exchange::Patience;
use crate::options::TargetOptions;
use crate::proxy::{Proxy, destination};
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
    /// `scheme://host:port`, where requests carry the whole URL.
    origin: Option<String>,
}

impl Line {
    /// Checks the options and resolves the host within `within`.
    pub(crate) fn new(options: &TargetOptions, within: Duration) -> Result<Self, PrepareError> {
        let endpoint =
            crate::endpoint::resolve(&options.url, options.dialect, options.endpoint_path.as_deref())?;
        let proxy = Proxy::choose(&options.proxy, &endpoint)?;
        let mut headers = headers(options, &endpoint)?;
        if let Some(value) = proxy.as_ref().and_then(Proxy::authorization) {
            headers.insert(PROXY_AUTHORIZATION, value.clone());
        }
        if options.http2 {
            // It has a field of its own for it, made from the request's URL.
            headers.remove(HOST);
        }
        let tls = if endpoint.https() {
            let settings = tls::settings(options.insecure, options.ca_file.as_deref(), options.http2)
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
        let (host, port) = match &proxy {
            Some(proxy) => (proxy.host(), proxy.port()),
            None => (endpoint.host(), endpoint.port()),
        };
        let addresses = look_up(host, port, within)?;
        let scheme = if endpoint.https() { "https" } else { "http" };
        let whole_url = options.http2 || proxy.as_ref().is_some_and(Proxy::forwards);
        Ok(Line {
            link: Link {
                addresses,
                proxy,
                destination: destination(&endpoint),
                tls,
                http2: options.http2,
                timeout: options.connect_timeout,
            },
            patience: Patience {
                whole: options.request_timeout,
                first: options.first_byte_timeout.unwrap_or(options.request_timeout),
                idle: options.idle_timeout,
            },
            redactor: Redactor::new(
                options
                    .api_key
                    .iter()
                    .chain(options.headers.iter().map(|(_, value)| value)),
            ),
            headers,
            origin: whole_url.then(|| format!("{scheme}://{}", endpoint.authority())),
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
        let uri = match &self.origin {
            None => target.parse(),
            Some(origin) => format!("{origin}{target}").parse(),
        };
        // The targets are made from a parsed URL: they are valid.
        if let Ok(uri) = uri {
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
    put(ACCEPT_ENCODING.as_str(), &Secret::new("identity"))?;
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
fn look_up(host: String, port: u16, within: Duration) -> Result<Vec<SocketAddr>, PrepareError> {
    let fail = {
        let host = host.clone();
        move |problem: String| PrepareError::Dns {
            host: host.clone(),
            problem,
        }
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
