//! Every spelling of a URL, and what it means.

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
fn every_dialect_has_its_route_and_the_route_its_dialect() {
    for (given, stream, dialect, url, about) in [
        (
            "http://h/v1/responses",
            true,
            Dialect::OpenaiResponses,
            "http://h/v1/responses",
            "/v1/models",
        ),
        (
            "http://h/p/v1/messages",
            true,
            Dialect::AnthropicMessages,
            "http://h/p/v1/messages",
            "/p/v1/models",
        ),
        (
            "http://h/generate",
            true,
            Dialect::Tgi,
            "http://h/generate_stream",
            "/info",
        ),
        (
            "http://h/generate_stream",
            false,
            Dialect::Tgi,
            "http://h/generate",
            "/info",
        ),
        (
            "http://h/p/api/chat",
            true,
            Dialect::Ollama,
            "http://h/p/api/chat",
            "/p/api/tags",
        ),
        (
            "https://runtime.sagemaker.us-west-2.amazonaws.com/endpoints/my-model",
            true,
            Dialect::Sagemaker,
            "https://runtime.sagemaker.us-west-2.amazonaws.com/endpoints/my-model/invocations-response-stream",
            "/ping",
        ),
        (
            "http://h/endpoints/v1/invocations-response-stream",
            false,
            Dialect::Sagemaker,
            "http://h/endpoints/v1/invocations",
            "/ping",
        ),
        (
            "http://h/invocations",
            true,
            Dialect::OpenaiChat,
            "http://h/invocations",
            "/v1/models",
        ),
    ] {
        let endpoint = resolve(given, None, None).unwrap();
        assert!(endpoint.named(), "{given}");
        let endpoint = endpoint.speaking(endpoint.dialect(), stream);
        assert_eq!(endpoint.dialect(), dialect, "{given}");
        assert_eq!(
            (endpoint.url().as_str(), endpoint.models().as_str()),
            (url, about)
        );
        let again = resolve(url, Some(dialect), None)
            .unwrap()
            .speaking(dialect, stream);
        assert_eq!(again.url(), url, "the printed URL stands for itself");
    }
    assert!(!resolve("http://h/v1", None, None).unwrap().named());
    let ollama = resolve("http://h:11434/v1", Some(Dialect::Ollama), None).unwrap();
    assert_eq!(ollama.url(), "http://h:11434/api/chat");
    assert_eq!(ollama.version(), "/api/version");
    let custom = resolve("http://h/x/generate", Some(Dialect::Custom), None).unwrap();
    assert_eq!(custom.url(), "http://h/x/generate");
    let custom = resolve("http://h", Some(Dialect::Custom), Some("ask")).unwrap();
    assert_eq!(custom.url(), "http://h/ask");
    let nameless = resolve("https://h/", Some(Dialect::Sagemaker), None)
        .unwrap_err()
        .to_string();
    assert!(nameless.contains("/endpoints/NAME"), "{nameless}");
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
