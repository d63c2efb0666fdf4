//! Signature Version 4 from the other side: whether a request was signed by who holds a key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use sha2::{Digest, Sha256};

/// How far the clocks of client and server may differ. A request that is caught may be sent again within this time.
pub const LARGEST_SKEW: Duration = Duration::from_secs(300);

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Headers that must be among the signed ones: what they say decides what is done.
const MUST_BE_SIGNED: [&str; 3] = ["host", "x-amz-date", "x-amz-target"];

/// Why a request is not believed. None of the texts holds a part of a key or of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    /// No signature.
    #[error("the request is not signed; configure the client with a key pair that this server knows")]
    NotSigned,
    /// Not a signature of this version, or one that leaves out what must be signed.
    #[error("the signature cannot be used: {0}")]
    Malformed(&'static str),
    /// Nobody's key.
    #[error("the access key is not known here")]
    UnknownKey,
    /// Too old, or of the future.
    #[error("the request was signed more than 5 minutes before or after now; set the client's clock")]
    Skewed,
    /// The body is another than the one that was signed for.
    #[error("the body is not the one that its x-amz-content-sha256 names")]
    Body,
    /// It does not match.
    #[error("the signature does not match; check the secret key")]
    Wrong,
}

/// A request to a service's root, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// All its headers.
    pub headers: &'a HeaderMap,
    /// Its whole body.
    pub body: &'a [u8],
}

