//! Who asks, and in which region: from the environment variables that every tool of Amazon's reads.

use std::fmt;

/// Access keys. The secret parts are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`
    pub secret_access_key: String,
    /// `AWS_SESSION_TOKEN`, of temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// What the environment lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// No keys.
    #[error(
        "{0} is not set; export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary keys)"
    )]
    NoKey(&'static str),
    /// No region.
    #[error("the host `{0}` names no region; export AWS_REGION")]
    NoRegion(String),
}

impl Credentials {
    /// From variables that `look_up` finds, such as `|name| std::env::var(name).ok()`. Empty ones count as not set.
    ///
    /// # Errors
    /// When a key is missing.
    pub fn from_variables(look_up: impl Fn(&str) -> Option<String>) -> Result<Self, EnvironmentError> {
        let find = |name: &'static str| look_up(name).filter(|value| !value.trim().is_empty());
        let need = |name: &'static str| find(name).ok_or(EnvironmentError::NoKey(name));
        Ok(Credentials {
            access_key_id: need("AWS_ACCESS_KEY_ID")?,
            secret_access_key: need("AWS_SECRET_ACCESS_KEY")?,
            session_token: find("AWS_SESSION_TOKEN"),
        })
    }
}

/// The region: the one that Amazon's host name holds (`runtime.sagemaker.us-west-2.amazonaws.com`), else
/// `AWS_REGION`, else `AWS_DEFAULT_REGION`.
///
/// # Errors
/// When neither says.
pub fn region(host: &str, look_up: impl Fn(&str) -> Option<String>) -> Result<String, EnvironmentError> {
    let of_host = host
        .trim_end_matches(".amazonaws.com.cn")
        .trim_end_matches(".amazonaws.com");
    if of_host != host
        && let Some(region) = of_host.rsplit('.').find(|label| is_region(label))
    {
        return Ok(region.to_owned());
    }
    ["AWS_REGION", "AWS_DEFAULT_REGION"]
        .iter()
        .filter_map(|name| look_up(name))
        .find(|region| !region.trim().is_empty())
        .ok_or_else(|| EnvironmentError::NoRegion(host.to_owned()))
}

/// Such as `eu-central-1` or `us-gov-west-1`.
fn is_region(label: &str) -> bool {
    label.matches('-').count() >= 2 && label.ends_with(|last: char| last.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_the_environment_and_are_not_shown() {
        let set = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("AKID".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("hunter2".to_owned()),
            "AWS_SESSION_TOKEN" => Some(" ".to_owned()),
            _ => None,
        };
        let credentials = Credentials::from_variables(set).unwrap();
        assert_eq!(credentials.session_token, None);
        assert!(!format!("{credentials:?}").contains("hunter2"));
        assert_eq!(
            Credentials::from_variables(|name| set(name).filter(|_| name != "AWS_SECRET_ACCESS_KEY")),
            Err(EnvironmentError::NoKey("AWS_SECRET_ACCESS_KEY"))
        );
    }

    #[test]
    fn the_host_names_the_region_or_else_the_environment_does() {
        let none = |_: &str| None;
        let of = |host: &str| region(host, none);
        assert_eq!(
            of("runtime.sagemaker.us-west-2.amazonaws.com").as_deref(),
            Ok("us-west-2")
        );
        assert_eq!(
            of("runtime.sagemaker.cn-north-1.amazonaws.com.cn").as_deref(),
            Ok("cn-north-1")
        );
        assert_eq!(
            of("runtime.sagemaker.us-gov-west-1.amazonaws.com").as_deref(),
            Ok("us-gov-west-1")
        );
        assert!(of("127.0.0.1").unwrap_err().to_string().contains("AWS_REGION"));
        let set = |name: &str| (name == "AWS_DEFAULT_REGION").then(|| "eu-central-1".to_owned());
        assert_eq!(region("127.0.0.1", set).as_deref(), Ok("eu-central-1"));
    }
}
