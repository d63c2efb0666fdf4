//! From any spelling of a URL to the one that requests go to.

use plimsoll_run::target::Dialect;
use url::Url;

/// The endpoint of a target: one route, and where to ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    base: String,
    dialect: Dialect,
    user_info: bool,
}

/// A URL that no request can go to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL at all.
    #[error("`{url}` is not a URL ({problem}); write for example http://localhost:8000")]
    NotAUrl {
        /// What was given, without user info.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing before `://`.
    #[error("`{url}` has no scheme; write http://{url} or https://{url}")]
    NoScheme {
        /// What was given, without user info.
        url: String,
    },
    /// A scheme other than HTTP's.
    #[error("`{url}` has the scheme `{scheme}`; only http and https can be measured")]
    Scheme {
        /// What was given, without user info.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// The route and the dialect contradict each other.
    #[error(
        "the route of `{url}` speaks {route} but the dialect is {dialect}; leave out --dialect, or end the URL at its base path"
    )]
    Dialect {
        /// What was given, without user info.
        url: String,
        /// What its route speaks.
        route: Dialect,
        /// What was asked for.
        dialect: Dialect,
    },
    /// An `--endpoint-path` that is a whole URL or has a query.
    #[error("`{path}` is not a path; write for example /v1/chat/completions")]
    Path {
        /// What was given.
        path: String,
    },
}

impl Endpoint {
    /// The one URL that requests go to, without user info and query: for showing and saving.
    #[must_use]
    pub fn url(&self) -> String {
        let mut shown = self.url.clone();
        shown.set_query(None);
        shown.to_string()
    }

    /// How it is spoken to.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Where the endpoint lists its models, without query.
    #[must_use]
    pub fn models_url(&self) -> String {
        let mut shown = self.url.clone();
        shown.set_query(None);
        shown.set_path(&format!("{}/models", self.base));
        shown.to_string()
    }

    /// Whether the URL came with user info, which is not used.
    pub(crate) fn had_user_info(&self) -> bool {
        self.user_info
    }

