//! Proxies: which one stands between us and the endpoint, and how to get through it.
//!
//! The rules of the environment are curl's: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` in either case. A
//! loopback endpoint is never asked for through the environment's proxy: it would be another machine's loopback.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::task::{Context, Poll};

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::endpoint::{Endpoint, without_user_info};
use crate::error::PrepareError;
use crate::options::ProxyChoice;

/// How a proxy is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// Requests are sent to it with the endpoint's whole URL.
    Forward,
    /// It opens a tunnel by `CONNECT`.
    Tunnel,
    /// SOCKS 4; with names resolved by the proxy in 4a.
    Socks4 { own_dns: bool },
    /// SOCKS 5; with names resolved by the proxy in 5h.
    Socks5 { own_dns: bool },
}

/// A proxy and how it is used for one endpoint.
#[derive(Clone)]
pub(crate) struct Proxy {
    intercept: Intercept,
    passage: Passage,
    from_environment: bool,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("url", &self.shown())
            .field("passage", &self.passage)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// The proxy for this endpoint, if there is one.
    ///
    /// # Errors
    /// When one is given that cannot be used.
    pub(crate) fn choose(choice: &ProxyChoice, endpoint: &Endpoint) -> Result<Option<Self>, PrepareError> {
        let matcher = match choice {
            ProxyChoice::Direct => return Ok(None),
            ProxyChoice::Environment if is_loopback(&endpoint.host()) => return Ok(None),
            ProxyChoice::Environment => Matcher::from_env(),
            ProxyChoice::Url(url) => Matcher::builder().all(url.expose().to_owned()).build(),
        };
        let unusable = |proxy: String, problem: String| PrepareError::Proxy { proxy, problem };
        let from_environment = matches!(choice, ProxyChoice::Environment);
        let Some(intercept) = matcher.intercept(&destination(endpoint)) else {
            return match choice {
                ProxyChoice::Url(url) => Err(unusable(
                    without_user_info(url.expose()),
                    "it is not the URL of a proxy; write http://host:port or socks5://host:port".to_owned(),
                )),
                _ => Ok(None),
            };
        };
        let passage = match intercept.uri().scheme_str() {
            Some("http") if endpoint.https() => Passage::Tunnel,
            Some("http") => Passage::Forward,
            Some("socks4") => Passage::Socks4 { own_dns: true },
            Some("socks4a") => Passage::Socks4 { own_dns: false },
            Some("socks5") => Passage::Socks5 { own_dns: true },
            Some("socks5h") => Passage::Socks5 { own_dns: false },
            other => {
                return Err(unusable(
                    shown(intercept.uri()),
                    format!(
                        "a proxy spoken to by {} cannot be used; give one that takes http or socks5, or --no-proxy",
                        other.unwrap_or("no scheme")
                    ),
                ));
            }
        };
        Ok(Some(Proxy {
            intercept,
            passage,
            from_environment,
        }))
    }

    /// Its host, without brackets.
    pub(crate) fn host(&self) -> String {
        self.intercept
            .uri()
            .host()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned()
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        let usual = match self.passage {
            Passage::Forward | Passage::Tunnel => 80,
            Passage::Socks4 { .. } | Passage::Socks5 { .. } => 1080,
        };
        self.intercept.uri().port_u16().unwrap_or(usual)
    }

    /// Its URL, without credentials.
    pub(crate) fn shown(&self) -> String {
        shown(self.intercept.uri())
    }

    /// Whether requests carry the endpoint's whole URL.
    pub(crate) fn forwards(&self) -> bool {
        self.passage == Passage::Forward
    }

