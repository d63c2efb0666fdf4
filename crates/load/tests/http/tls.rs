//! HTTPS: whom to trust, and what to do when that fails.

use std::io::Write;

use plimsoll_load::PrepareError;
use plimsoll_scripted::Script;

use crate::harness::{at, measure, ms, prepared, refusal, rung, server, workload};

#[test]
fn an_unknown_issuer_is_refused_and_can_be_trusted_or_ignored() {
    let server = server(Script::default().tls());
    let error = refusal(&at(server.url()));
    assert!(matches!(error, PrepareError::Tls { .. }), "{error}");
    assert!(error.to_string().contains("--ca-file"), "{error}");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.ca_pem().unwrap().as_bytes()).unwrap();
    let mut trusting = at(server.url());
    trusting.ca_file = Some(file.path().to_owned());
    let workload = workload(16, 4);
    let evidence = measure(
        prepared(&trusting, &workload),
        &workload,
        &rung(4, 1, ms(0), ms(200)),
    );
    assert!(evidence.requests.iter().filter(|r| r.ok()).count() > 8);
    assert!(
        evidence.requests.iter().all(|r| r.ok()),
        "{:?}",
        evidence.requests.iter().find(|r| !r.ok())
    );

    let mut anyone = at(server.url());
    anyone.insecure = true;
    assert!(prepared(&anyone, &workload).notes[0].contains("--insecure"));
}

#[test]
fn a_certificate_for_another_host_is_named() {
    let server = server(Script::default().tls());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.ca_pem().unwrap().as_bytes()).unwrap();
    // The certificate is for localhost and 127.0.0.1.
    let mut options = at(format!("https://127.0.0.2:{}", server.addr().port()));
    options.ca_file = Some(file.path().to_owned());
    match refusal(&options) {
        PrepareError::Tls { problem, .. } => assert!(problem.contains("another host"), "{problem}"),
        // A server bound to 127.0.0.1 alone cannot be reached by another name.
        PrepareError::Connect { .. } => {}
        other => panic!("{other}"),
    }
}

#[test]
fn the_wrong_scheme_is_named() {
    let plain = server(Script::default());
    let mut options = at(plain.url().replace("http:", "https:"));
    // A plain server may wait for the rest of what it takes for a request line.
    options.connect_timeout = ms(500);
    let error = refusal(&options).to_string();
    assert!(error.contains("http://"), "{error}");
    let secure = server(Script::default().tls());
    let error = refusal(&at(secure.url().replace("https:", "http:"))).to_string();
    assert!(error.contains("https"), "{error}");
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut options = at("https://127.0.0.1:9");
    options.ca_file = Some(file.path().to_owned());
    assert!(refusal(&options).to_string().contains("--ca-file"));
    options.ca_file = Some("/no/such/file.pem".into());
    assert!(refusal(&options).to_string().contains("/no/such/file.pem"));
}