    pub(crate) fn https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Host without brackets, as a resolver or a certificate wants it.
    pub(crate) fn host(&self) -> String {
        match self.url.host() {
            Some(url::Host::Domain(name)) => name.to_owned(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            // `resolve` lets no URL without a host through.
            None => String::new(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    /// `host` or `host:port` as the `Host` header wants it.
    pub(crate) fn authority(&self) -> String {
        self.url.authority().to_owned()
    }

    /// The request target of the route, with its query.
    pub(crate) fn route(&self) -> String {
        self.with_query(self.url.path())
    }

    /// The request target of the list of models, with the query.
    pub(crate) fn models(&self) -> String {
        self.with_query(&format!("{}/models", self.base))
    }

    /// The request target of `/version`, which engines serve beside `/v1`.
    pub(crate) fn version(&self) -> String {
        self.beside("/version")
    }

    /// `scheme://host:port`.
    pub(crate) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The request target of a route that engines serve beside `/v1`.
    pub(crate) fn beside(&self, route: &str) -> String {
        let (before, last) = self.base.rsplit_once('/').unwrap_or(("", ""));
        let root = if is_api_version(last) { before } else { &self.base };
        format!("{root}{route}")
    }

    fn with_query(&self, path: &str) -> String {
        match self.url.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

fn is_api_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The text without what stands between `://` (or the beginning) and `@`.
pub(crate) fn without_user_info(text: &str) -> String {
    let start = match text.find("://") {
        Some(at) => at + 3,
        None if text.starts_with("//") => 2,
        None => 0,
    };
    let end = text[start..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |at| start + at);
    match text[start..end].rfind('@') {
        Some(at) => format!("{}{}", &text[..start], &text[start + at + 1..]),
        None => text.to_owned(),
    }
}

/// Finds the one URL that requests go to.
///
/// `http://h`, `http://h/`, `http://h/v1`, `http://h/v1/` and the full route mean the same; a path before the
/// version is a prefix. A route ending in `/completions` but not in `/chat/completions` speaks
/// `openai-completions`. `endpoint_path` takes the place of version and route.
///
/// # Errors
/// When there is no such URL; the message says what to write instead.
pub fn resolve(
    url: &str,
    dialect: Option<Dialect>,
    endpoint_path: Option<&str>,
) -> Result<Endpoint, EndpointError> {
    let text = url.trim();
    let shown = without_user_info(text);
    if !text.contains("://") {
        return Err(if text.is_empty() {
            EndpointError::NotAUrl {
                url: shown,
                problem: "it is empty".to_owned(),
            }
        } else {
            EndpointError::NoScheme { url: shown }
        });
    }
    let mut url = Url::parse(text).map_err(|error| EndpointError::NotAUrl {
        url: shown.clone(),
        problem: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::Scheme {
            url: shown,
            scheme: url.scheme().to_owned(),
        });
    }
    let user_info = !url.username().is_empty() || url.password().is_some();
    // Neither can fail on a URL with a host, which every http URL has.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);

    let path = url.path().trim_end_matches('/').to_owned();
    let (base, route) = if let Some(base) = path.strip_suffix("/chat/completions") {
        (base.to_owned(), Some(Dialect::OpenaiChat))
    } else if let Some(base) = path.strip_suffix("/completions") {
        (base.to_owned(), Some(Dialect::OpenaiCompletions))
    } else {
        let path = path.strip_suffix("/models").unwrap_or(&path);
        let last = path.rsplit('/').next().unwrap_or("");
        let base = if is_api_version(last) {
            path.to_owned()
        } else {
            format!("{path}/v1")
        };
        (base, None)
    };

    if let Some(own) = endpoint_path {
        let own = own.trim();
        if own.contains("://")
            || own.contains(['?', '#'])
            || own.contains(char::is_whitespace)
            || own.is_empty()
        {
            return Err(EndpointError::Path { path: own.to_owned() });
        }
        let own = own.trim_start_matches('/').trim_end_matches('/');
        let (before, last) = base.rsplit_once('/').unwrap_or(("", ""));
        let prefix = if is_api_version(last) { before } else { &base };
        let full = format!("{prefix}/{own}");
        let spoken = if full.ends_with("/completions") && !full.ends_with("/chat/completions") {
            Dialect::OpenaiCompletions
        } else {
            Dialect::OpenaiChat
        };
        let base = full
            .strip_suffix("/chat/completions")
            .or_else(|| full.strip_suffix("/completions"))
            .map_or(base.clone(), str::to_owned);
        url.set_path(&full);
        return Ok(Endpoint {
            url,
            base,
            dialect: dialect.unwrap_or(spoken),
            user_info,
        });
    }

    if let (Some(route), Some(dialect)) = (route, dialect)
        && route != dialect
    {
        return Err(EndpointError::Dialect {
            url: shown,
            route,
            dialect,
        });
    }
    let dialect = route.or(dialect).unwrap_or(Dialect::OpenaiChat);
    let tail = match dialect {
        Dialect::OpenaiCompletions => "completions",
        _ => "chat/completions",
    };
    url.set_path(&format!("{base}/{tail}"));
    Ok(Endpoint {
        url,
        base,
        dialect,
        user_info,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_one_url() {
        let chat = "http://h:8000/v1/chat/completions";
        for (given, wanted) in [
            ("http://h:8000", chat),
            ("http://h:8000/", chat),
            ("http://h:8000/v1", chat),
            ("http://h:8000/v1/", chat),
            ("http://h:8000/v1/models", chat),
            ("http://h:8000/v1/chat/completions", chat),
            ("http://h:8000/v1/chat/completions/", chat),
            ("  HTTP://H:8000/v1  ", chat),
            ("http://user:pass@h:8000/v1#x", chat),
            ("http://h:8000/v1?api-version=2", chat),
            ("http://h:80", "http://h/v1/chat/completions"),
            ("https://h:443/", "https://h/v1/chat/completions"),
            ("http://h/prefix", "http://h/prefix/v1/chat/completions"),
            ("http://h/a/b/v1/", "http://h/a/b/v1/chat/completions"),
            ("http://h/paas/v4", "http://h/paas/v4/chat/completions"),
            (
                "http://h/openai/chat/completions",
                "http://h/openai/chat/completions",
            ),
            ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
            (
                "http://127.0.0.1:1/v1/completions",
                "http://127.0.0.1:1/v1/completions",
            ),
        ] {
            let endpoint = resolve(given, None, None).unwrap();
            assert_eq!(endpoint.url(), wanted, "{given}");
            assert_eq!(
                endpoint.dialect() == Dialect::OpenaiCompletions,
                given.ends_with("v1/completions"),
                "{given}"
            );
            assert_eq!(
                resolve(wanted, None, None).unwrap().url(),
                wanted,
                "the printed URL stands for itself"
            );
        }
    }

    #[test]
    fn models_and_version_stand_beside_the_route() {
        let endpoint = resolve("http://h/p/v1?k=2", None, None).unwrap();
        assert_eq!(endpoint.models_url(), "http://h/p/v1/models");
        assert_eq!(endpoint.models(), "/p/v1/models?k=2");
        assert_eq!(endpoint.route(), "/p/v1/chat/completions?k=2");
        assert_eq!(endpoint.version(), "/p/version");
        assert_eq!(resolve("http://[::1]:9", None, None).unwrap().host(), "::1");
        assert_eq!(
            resolve("http://[::1]:9", None, None).unwrap().authority(),
            "[::1]:9"
        );
        assert_eq!(resolve("https://h", None, None).unwrap().port(), 443);
    }

    #[test]
    fn a_dialect_chooses_the_route() {
        let endpoint = resolve("http://h/v1", Some(Dialect::OpenaiCompletions), None).unwrap();
        assert_eq!(endpoint.url(), "http://h/v1/completions");
        let clash = resolve(
            "http://h/v1/chat/completions",
            Some(Dialect::OpenaiCompletions),
            None,
        );
        assert!(clash.unwrap_err().to_string().contains("--dialect"));
    }

    #[test]
    fn an_endpoint_path_takes_the_place_of_the_route() {
        let endpoint = resolve("http://h/p/v1", None, Some("/api/v3/chat/completions")).unwrap();
        assert_eq!(endpoint.url(), "http://h/p/api/v3/chat/completions");
        assert_eq!(endpoint.models_url(), "http://h/p/api/v3/models");
        let odd = resolve("http://h", None, Some("generate")).unwrap();
        assert_eq!(odd.url(), "http://h/generate");
        assert_eq!(odd.models_url(), "http://h/v1/models");
        assert_eq!(odd.dialect(), Dialect::OpenaiChat);
        let completions = resolve("http://h", None, Some("/x/completions")).unwrap();
        assert_eq!(completions.dialect(), Dialect::OpenaiCompletions);
        assert!(resolve("http://h", None, Some("http://g/x")).is_err());
        assert!(resolve("http://h", None, Some(" ")).is_err());
    }

    #[test]
    fn what_cannot_be_reached_is_refused_with_a_remedy() {
        for (given, said) in [
            (
                "localhost:8000",
                "write http://localhost:8000 or https://localhost:8000",
            ),
            ("h", "http://h"),
            ("", "empty"),
            ("ftp://h/x", "`ftp`"),
            ("http://", "http://localhost:8000"),
            ("http://h:99999", "port"),
        ] {
            let error = resolve(given, None, None).unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
            assert!(!error.contains('\n'));
        }
        let error = resolve("ftp://user:hunter2@h/x", None, None)
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
        let error = resolve("user:hunter2@h/x", None, None).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