/// Checks a request to the path `/` without a query. `secret_of` finds the secret key of an access key. Returns the access key.
///
/// # Errors
/// When it was not signed by who holds that key, for this service, within [`LARGEST_SKEW`] of `now`.
pub fn verify<'k>(
    request: &Request<'_>,
    service: &str,
    now: SystemTime,
    secret_of: impl Fn(&str) -> Option<&'k str>,
) -> Result<String, VerificationError> {
    use VerificationError::{Body, Malformed, NotSigned, UnknownKey, Wrong};
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").ok_or(NotSigned)?;
    let parts = authorization.strip_prefix(ALGORITHM).ok_or(NotSigned)?;
    let part = |name: &str| {
        parts
            .split(',')
            .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
            .ok_or(Malformed("a part of the authorization header is missing"))
    };
    let (credential, signed, signature) = (part("Credential")?, part("SignedHeaders")?, part("Signature")?);
    let mut scope = credential.splitn(2, '/');
    let (key, scope) = (scope.next().unwrap_or_default(), scope.next().unwrap_or_default());
    let [day, region, named, terminator] = scope.split('/').collect::<Vec<_>>()[..] else {
        return Err(Malformed("its scope is not DAY/REGION/SERVICE/aws4_request"));
    };
    if named != service || terminator != "aws4_request" {
        return Err(Malformed("its scope is of another service"));
    }
    let names: Vec<&str> = signed.split(';').collect();
    let left_out = |name: &&&str| header(name).is_some() && !names.contains(name);
    if MUST_BE_SIGNED.iter().any(|name| left_out(&name)) {
        return Err(Malformed("host, x-amz-date and x-amz-target must be signed"));
    }
    let date = header("x-amz-date").ok_or(Malformed("x-amz-date is missing"))?;
    let time = time_of(date).ok_or(Malformed("x-amz-date is no time"))?;
    if !date.starts_with(day) || day.len() != 8 {
        return Err(Malformed("its scope is of another day"));
    }
    check_skew(time, now)?;
    let hash = hex(&Sha256::digest(request.body));
    if header("x-amz-content-sha256").is_some_and(|named| named != hash) {
        return Err(Body);
    }
    let mut canonical = format!("{}\n/\n\n", request.method);
    for name in &names {
        let values: Vec<&str> = request
            .headers
            .get_all(*name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        if values.is_empty() {
            return Err(Malformed("a signed header is missing"));
        }
        let words: Vec<&str> = values.iter().flat_map(|value| value.split(' ')).collect();
        let value = if values.len() == 1 {
            words
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
        } else {
            values.join(",")
        };
        canonical.push_str(&format!("{name}:{value}\n"));
    }
    canonical.push_str(&format!("\n{signed}\n{hash}"));
    let text = format!(
        "{ALGORITHM}\n{date}\n{scope}\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let secret = secret_of(key).ok_or(UnknownKey)?;
    let mut signing = mac(format!("AWS4{secret}").as_bytes(), day);
    for part in [region, service, terminator] {
        signing = mac(&signing, part);
    }
    let given = bytes_of(signature).ok_or(Malformed("the signature is not hexadecimal"))?;
    // Compares in constant time.
    hasher(&signing, &text).verify_slice(&given).map_err(|_| Wrong)?;
    Ok(key.to_owned())
}

fn check_skew(time: u64, now: SystemTime) -> Result<(), VerificationError> {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now.abs_diff(time) > LARGEST_SKEW.as_secs() {
        return Err(VerificationError::Skewed);
    }
    Ok(())
}

fn hasher(key: &[u8], text: &str) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut hasher = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    hasher.update(text.as_bytes());
    hasher
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hasher(key, text).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || hex.len() != 64 {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

/// Seconds since 1970 of `20251130T200320Z`.
fn time_of(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = bytes.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 of a date: years begin in March, so that the leap day comes last.
    let (shifted, of_year) = if month > 2 {
        (month - 3, year)
    } else {
        (month + 9, year - 1)
    };
    let days = 365 * of_year + of_year / 4 - of_year / 100 + of_year / 400 + (153 * shifted + 2) / 5 + day;
    Some((days - 719_469) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::credentials::Credentials;
    use crate::signature::Signer;

    /// 2025-11-30T20:03:20Z
    const TIME: u64 = 1_764_533_000;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn secret(key: &str) -> Option<&'static str> {
        (key == "AKIDEXAMPLE").then_some("secret")
    }

    /// A request as our own client signs it, which is as botocore does.
    fn signed(secret: &str, service: &'static str, body: &[u8]) -> HeaderMap {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: secret.to_owned(),
            session_token: None,
        };
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
        Signer::new(&credentials, "us-west-2", service)
            .sign(
                &Method::POST,
                "http://127.0.0.1:9000/",
                &mut headers,
                body,
                at(TIME),
            )
            .unwrap();
        headers
    }

    fn check(headers: &HeaderMap, body: &[u8], now: u64) -> Result<String, VerificationError> {
        let request = Request {
            method: &Method::POST,
            headers,
            body,
        };
        verify(&request, "sagemaker", at(now), secret)
    }

    #[test]
    fn what_was_signed_is_believed() {
        let headers = signed("secret", "sagemaker", b"{}");
        let golden = "c96d6352bbd0483c5376b4eabc40739393c79db27e4baf148372afed810df3bf";
        assert!(headers["authorization"].to_str().unwrap().ends_with(golden));
        for now in [TIME, TIME + 300, TIME - 300] {
            assert_eq!(check(&headers, b"{}", now).as_deref(), Ok("AKIDEXAMPLE"));
        }
        // Not signed, and of no matter.
        let mut more = headers;
        more.insert("amz-sdk-request", HeaderValue::from_static("attempt=1"));
        check(&more, b"{}", TIME).unwrap();
    }

    #[test]
    fn whatever_was_changed_is_not_believed() {
        use VerificationError::{Body, NotSigned, Skewed, UnknownKey, Wrong};
        let good = signed("secret", "sagemaker", b"{}");
        assert_eq!(
            check(&signed("other", "sagemaker", b"{}"), b"{}", TIME),
            Err(Wrong)
        );
        assert_eq!(check(&good, b"{\"a\":1}", TIME), Err(Wrong));
        assert_eq!(check(&good, b"{}", TIME + 301), Err(Skewed));
        assert_eq!(check(&good, b"{}", TIME - 301), Err(Skewed));
        assert_eq!(check(&HeaderMap::new(), b"{}", TIME), Err(NotSigned));
        let changed = |name: &'static str, value: &str| {
            let mut headers = good.clone();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            check(&headers, b"{}", TIME)
        };
        assert_eq!(
            changed("x-amz-target", "SageMaker.DeleteAIBenchmarkJob"),
            Err(Wrong)
        );
        assert_eq!(changed("host", "elsewhere"), Err(Wrong));
        assert_eq!(changed("x-amz-date", "20251130T200321Z"), Err(Wrong));
        assert_eq!(changed("x-amz-content-sha256", "00"), Err(Body));
        assert_eq!(changed("authorization", "Bearer x"), Err(NotSigned));
        let authorization = good["authorization"].to_str().unwrap().to_owned();
        let with = |from: &str, to: &str| changed("authorization", &authorization.replace(from, to));
        assert_eq!(with("AKIDEXAMPLE", "AKIDOTHER"), Err(UnknownKey));
        for (from, to) in [
            (";x-amz-target", ""),
            ("host;", ""),
            ("x-amz-date", "x-amz-nothing"),
            ("Signature=", "Signature=zz"),
            ("/aws4_request", ""),
            ("/20251130/", "/20251129/"),
            ("/20251130/", "//"),
            ("sagemaker", "s3"),
            ("SignedHeaders", "Signed"),
            (" Credential=", " Credential=/"),
        ] {
            let error = with(from, to).unwrap_err();
            assert!(
                matches!(error, VerificationError::Malformed(_) | UnknownKey),
                "{from} {to}: {error}"
            );
        }
        assert!(check(&signed("secret", "s3", b"{}"), b"{}", TIME).is_err());
    }

    #[test]
    fn times_are_read_and_what_is_none_is_not() {
        assert_eq!(time_of("20251130T200320Z"), Some(TIME));
        assert_eq!(time_of("19700101T000000Z"), Some(0));
        assert_eq!(time_of("20240229T120000Z"), Some(1_709_208_000));
        for text in [
            "",
            "20251130T200320",
            "2025-11-30T20:03Z",
            "20251330T000000Z",
            "00000101T000000Z",
            "2025113éT00000Z",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
