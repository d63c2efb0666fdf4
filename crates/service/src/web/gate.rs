//! Who may come in.
//!
//! On loopback without credentials everybody who asks for a loopback name: a page of another site that has its own name point
//! here asks for that name. With credentials, who has them: signed requests for the API, a token for all else.

use std::time::SystemTime;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_aws::verification::{Request, VerificationError, verify};
use sha2::{Digest, Sha256};

/// A pair of keys, for signed requests.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The access key.
    pub id: String,
    /// The secret key.
    secret: String,
}

/// Credentials that cannot be used. None of the texts holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Not pairs.
    #[error(
        "the variable that --keys-env names must hold pairs ACCESS_KEY:SECRET_KEY with commas between them; a secret has at least 16 characters"
    )]
    Keys,
    /// Too short.
    #[error("the variable that --token-env names must hold a token of at least 16 characters without spaces")]
    Token,
    /// None at all.
    #[error(
        "{0} is not loopback: anybody who reaches it could start load; name credentials with --keys-env or --token-env"
    )]
    Needed(std::net::SocketAddr),
}

/// The least that a secret has, characters.
const SHORTEST: usize = 16;

/// Who may come in.
#[derive(Clone, Default)]
pub struct Gate {
    keys: Vec<KeyPair>,
    token: Option<String>,
    /// Whether a way without credentials of its own is open, to loopback.
    open: bool,
}

impl Gate {
    /// A gate for this address. `keys` are `ACCESS_KEY:SECRET_KEY,...` for the API, `token` for REST and page.
    ///
    /// # Errors
    /// When the address is not loopback and there are no credentials, or those given are none.
    pub fn new(
        address: std::net::SocketAddr,
        keys: Option<&str>,
        token: Option<&str>,
    ) -> Result<Gate, CredentialError> {
        let open = address.ip().is_loopback();
        if !open && keys.is_none() && token.is_none() {
            return Err(CredentialError::Needed(address));
        }
        if token.is_some_and(|token| token.len() < SHORTEST || token.contains(char::is_whitespace)) {
            return Err(CredentialError::Token);
        }
        Ok(Gate {
            keys: keys.map(pairs).transpose()?.unwrap_or_default(),
            token: token.map(str::to_owned),
            open,
        })
    }

    /// Lets a request to the API in.
    ///
    /// # Errors
    /// Why not, for who asks.
    pub fn admit_signed(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<(), String> {
        if self.keys.is_empty() {
            return self.admit_open(method, headers);
        }
        let request = Request {
            method,
            headers,
            body,
        };
        let secret_of = |id: &str| {
            let found = self.keys.iter().find(|pair| pair.id == id);
            found.map(|pair| pair.secret.as_str())
        };
        verify(&request, "sagemaker", now, secret_of)
            .map(|_| ())
            .map_err(|error: VerificationError| error.to_string())
    }

    /// Lets a request to REST or page in.
    ///
    /// # Errors
    /// Why not, for who asks.
    pub fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), String> {
        let Some(token) = &self.token else {
            return self.admit_open(method, headers);
        };
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(token_of);
        match given {
            // Digests compare no faster for a better guess.
            Some(given) if Sha256::digest(given.as_bytes()) == Sha256::digest(token.as_bytes()) => {
                same_origin(method, headers)
            }
            Some(_) => Err("the token is not known here".to_owned()),
            None => Err(
                "a token is needed: Authorization: Bearer TOKEN, or the token as the password of a browser"
                    .to_owned(),
            ),
        }
    }

    /// Whether who asks without a token can be told to bring one.
    #[must_use]
    pub fn asks_for_token(&self) -> bool {
        self.token.is_some()
    }