    /// What a forwarding proxy wants to see in each request.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.intercept.basic_auth().filter(|_| self.forwards())
    }

    /// A sentence for the record.
    pub(crate) fn note(&self) -> String {
        let (source, way_out) = if self.from_environment {
            (
                "from the environment",
                "--no-proxy, or NO_PROXY, connects directly",
            )
        } else {
            ("--proxy", "leave it out to connect directly")
        };
        format!(
            "requests go through the proxy {} ({source}; {way_out}): its delays and limits are in the figures",
            self.shown()
        )
    }

    /// Makes of a connection to the proxy one to the endpoint.
    ///
    /// # Errors
    /// What the proxy said against it.
    pub(crate) async fn pass(&self, socket: TcpStream, endpoint: &Uri) -> Result<TcpStream, String> {
        let given = Given(Some(TokioIo::new(socket)));
        let proxy = self.intercept.uri().clone();
        let raw = self.intercept.raw_auth();
        let refused = |error: &dyn std::error::Error| {
            let mut text = error.to_string();
            let mut at = error.source();
            while let Some(source) = at {
                text = source.to_string();
                at = source.source();
            }
            format!("the proxy {} did not let us through: {text}", self.shown())
        };
        let through = match self.passage {
            Passage::Forward => return given.socket().ok_or_else(|| "the connection is gone".to_owned()),
            Passage::Tunnel => {
                let mut tunnel = Tunnel::new(proxy, given);
                if let Some(auth) = self.intercept.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                tunnel
                    .call(endpoint.clone())
                    .await
                    .map_err(|error| refused(&error))?
            }
            Passage::Socks4 { own_dns } => SocksV4::new(proxy, given)
                .local_dns(own_dns)
                .call(endpoint.clone())
                .await
                .map_err(|error| refused(&error))?,
            Passage::Socks5 { own_dns } => {
                let mut socks = SocksV5::new(proxy, given).local_dns(own_dns);
                if let Some((user, password)) = raw {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                socks
                    .call(endpoint.clone())
                    .await
                    .map_err(|error| refused(&error))?
            }
        };
        Ok(through.into_inner())
    }
}

/// The endpoint as a proxy is told of it.
pub(crate) fn destination(endpoint: &Endpoint) -> Uri {
    let scheme = if endpoint.https() { "https" } else { "http" };
    let host = endpoint.host();
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    // Made from a parsed URL: it is valid.
    format!("{scheme}://{host}:{}/", endpoint.port())
        .parse()
        .unwrap_or_default()
}

fn shown(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{host}", uri.scheme_str().unwrap_or("http"))
}

fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| match address {
            IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
            IpAddr::V4(v4) => v4.is_loopback(),
        })
}

/// A connector that hands over the one connection it was given.
struct Given(Option<TokioIo<TcpStream>>);

impl Given {
    fn socket(mut self) -> Option<TcpStream> {
        self.0.take().map(TokioIo::into_inner)
    }
}

impl Service<Uri> for Given {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(
            self.0
                .take()
                .ok_or_else(|| std::io::Error::other("the connection was used before")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn given(proxy: &str, url: &str) -> Result<Option<Proxy>, PrepareError> {
        let endpoint = crate::endpoint::resolve(url, None, None).unwrap();
        Proxy::choose(&ProxyChoice::Url(Secret::new(proxy)), &endpoint)
    }

    #[test]
    fn the_scheme_of_proxy_and_endpoint_say_how_to_pass() {
        let passage = |proxy, url| given(proxy, url).unwrap().unwrap().passage;
        assert_eq!(passage("http://p:3128", "http://e/"), Passage::Forward);
        assert_eq!(passage("p:3128", "https://e/"), Passage::Tunnel);
        assert_eq!(
            passage("socks5h://p", "https://e/"),
            Passage::Socks5 { own_dns: false }
        );
        assert_eq!(
            passage("socks4://p", "http://e/"),
            Passage::Socks4 { own_dns: true }
        );
        let proxy = given("socks5://p", "http://e/").unwrap().unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("p".to_owned(), 1080));
        let proxy = given("http://[::1]:8080", "http://e/").unwrap().unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("::1".to_owned(), 8080));
    }

    #[test]
    fn credentials_of_a_proxy_are_never_shown() {
        let proxy = given("http://user:hunter2@p:3128", "http://e/").unwrap().unwrap();
        assert_eq!(proxy.shown(), "http://p:3128");
        assert!(!format!("{proxy:?} {}", proxy.note()).contains("hunter2"));
        assert_eq!(
            proxy.authorization().and_then(|value| value.to_str().ok()),
            Some("Basic dXNlcjpodW50ZXIy")
        );
        let error = given("https://user:hunter2@p", "http://e/")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains("https://p"), "{error}");
    }

    #[test]
    fn loopback_is_known_in_every_spelling() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "example.org", "::2"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
