//! The two metadata documents: where they are, and which ones count.

use url::Url;

use super::secret_map::SecretMap;

/// Where a server's protected-resource metadata may be, without a challenge that says it.
pub(super) fn resource_candidates(server: &Url) -> Vec<String> {
    let mut found = Vec::new();
    let path = server.path().trim_end_matches('/');
    if !path.is_empty() || server.query().is_some() {
        let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
        found.push(at_origin(server, &format!("/.well-known/oauth-protected-resource{path}{query}")));
    }
    found.push(at_origin(server, "/.well-known/oauth-protected-resource"));
    found
}

/// Where an issuer's metadata may be, in the order in which it is looked for.
pub(super) fn issuer_candidates(issuer: &Url) -> Vec<String> {
    let path = issuer.path().trim_end_matches('/');
    let mut found = vec![
        at_origin(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at_origin(issuer, &format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        found.push(at_origin(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    found
}

fn at_origin(url: &Url, path: &str) -> String {
    format!("{}{path}", url.origin().ascii_serialization())
}

/// Whether a document's `resource` names this server: its URL, its origin, or a part of its path.
pub(super) fn resource_fits(resource: &str, server: &Url) -> bool {
    let Ok(named) = super::trust::plain_url(resource) else { return false };
    if named.origin() != server.origin() {
        return false;
    }
    if named.query().is_some() {
        return named.path() == server.path() && named.query() == server.query();
    }
    let (prefix, path) = (named.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a candidate for an issuer's metadata is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It can be used.
    Good,
    /// It is the document of another issuer.
    OtherIssuer,
    /// It does not announce PKCE with S256.
    NoPkce,
    /// It has no usable endpoints.
    Incomplete,
}

/// Whether PKCE is needed: whether a person signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// A person signs in.
    Interactive,
    /// The client has credentials of its own.
    Machine,
}

/// Judges a candidate.
pub(super) fn judge(document: &SecretMap, issuer: &str, flow: Flow) -> Fit {
    if document.text("issuer") != Some(issuer) {
        return Fit::OtherIssuer;
    }
    if document.text("token_endpoint").is_none() {
        return Fit::Incomplete;
    }
    if flow == Flow::Machine {
        return Fit::Good;
    }
    if document.text("authorization_endpoint").is_none() {
        return Fit::Incomplete;
    }
    let pkce = document.texts("code_challenge_methods_supported").is_some_and(|methods| methods.contains(&"S256"));
    if pkce { Fit::Good } else { Fit::NoPkce }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn well_known_addresses_keep_the_path() {
        assert_eq!(
            resource_candidates(&url("https://h:8443/api/mcp")),
            [
                "https://h:8443/.well-known/oauth-protected-resource/api/mcp",
                "https://h:8443/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(resource_candidates(&url("https://h/")), ["https://h/.well-known/oauth-protected-resource"]);
        assert_eq!(
            resource_candidates(&url("https://h/mcp/?t=1"))[0],
            "https://h/.well-known/oauth-protected-resource/mcp?t=1"
        );
        assert_eq!(
            issuer_candidates(&url("https://h/t1")),
            [
                "https://h/.well-known/oauth-authorization-server/t1",
                "https://h/.well-known/openid-configuration/t1",
                "https://h/t1/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            issuer_candidates(&url("https://h")),
            ["https://h/.well-known/oauth-authorization-server", "https://h/.well-known/openid-configuration"]
        );
    }

    #[test]
    fn a_resource_is_the_server_its_origin_or_a_part_of_its_path() {
        let server = url("https://h/api/mcp");
        for good in ["https://h", "https://h/", "https://h/api", "https://h/api/", "https://h/api/mcp", "HTTPS://H/api"]
        {
            assert!(resource_fits(good, &server), "{good}");
        }
        for bad in [
            "https://h/ap",
            "https://h/api/mcp/x",
            "https://h/other",
            "https://h:444/api",
            "http://h/api",
            "https://other/api/mcp",
            "https://u@h/api",
            "https://h/api#x",
            "https://h/api?x=1",
            "urn:x",
            "",
        ] {
            assert!(!resource_fits(bad, &server), "{bad}");
        }
        assert!(resource_fits("https://h/mcp?t=1", &url("https://h/mcp?t=1")));
        assert!(!resource_fits("https://h/mcp?t=2", &url("https://h/mcp?t=1")));
    }

    #[test]
    fn a_document_counts_for_its_issuer_alone() {
        let read = |text: &str| SecretMap::parse(text.as_bytes()).unwrap();
        let good = r#"{"issuer":"https://h","token_endpoint":"t","authorization_endpoint":"a","code_challenge_methods_supported":["plain","S256"]}"#;
        let interactive = |text: &str, issuer| judge(&read(text), issuer, Flow::Interactive);

        assert_eq!(interactive(good, "https://h"), Fit::Good);
        assert_eq!(interactive(good, "https://h/"), Fit::OtherIssuer);
        assert_eq!(interactive(&good.replace("issuer", "no"), "https://h"), Fit::OtherIssuer);
        for methods in [r#"["plain"]"#, "[]", "null", r#""S256""#, r#"["s256"]"#] {
            assert_eq!(interactive(&good.replace(r#"["plain","S256"]"#, methods), "https://h"), Fit::NoPkce);
        }
        assert_eq!(interactive(&good.replace("token_endpoint", "no"), "https://h"), Fit::Incomplete);
        assert_eq!(interactive(&good.replace("authorization_endpoint", "no"), "https://h"), Fit::Incomplete);
        let machine = r#"{"issuer":"https://h","token_endpoint":"t"}"#;
        assert_eq!(judge(&read(machine), "https://h", Flow::Machine), Fit::Good);
    }
}
