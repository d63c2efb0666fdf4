//! TLS: whom to trust, and why a handshake failed.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The settings for all connections: the system's authorities and those in `ca_file`, or anyone when `insecure`.
///
/// # Errors
/// When `ca_file` cannot be read or holds no certificate, or there is no authority at all.
pub(crate) fn settings(
    insecure: bool,
    ca_file: Option<&Path>,
    http2: bool,
) -> Result<Arc<ClientConfig>, String> {
    let mut config = trust(insecure, ca_file)?;
    config.alpn_protocols = vec![if http2 { H2.to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Arc::new(config))
}

/// The name of HTTP/2 in the TLS handshake.
pub(crate) const H2: &[u8] = b"h2";

fn trust(insecure: bool, ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    if insecure {
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone { algorithms }))
            .with_no_client_auth();
        return Ok(config);
    }
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        let unreadable = |error: &dyn std::fmt::Display| {
            format!(
                "--ca-file {}: {error}; give a PEM file with a CERTIFICATE section",
                path.display()
            )
        };
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(&error))?;
        if certificates.is_empty() {
            return Err(unreadable(&"it holds no certificate"));
        }
        for certificate in certificates {
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
    }
    // A broken certificate in the system's store is not this endpoint's trouble.
    let (_added, _ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "no certificate authority is known on this system; give --ca-file, or --insecure to trust anyone"
                .to_owned(),
        );
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts any certificate: the connection is encrypted, but with whom is not known.
#[derive(Debug)]
struct TrustAnyone {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What a failed handshake means and what to do about it.
pub(crate) fn explain(error: &std::io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(certificate)) => explain_certificate(certificate),
        Some(rustls::Error::InvalidMessage(_)) => {
            "the port does not speak TLS; write http:// in place of https://".to_owned()
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!(
                "the server refused the TLS handshake ({alert:?}); check the host name in the URL and what the server asks of its clients"
            )
        }
        Some(other) => {
            format!("the TLS handshake failed: {other}; check that the port speaks TLS 1.2 or 1.3")
        }
        None => format!(
            "the connection broke during the TLS handshake ({error}); check that the port speaks TLS, or write http://"
        ),
    }
}

fn explain_certificate(certificate: &CertificateError) -> String {
    match certificate {
        CertificateError::UnknownIssuer => {
            "the certificate is from an unknown issuer; give its authority with --ca-file, or --insecure to trust anyone"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host; use the host name it was issued for, or --insecure to trust anyone"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired; renew it, or --insecure to trust anyone".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet; check this machine's clock, or --insecure to trust anyone".to_owned()
        }
        other => format!(
            "the certificate is not acceptable ({other}); give its authority with --ca-file, or --insecure to trust anyone"
        ),
    }
}
