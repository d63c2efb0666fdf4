//! A throw-away certificate authority and one certificate for the loopback, made afresh for each server.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The TLS side of a server.
pub(crate) struct Credentials {
    pub config: Arc<ServerConfig>,
    pub ca_pem: String,
}

pub(crate) fn credentials() -> io::Result<Credentials> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority
        .distinguished_name
        .push(DnType::CommonName, "scripted server authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().map_err(io::Error::other)?)
        .map_err(io::Error::other)?;

    let key = KeyPair::generate().map_err(io::Error::other)?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&key, &authority))
        .map_err(io::Error::other)?;

    let chain = vec![certificate.der().clone()];
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    Ok(Credentials {
        config: Arc::new(config),
        ca_pem: authority.pem(),
    })
}
