//! Names and ARNs, as SageMaker spells them.

/// What the ARNs of this server's jobs and configs say. Nobody checks them: clients only want them well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arns {
    /// Such as `us-east-1`.
    pub region: String,
    /// Twelve digits.
    pub account: String,
}

impl Default for Arns {
    fn default() -> Self {
        Arns {
            region: "us-east-1".to_owned(),
            account: "000000000000".to_owned(),
        }
    }
}

/// The kind of a job in its ARN.
pub const JOB: &str = "ai-benchmark-job";
/// The kind of a workload config in its ARN.
pub const CONFIG: &str = "ai-workload-config";

impl Arns {
    /// The ARN of a job.
    #[must_use]
    pub fn job(&self, name: &str) -> String {
        self.of(JOB, name)
    }

    /// The ARN of a workload config.
    #[must_use]
    pub fn config(&self, name: &str) -> String {
        self.of(CONFIG, name)
    }

    fn of(&self, kind: &str, name: &str) -> String {
        format!("arn:aws:sagemaker:{}:{}:{kind}/{name}", self.region, self.account)
    }
}

/// `[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}`, at most 63: letters and digits, with hyphens between them only.
#[must_use]
pub fn is_entity_name(name: &str) -> bool {
    name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.is_empty()
}

/// The name at the end of an ARN of SageMaker's of that kind; `None` where the text is none.
#[must_use]
pub fn resource_name<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let mut parts = text.splitn(6, ':');
    let (arn, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
    let (region, account, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let lower = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let region_ok = region
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let account_ok = account.len() == 12 && account.chars().all(|c| c.is_ascii_digit());
    let well_formed = arn == "arn"
        && partition.starts_with("aws")
        && lower(partition)
        && service == "sagemaker"
        && region_ok
        && account_ok;
    let (found, name) = rest.split_once('/')?;
    (well_formed && found == kind && is_entity_name(name)).then_some(name)
}

/// `arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+`, of 20 to 2048 characters.
#[must_use]
pub fn is_role_arn(text: &str) -> bool {
    let role = || {
        let rest = text.strip_prefix("arn:aws")?;
        let (partition, rest) = rest.split_once(':')?;
        let (account, path) = rest.strip_prefix("iam::")?.split_once(":role")?;
        let partition_ok = partition.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let account_ok = account.len() == 12 && account.chars().all(|c| c.is_ascii_digit());
        let path_ok = path != "/"
            && !path.is_empty()
            && path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+=,.@-_/".contains(c));
        (partition_ok && account_ok && path_ok).then_some(())
    };
    (20..=2048).contains(&text.len()) && role().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_hyphens_inside_only() {
        for name in ["a", "A1", "a--b", &"x".repeat(63)] {
            assert!(is_entity_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a_b", "a.b", "ä", "a/b", "..", &"x".repeat(64)] {
            assert!(!is_entity_name(name), "{name}");
        }
    }

    #[test]
    fn arns_give_their_name() {
        let arns = Arns::default();
        assert_eq!(resource_name(&arns.job("a-b"), JOB), Some("a-b"));
        assert_eq!(resource_name(&arns.job("a-b"), CONFIG), None);
        for text in [
            "a-b",
            "arn:aws:sagemaker:us-east-1:12345:ai-benchmark-job/a",
            "arn:aws:s3:us-east-1:123456789012:ai-benchmark-job/a",
            "arn:aws:sagemaker:us-east-1:123456789012:ai-benchmark-job/a-",
            "arn:aws:sagemaker:us-east-1:123456789012:ai-benchmark-job/../a",
        ] {
            assert_eq!(resource_name(text, JOB), None, "{text}");
        }
    }

    #[test]
    fn roles_are_told_from_other_arns() {
        for good in [
            "arn:aws:iam::123456789012:role/Bench",
            "arn:aws-cn:iam::123456789012:role/path/to/Bench_1",
        ] {
            assert!(is_role_arn(good), "{good}");
        }
        for bad in [
            "arn:aws:iam::123456789012:user/Bench",
            "arn:aws:iam::12345:role/Bench-and-more",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::123456789012:role/<b>x</b>",
            "role",
        ] {
            assert!(!is_role_arn(bad), "{bad}");
        }
    }
}