    fn admit_open(&self, method: &Method, headers: &HeaderMap) -> Result<(), String> {
        if !self.open {
            return Err("this way in has no credentials configured, and is closed".to_owned());
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(is_loopback_name) {
            return Err("without credentials only a loopback name is answered, such as localhost".to_owned());
        }
        same_origin(method, headers)
    }
}

/// A browser sends the credentials it has, or none where none are needed, for other sites' pages as well: what changes something
/// must come from a page of ours, or from no page at all.
fn same_origin(method: &Method, headers: &HeaderMap) -> Result<(), String> {
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match headers.get(ORIGIN) {
        None => Ok(()),
        Some(_) => {
            let origin = text(ORIGIN).and_then(|origin| origin.split_once("://"));
            if origin.is_some_and(|(_, origin)| Some(origin) == text(HOST)) {
                Ok(())
            } else {
                Err("the request comes from a page of another site".to_owned())
            }
        }
    }
}

/// The token in an authorization header: a bearer token, or the password of basic credentials, which is what a browser can ask
/// for by itself.
fn token_of(header: &str) -> Option<String> {
    let (scheme, rest) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// `localhost`, 127.x.x.x or [::1], with a port or without.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn pairs(text: &str) -> Result<Vec<KeyPair>, CredentialError> {
    text.split(',')
        .map(|pair| {
            let (id, secret) = pair.trim().split_once(':').ok_or(CredentialError::Keys)?;
            if id.is_empty() || secret.len() < SHORTEST {
                return Err(CredentialError::Keys);
            }
            Ok(KeyPair {
                id: id.to_owned(),
                secret: secret.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        given
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    fn gate(address: &str, keys: Option<&str>, token: Option<&str>) -> Result<Gate, CredentialError> {
        Gate::new(address.parse().unwrap(), keys, token)
    }

    #[test]
    fn beyond_loopback_credentials_are_needed_and_must_be_some() {
        assert!(matches!(
            gate("0.0.0.0:7070", None, None),
            Err(CredentialError::Needed(_))
        ));
        assert!(gate("[::1]:7070", None, None).is_ok());
        assert!(matches!(
            gate("127.0.0.1:0", None, Some("short")),
            Err(CredentialError::Token)
        ));
        for keys in ["", "AKID", "AKID:", "AKID:short", ":0123456789abcdef"] {
            assert!(
                matches!(gate("127.0.0.1:0", Some(keys), None), Err(CredentialError::Keys)),
                "{keys}"
            );
        }
        let far = gate("0.0.0.0:7070", None, Some(TOKEN)).unwrap();
        let local = headers(&[("host", "localhost:7070")]);
        let now = SystemTime::now();
        assert!(
            far.admit_signed(&Method::POST, &local, b"", now)
                .unwrap_err()
                .contains("closed")
        );
    }

    #[test]
    fn without_credentials_only_loopback_names_and_pages_of_ours() {
        let gate = gate("127.0.0.1:7070", None, None).unwrap();
        let admit = |method: Method, given: &[(&str, &str)]| gate.admit(&method, &headers(given));
        for host in ["localhost:7070", "127.0.0.1:7070", "[::1]:7070", "127.0.0.1"] {
            admit(Method::GET, &[("host", host)]).unwrap();
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:7070",
            "localhost.evil.example",
            "",
        ] {
            admit(Method::GET, &[("host", host)]).unwrap_err();
        }
        admit(Method::GET, &[]).unwrap_err();
        let host = ("host", "localhost:7070");
        admit(Method::POST, &[host]).unwrap();
        admit(Method::POST, &[host, ("origin", "http://localhost:7070")]).unwrap();
        for origin in ["http://evil.example", "null", "http://localhost:8080", "file://"] {
            admit(Method::POST, &[host, ("origin", origin)]).unwrap_err();
        }
    }

    #[test]
    fn tokens_come_as_bearer_or_as_a_browsers_password() {
        let gate = gate("0.0.0.0:7070", None, Some(TOKEN)).unwrap();
        let admit = |value: &str| gate.admit(&Method::GET, &headers(&[("authorization", value)]));
        admit("Bearer 0123456789abcdef").unwrap();
        admit("bearer  0123456789abcdef ").unwrap();
        admit("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==").unwrap();
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer",
            "Basic !!!",
            "Basic bWU6eA==",
            "Digest x",
        ] {
            let error = admit(wrong).unwrap_err();
            assert!(!error.contains(TOKEN), "{error}");
        }
        assert!(
            gate.admit(&Method::GET, &HeaderMap::new())
                .unwrap_err()
                .contains("needed")
        );
        let foreign = headers(&[
            ("authorization", "Bearer 0123456789abcdef"),
            ("host", "h"),
            ("origin", "http://evil.example"),
        ]);
        gate.admit(&Method::POST, &foreign).unwrap_err();
    }
}
