//! Text from outside as part of a page: never markup, never script.

/// Text as HTML shows it, in an element or in a quoted attribute.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && !matches!(c, '\n' | '\t') => {}
            c => out.push(c),
        }
    }
    out
}

/// JSON inside a script element: no `<` is left that could end the element or open a comment. Within JSON `<`
/// stands only in strings, where the escape means the same.
pub(super) fn json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Puts `values` into the slots `{{name}}` of a template. What a value itself holds is never a slot.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            out.push_str(value);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            text("<script>alert('1' & \"2\")</script>"),
            "&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)&lt;/script&gt;"
        );
    }

    #[test]
    fn json_cannot_end_its_script() {
        let escaped = json(r#"{"a":"</script><!--"}"#);
        assert!(!escaped.contains('<'));
        let back: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back["a"], "</script><!--");
    }

    #[test]
    fn values_are_not_templates() {
        assert_eq!(
            fill("{{a}}-{{b}}-{{c}}", &[("a", "{{b}}"), ("b", "2")]),
            "{{b}}-2-"
        );
    }
}
