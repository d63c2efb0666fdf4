//! The line to one endpoint: where it is, what every request to it carries, and how long to wait.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use plimsoll_aws::credentials::{Credentials, region};
use plimsoll_aws::signature::Signer;
use plimsoll_run::target::{CustomDialect, Dialect};
use rustls_pki_types::ServerName;

use crate::connect::Link;
use crate::dialect::Speaker;
use crate::endpoint::Endpoint;
use crate::error::PrepareError;
use crate::exchange::Patience;
use crate::options::TargetOptions;
use crate::probed::SentRequest;
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
    /// Who speaks its dialect.
    pub speaker: Speaker,
    /// What every request carries, and the same without what the dialect asks for.
    headers: HeaderMap,
    plain_headers: HeaderMap,
    key: Option<Secret>,
    /// For an endpoint that wants requests signed.
    signer: Option<Signer>,
    credentials: bool,
    /// `scheme://host:port`, where requests carry the whole URL.
    origin: Option<String>,
}

impl Line {
    /// Checks the options and resolves the host within `within`.
    pub(crate) fn new(options: &TargetOptions, within: Duration) -> Result<Self, PrepareError> {
        let endpoint =
            crate::endpoint::resolve(&options.url, options.dialect, options.endpoint_path.as_deref())?;
        if endpoint.dialect() == Dialect::Custom {
            options.custom.clone().unwrap_or_default().check()?;
        }
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
        let mut secrets: Vec<&Secret> = options
            .api_key
            .iter()
            .chain(options.headers.iter().map(|(_, value)| value))
            .collect();
        let (signer, aws_secrets) = signer(&endpoint)?.unzip();
        secrets.extend(aws_secrets.iter().flatten());
        let redactor = Redactor::new(secrets);
        let mut line = Line {
            speaker: Speaker::new(endpoint.dialect(), options.custom.as_ref()),
            plain_headers: headers.clone(),
            key: options.api_key.clone(),
            signer,
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
            redactor,
            headers,
            origin: whole_url.then(|| format!("{scheme}://{}", endpoint.authority())),
            credentials: options.api_key.is_some() || !options.headers.is_empty(),
            endpoint,
        };
        line.speak(line.endpoint.dialect(), true, options.custom.as_ref());
        Ok(line)
    }

    /// From now on in this dialect, streaming or not. `own` describes a custom one.
    pub(crate) fn speak(&mut self, dialect: Dialect, stream: bool, own: Option<&CustomDialect>) {
        self.endpoint = self.endpoint.speaking(dialect, stream);
        self.speaker = Speaker::new(dialect, own);
        self.headers = self.plain_headers.clone();
        for (name, value) in self.speaker.headers() {
            if !self.headers.contains_key(*name) {
                self.headers.insert(*name, HeaderValue::from_static(value));
            }
        }
        if let (Some(name), Some(key)) = (self.speaker.key_header(), &self.key)
            && !self.headers.contains_key(name)
            && let Ok(mut value) = HeaderValue::from_str(key.expose().trim())
        {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
    }

    /// A request of this body as it would be sent now, to be shown.
    pub(crate) fn shown(&self, body: &Bytes) -> SentRequest {
        let request = self.post(body.clone());
        let ours = [
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
            "content-type",
            "anthropic-version",
            "x-amz-date",
        ];
        SentRequest {
            method: request.method().to_string(),
            url: self.endpoint.url(),
            headers: request
                .headers()
                .iter()
                .map(|(name, value)| {
                    let known = ours.contains(&name.as_str());
                    let value = value.to_str().ok().filter(|_| known).unwrap_or("(hidden)");
                    (name.to_string(), value.to_owned())
                })
                .collect(),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }

    /// Whether a key or any header of the user's goes with requests.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials
    }

    /// A `POST` of this body to the endpoint's route.
    pub(crate) fn post(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::POST, &self.endpoint.route(), body.clone());
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(signer) = &self.signer {
            self.sign(signer, &mut request, &body);
        }
        request
    }

    fn sign(&self, signer: &Signer, request: &mut Request<Full<Bytes>>, body: &[u8]) {
        let scheme = if self.endpoint.https() { "https" } else { "http" };
        let authority = self.endpoint.authority();
        let url = format!("{scheme}://{authority}{}", self.endpoint.route());
        let headers = request.headers_mut();
        headers.remove(AUTHORIZATION);
        // HTTP/2 has a field of its own for the host; what is signed is the same.
        let hostless = !headers.contains_key(HOST);
        if let Ok(host) = HeaderValue::from_str(&authority) {
            headers.insert(HOST, host);
        }
        // URL and headers are those of a request that can be sent, so that they can be signed; unsigned, the request is
        // refused and says so.
        let _ = signer.sign(&Method::POST, &url, headers, body, std::time::SystemTime::now());
        if hostless {
            headers.remove(HOST);
        }
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

/// What signs requests to a SageMaker endpoint, and the secrets in it.
fn signer(endpoint: &Endpoint) -> Result<Option<(Signer, Vec<Secret>)>, PrepareError> {
    if endpoint.dialect() != Dialect::Sagemaker {
        return Ok(None);
    }
    let look_up = |name: &str| std::env::var(name).ok();
    let credentials = Credentials::from_variables(look_up)?;
    let region = region(&endpoint.host(), look_up)?;
    let secrets = [
        Some(credentials.secret_access_key.clone()),
        credentials.session_token.clone(),
    ];
    let secrets = secrets.into_iter().flatten().map(Secret::new).collect();
    Ok(Some((Signer::new(&credentials, &region, "sagemaker"), secrets)))
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
