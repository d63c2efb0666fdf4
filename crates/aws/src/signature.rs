//! Signature Version 4 of a request.

use std::time::SystemTime;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::credentials::Credentials;

/// Signs requests to one service of one region.
#[derive(Debug, Clone)]
pub struct Signer {
    identity: aws_credential_types::Credentials,
    region: String,
    service: &'static str,
}

/// A request that cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be signed: {0}")]
pub struct SignatureError(String);

impl Signer {
    /// A signer for `service`, such as `sagemaker`, in `region`.
    #[must_use]
    pub fn new(credentials: &Credentials, region: &str, service: &'static str) -> Self {
        Signer {
            identity: aws_credential_types::Credentials::new(
                &credentials.access_key_id,
                &credentials.secret_access_key,
                credentials.session_token.clone(),
                None,
                "environment",
            ),
            region: region.to_owned(),
            service,
        }
    }

    /// Adds `authorization`, `x-amz-date` and, for temporary keys, `x-amz-security-token` to the headers of a request
    /// made at `time`. `url` is the whole URL. Signed are the host, the content type and all `x-amz` headers.
    ///
    /// # Errors
    /// When the URL or a header is not one that can be signed.
    pub fn sign(
        &self,
        method: &Method,
        url: &str,
        headers: &mut HeaderMap,
        body: &[u8],
        time: SystemTime,
    ) -> Result<(), SignatureError> {
        let fail = |error: &dyn std::error::Error| SignatureError(error.to_string());
        let signed = headers.iter().filter_map(|(name, value)| {
            let chosen = name == HOST || name == CONTENT_TYPE || name.as_str().starts_with("x-amz");
            let value = value.to_str().ok().filter(|_| chosen)?;
            Some((name.as_str(), value))
        });
        let request = SignableRequest::new(method.as_str(), url, signed, SignableBody::Bytes(body))
            .map_err(|error| fail(&error))?;
        let identity = self.identity.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| fail(&error))?
            .into();
        let (instructions, _) = sign(request, &parameters)
            .map_err(|error| fail(&error))?
            .into_parts();
        for (name, value) in instructions.headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| fail(&error))?;
            let mut value = HeaderValue::from_str(value).map_err(|error| fail(&error))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 2025-11-30T20:03:20Z
    const TIME: Duration = Duration::from_secs(1_764_533_000);

    fn signer(token: Option<&str>) -> Signer {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: token.map(str::to_owned),
        };
        Signer::new(&credentials, "us-west-2", "sagemaker")
    }

    fn signed(signer: &Signer, more: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:9000"));
        headers.insert(
            "content-type",
            HeaderValue::from_static("application/x-amz-json-1.1"),
        );
        headers.insert(
            "x-amz-target",
            HeaderValue::from_static("SageMaker.CreateAIBenchmarkJob"),
        );
        for (name, value) in more {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let time = SystemTime::UNIX_EPOCH + TIME;
        signer
            .sign(&Method::POST, "http://127.0.0.1:9000/", &mut headers, b"{}", time)
            .unwrap();
        headers
    }

    /// The signature that botocore 1.44 gives the same request.
    const GOLDEN: &str = "c96d6352bbd0483c5376b4eabc40739393c79db27e4baf148372afed810df3bf";

    #[test]
    fn the_signature_is_the_one_that_botocore_makes() {
        let headers = signed(&signer(None), &[]);
        assert_eq!(
            headers["authorization"],
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20251130/us-west-2/sagemaker/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={GOLDEN}"
            )
        );
        assert_eq!(headers["x-amz-date"], "20251130T200320Z");
    }

    #[test]
    fn a_proxy_may_change_what_is_not_signed_and_temporary_keys_bring_their_token() {
        let headers = signed(&signer(None), &[("user-agent", "x"), ("accept", "*/*")]);
        assert!(headers["authorization"].to_str().unwrap().ends_with(GOLDEN));
        let headers = signed(&signer(Some("token")), &[]);
        assert_eq!(headers["x-amz-security-token"], "token");
        assert!(
            headers["authorization"]
                .to_str()
                .unwrap()
                .contains("x-amz-security-token")
        );
    }
}
