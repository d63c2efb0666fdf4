//! The targets that jobs may measure: those that the server was told of, and no others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_run::nearest::hint;

use crate::name::{is_entity_name, resource_name};

/// How a sweep finds a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A URL, or the simulated engine as `plimsoll sweep` names it.
    Address(String),
    /// A table of the sweep file, which also says how to get in.
    Filed {
        /// The sweep file.
        file: PathBuf,
        /// The URL in it.
        url: String,
    },
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name, which is the endpoint's identifier in the API.
    pub name: String,
    /// Where it is.
    pub place: Place,
}

impl Target {
    /// Where load on it goes: two targets of one address share it, and two loads on one endpoint spoil both.
    #[must_use]
    pub fn address(&self) -> &str {
        let (Place::Address(url) | Place::Filed { url, .. }) = &self.place;
        url.trim_end_matches('/')
    }
}

/// A target that cannot be served, or that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The API could not name it.
    #[error(
        "target name `{0}`: write letters, digits and single hyphens between them, at most 63, as endpoints are named in the API"
    )]
    Name(String),
    /// Two of one name.
    #[error("target `{0}` is named twice; give each its own name")]
    Twice(String),
    /// No address.
    #[error("target `{0}`: write NAME=http://HOST:PORT, or NAME=sim for the simulated engine")]
    Address(String),
    /// Credentials in an address that everybody may see.
    #[error(
        "target `{0}`: its URL holds credentials; put them into an environment variable and name that with `api-key-env` in \
         the sweep file"
    )]
    Credentials(String),
    /// Nobody knows it.
    #[error("endpoint `{name}` is no target of this server{hint}; it knows {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// What was likely meant.
        hint: String,
        /// The names that are known.
        known: String,
    },
}

/// The targets by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets(BTreeMap<String, Target>);

impl Targets {
    /// Adds one.
    ///
    /// # Errors
    /// When its name or address cannot be used.
    pub fn add(&mut self, name: &str, place: Place) -> Result<(), TargetError> {
        if !is_entity_name(name) {
            return Err(TargetError::Name(name.chars().take(80).collect()));
        }
        let target = Target {
            name: name.to_owned(),
            place,
        };
        let address = target.address();
        let simulated = address == "sim" || address.starts_with("sim:");
        let Some((_, rest)) = address.split_once("://") else {
            if simulated && matches!(target.place, Place::Address(_)) {
                return self.put(target);
            }
            return Err(TargetError::Address(name.to_owned()));
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            return Err(TargetError::Credentials(name.to_owned()));
        }
        if host.is_empty() {
            return Err(TargetError::Address(name.to_owned()));
        }
        self.put(target)
    }

    fn put(&mut self, target: Target) -> Result<(), TargetError> {
        let name = target.name.clone();
        match self.0.insert(name.clone(), target) {
            None => Ok(()),
            Some(_) => Err(TargetError::Twice(name)),
        }
    }

    /// Every target, by name.
    pub fn all(&self) -> impl Iterator<Item = &Target> {
        self.0.values()
    }

    /// The target that an endpoint identifier names: its name, or an ARN that ends in it.
    ///
    /// # Errors
    /// When the server was not told of it.
    pub fn find(&self, identifier: &str) -> Result<&Target, TargetError> {
        let name = resource_name(identifier, "endpoint").unwrap_or(identifier);
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            TargetError::Unknown {
                name: name.chars().take(80).collect(),
                hint: hint(name, &known),
                known: if known.is_empty() {
                    "none; name some with --target NAME=URL".to_owned()
                } else {
                    known.join(", ")
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Place {
        Place::Address(url.to_owned())
    }

    #[test]
    fn targets_are_found_by_name_and_arn_and_others_are_refused() {
        let mut targets = Targets::default();
        targets.add("prod", address("http://h:1/v1/")).unwrap();
        targets.add("demo", address("sim")).unwrap();
        assert_eq!(targets.find("prod").unwrap().address(), "http://h:1/v1");
        let arn = "arn:aws:sagemaker:us-east-2:123456789012:endpoint/demo";
        assert_eq!(targets.find(arn).unwrap().name, "demo");
        let error = targets.find("prd").unwrap_err().to_string();
        assert!(
            error.contains("did you mean `prod`") && error.contains("demo"),
            "{error}"
        );
        assert!(targets.find("http://elsewhere/").is_err());
        let none = Targets::default().find("x").unwrap_err().to_string();
        assert!(none.contains("--target"), "{none}");
    }

    #[test]
    fn addresses_without_host_or_with_credentials_are_refused() {
        let add = |name: &str, url: &str| Targets::default().add(name, address(url)).unwrap_err();
        assert!(matches!(add("a", "h:1"), TargetError::Address(_)));
        assert!(matches!(add("a", "http://"), TargetError::Address(_)));
        assert!(matches!(add("a", "simulated"), TargetError::Address(_)));
        assert!(matches!(add("a_b", "sim"), TargetError::Name(_)));
        let error = add("a", "http://me:hunter2@h/v1");
        assert!(!error.to_string().contains("hunter2"));
    }
}
