//! From any spelling of a URL to the one that requests go to.

use plimsoll_run::target::Dialect;
use url::Url;

/// The endpoint of a target: one route, and where to ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    /// The path that routes stand under, with the version of the API; of a SageMaker endpoint `/endpoints/NAME`.
    base: String,
    /// A route of the user's own, in place of the dialect's.
    own: Option<String>,
    dialect: Dialect,
    /// Whether replies are to be streamed, where the route says so.
    stream: bool,
    /// Whether URL or user say which dialect it is.
    named: bool,
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
    /// A SageMaker URL that names no endpoint.
    #[error(
        "`{url}` names no SageMaker endpoint; write for example https://runtime.sagemaker.us-west-2.amazonaws.com/endpoints/NAME"
    )]
    NoEndpointName {
        /// What was given, without user info.
        url: String,
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
        shown.set_path(&self.about());
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

    /// The same endpoint, spoken to in this dialect, streaming or not.
    pub(crate) fn speaking(&self, dialect: Dialect, stream: bool) -> Self {
        let mut other = Endpoint {
            dialect,
            stream,
            ..self.clone()
        };
        other.url.set_path(&other.path());
        other
    }

    /// Whether URL or user say which dialect it is; otherwise the first that answers is taken.
    pub(crate) fn named(&self) -> bool {
        self.named
    }

    /// The path of the route.
    fn path(&self) -> String {
        if let Some(own) = &self.own {
            return own.clone();
        }
        let (base, root) = (&self.base, root(&self.base));
        match self.dialect {
            Dialect::OpenaiChat => format!("{base}/chat/completions"),
            Dialect::OpenaiCompletions => format!("{base}/completions"),
            Dialect::OpenaiResponses => format!("{base}/responses"),
            Dialect::AnthropicMessages => format!("{base}/messages"),
            Dialect::Tgi if self.stream => format!("{root}/generate_stream"),
            Dialect::Tgi => format!("{root}/generate"),
            Dialect::Ollama => format!("{root}/api/chat"),
            Dialect::Sagemaker if self.stream => format!("{base}/invocations-response-stream"),
            Dialect::Sagemaker => format!("{base}/invocations"),
            Dialect::Custom => base.clone(),
        }
    }

    /// The path where the endpoint says what it serves.
    fn about(&self) -> String {
        let root = root(&self.base);
        match self.dialect {
            Dialect::Tgi => format!("{root}/info"),
            Dialect::Ollama => format!("{root}/api/tags"),
            // There is no such place: any will do to see whether somebody answers.
            Dialect::Sagemaker => "/ping".to_owned(),
            _ => format!("{}/models", self.base),
        }
    }

    /// The request target of the list of models, with the query.
    pub(crate) fn models(&self) -> String {
        self.with_query(&self.about())
    }

    /// The request target of the version, which engines serve beside `/v1`.
    pub(crate) fn version(&self) -> String {
        self.beside(match self.dialect {
            Dialect::Ollama => "/api/version",
            _ => "/version",
        })
    }

    /// `scheme://host:port`.
    pub(crate) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The request target of a route that engines serve beside `/v1`.
    pub(crate) fn beside(&self, route: &str) -> String {
        format!("{}{route}", root(&self.base))
    }

    fn with_query(&self, path: &str) -> String {
        match self.url.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

/// A path without the version of the API at its end.
fn root(base: &str) -> &str {
    match base.rsplit_once('/') {
        Some((before, last)) if is_api_version(last) => before,
        _ => base,
    }
}

/// Routes by how they end.
const ROUTES: [(&str, Dialect); 7] = [
    ("/chat/completions", Dialect::OpenaiChat),
    ("/completions", Dialect::OpenaiCompletions),
    ("/responses", Dialect::OpenaiResponses),
    ("/messages", Dialect::AnthropicMessages),
    ("/generate_stream", Dialect::Tgi),
    ("/generate", Dialect::Tgi),
    ("/api/chat", Dialect::Ollama),
];

/// What stands before a route that we know, and the dialect that it speaks.
fn route_of(path: &str) -> Option<(&str, Dialect)> {
    ROUTES
        .iter()
        .find_map(|(end, dialect)| path.strip_suffix(end).map(|base| (base, *dialect)))
}

/// The path of a SageMaker endpoint up to and with its name.
fn sagemaker(path: &str) -> Option<&str> {
    let base = path
        .strip_suffix("/invocations")
        .or_else(|| path.strip_suffix("/invocations-response-stream"))
        .unwrap_or(path);
    let (before, name) = base.rsplit_once('/')?;
    (before.ends_with("/endpoints") && !name.is_empty()).then_some(base)
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
/// version is a prefix. A full route says which dialect is spoken, as does `/endpoints/NAME` of SageMaker; without
/// either the dialect is `openai-chat` until the endpoint is asked. `endpoint_path` takes the place of version and
/// route; the path of a `custom` dialect is taken as it is.
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
    let mut endpoint = Endpoint {
        url,
        base: String::new(),
        own: None,
        dialect: dialect.unwrap_or(Dialect::OpenaiChat),
        stream: true,
        named: true,
        user_info,
    };
    if let Some(own) = endpoint_path {
        endpoint.own_path(&path, own, dialect)?;
    } else if dialect == Some(Dialect::Custom) {
        endpoint.own = Some(if path.is_empty() {
            "/".to_owned()
        } else {
            path.clone()
        });
        endpoint.base = path;
    } else {
        endpoint.of_path(&path, dialect, &shown)?;
    }
    endpoint.url.set_path(&endpoint.path());
    Ok(endpoint)
}

impl Endpoint {
    /// Takes base and dialect from the URL's path.
    fn of_path(&mut self, path: &str, dialect: Option<Dialect>, shown: &str) -> Result<(), EndpointError> {
        let route = match (sagemaker(path), route_of(path)) {
            (Some(base), _) => Some((base, Dialect::Sagemaker)),
            (None, route) => route,
        };
        let Some((base, route)) = route else {
            if dialect == Some(Dialect::Sagemaker) {
                return Err(EndpointError::NoEndpointName {
                    url: shown.to_owned(),
                });
            }
            if path.ends_with("/invocations") {
                // A SageMaker container by itself: it takes OpenAI's chat there.
                self.own = Some(path.to_owned());
                self.base = format!("{}/v1", path.trim_end_matches("/invocations"));
                return Ok(());
            }
            self.base = based(path);
            self.named = dialect.is_some();
            return Ok(());
        };
        if let Some(dialect) = dialect.filter(|dialect| *dialect != route) {
            return Err(EndpointError::Dialect {
                url: shown.to_owned(),
                route,
                dialect,
            });
        }
        self.dialect = route;
        self.base = match route {
            Dialect::Tgi | Dialect::Ollama => based(base),
            _ => base.to_owned(),
        };
        Ok(())
    }

    /// Takes a route of the user's own in place of version and route.
    fn own_path(&mut self, path: &str, own: &str, dialect: Option<Dialect>) -> Result<(), EndpointError> {
        let own = own.trim();
        if own.contains("://")
            || own.contains(['?', '#'])
            || own.contains(char::is_whitespace)
            || own.is_empty()
        {
            return Err(EndpointError::Path { path: own.to_owned() });
        }
        let base = route_of(path).map_or_else(|| based(path), |(base, _)| base.to_owned());
        let full = format!("{}/{}", root(&base), own.trim_matches('/'));
        if let Some(name) =
            sagemaker(&full).filter(|_| dialect.is_none_or(|dialect| dialect == Dialect::Sagemaker))
        {
            // Its two routes differ: whether to stream chooses between them.
            self.dialect = Dialect::Sagemaker;
            self.base = name.to_owned();
            return Ok(());
        }
        // `/generate` is what many servers call their route, not only Text Generation Inference.
        let route = route_of(&full).filter(|(_, dialect)| *dialect != Dialect::Tgi);
        self.dialect = dialect
            .or(route.map(|(_, dialect)| dialect))
            .unwrap_or(Dialect::OpenaiChat);
        self.base = match route {
            Some((base, dialect)) if dialect != Dialect::Ollama => base.to_owned(),
            _ => base,
        };
        self.own = Some(full);
        Ok(())
    }
}

/// A path that ends with the version of an API; `/v1` where it has none.
fn based(path: &str) -> String {
    let path = path.strip_suffix("/models").unwrap_or(path);
    let last = path.rsplit('/').next().unwrap_or("");
    if is_api_version(last) {
        path.to_owned()
    } else {
        format!("{path}/v1")
    }
}

#[cfg(test)]
mod tests;
