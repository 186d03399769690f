//! Compares trees by their printed form.

use super::*;

fn formatted(query: &str) -> String {
    format(query, &Limits::default()).unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[test]
fn queries_are_formatted() {
    for (query, expected) in [
        ("foo/bar", "foo / bar"),
        ("-2^2", "-2 ^ 2"),
        ("- foo", "-foo"),
        ("1e3 + 0x10", "1000 + 16"),
        ("90s", "1m30s"),
        ("sum(x)by(a)", "sum by (a) (x)"),
        ("sum by () (x)", "sum(x)"),
        ("count_values without (a) ('v', x)", "count_values without (a) (\"v\", x)"),
        ("a and on(b) c", "a and on (b) c"),
        ("a * ignoring(b) group_left(c, 'd e') c", "a * ignoring (b) group_left (c, \"d e\") c"),
        ("a > bool fill(0) b", "a > bool fill (0) b"),
        ("a + fill_right(-1) fill_left(2) b", "a + fill_left (2) fill_right (-1) b"),
        ("x{b='2',a=~`1`}", "x{a=~\"1\",b=\"2\"}"),
        ("{'x y', a!='1'}", "{__name__=\"x y\",a!=\"1\"}"),
        ("x[5m] offset -1h @ end()", "x[5m] @ end() offset -1h"),
        ("x[5m] smoothed @ 10", "x[5m] smoothed @ 10.000"),
        ("x anchored", "x anchored"),
        ("x[5m+step()*2]", "x[5m + step() * 2]"),
        ("x[(5)]", "x[(5)]"),
        ("x offset -(2m-range())", "x offset -(2m - range())"),
        ("x offset min_of(1m, 2)", "x offset min_of(1m, 2)"),
        ("x offset 1 + 2", "x offset 1s + 2"),
        ("x offset +step()", "x offset step()"),
        // Zero is no offset.
        ("x offset 0s offset 5m", "x offset 5m"),
        ("x offset 0s [5m]", "x[5m]"),
        (r"'\ufffd'", r#""\ufffd""#),
        ("rate(x[5m])[1h:]", "rate(x[5m])[1h:]"),
        ("x[1h:90s]", "x[1h:1m30s]"),
        ("http.requests{service.name='a'}", "http.requests{\"service.name\"=\"a\"}"),
    ] {
        assert_eq!(formatted(query), expected, "{query}");
    }
}

#[test]
fn errors_are_those_of_prometheus() {
    for (query, expected) in [
        ("x[:5m]", "1:4: parse error: unexpected colon before duration in duration expression"),
        ("x[step()::]", "1:11: parse error: unexpected repeated colon in duration expression"),
        ("x[5m::]", "1:6: parse error: unexpected colon ':'"),
        ("x[1hs]", r#"1:3: parse error: unknown unit "hs" in duration "1hs""#),
        ("0x1e", r#"1:1: parse error: bad number or duration syntax: "0x1e""#),
        (
            "0x1e+5",
            r#"1:1: parse error: error parsing number: strconv.ParseFloat: parsing "0x1e+5": invalid syntax"#,
        ),
        (
            "0.5.5",
            r#"1:1: parse error: error parsing number: strconv.ParseFloat: parsing "0.5.5": invalid syntax"#,
        ),
        ("\u{1}", r"1:1: parse error: unexpected character: '\x01'"),
        ("x\u{200b}", r"1:2: parse error: unexpected character: '\u200b'"),
        ("x \u{2167}", "1:3: parse error: unexpected character: '\u{2167}'"),
        ("'\\\n'", "1:1: parse error: unknown escape sequence U+000A"),
        ("{a='\u{fffd}'}", "1:4: parse error: invalid UTF-8 rune"),
        (r"x{__name__='\x01'}", r#"1:1: parse error: metric name must not be set twice: "x" or "\x01""#),
        // Invalid tokens behind what else is refused.
        ("x[0", "1:4: parse error: unclosed left bracket"),
        ("x[5m/0 foo]", "1:8: parse error: unexpected character: 'f', expected ':'"),
        ("sum() \"", "1:7: parse error: unterminated quoted string"),
        ("sum by (a) () \"", "1:1: parse error: no arguments for aggregate expression provided"),
        ("rate(x,,y)", "1:7: parse error: trailing commas not allowed in function call args"),
        ("x @ Inf", "1:1: parse error: timestamp out of bounds for @ modifier: +Inf"),
        ("x offset 5m offset 0s", "1:1: parse error: offset may not be set multiple times"),
        ("info(1, x)", "1:9: parse error: expected label selectors only, got vector selector instead"),
    ] {
        let error = format(query, &Limits::default()).expect_err(query);
        assert_eq!(error.text, expected, "{query}");
    }
}

#[test]
fn long_queries_get_several_lines() {
    let name = "x".repeat(60);
    assert_eq!(
        formatted(&format!("sum by (job) (rate({name}[5m]) + rate({name}[5m]))")),
        format!("sum by (job) (\n    rate({name}[5m])\n  +\n    rate({name}[5m])\n)")
    );
}

#[test]
fn words_of_the_language_are_names_where_they_can_be() {
    for query in [
        "sum",
        "offset offset 5m",
        "by{a=\"b\"}",
        "fill + fill",
        "step + range",
        "sum by (sum, on, offset) (x)",
        "start",
    ] {
        formatted(query);
    }
    for query in ["on", "bool", "group_left", "sum by (without) (x)", "atan2"] {
        assert!(format(query, &Limits::default()).is_err(), "{query}");
    }
}

#[test]
fn operators_bind_as_in_prometheus() {
    for (query, same) in [
        ("a + b * c ^ d", "a + (b * (c ^ d))"),
        ("a ^ b ^ c", "a ^ (b ^ c)"),
        ("a - b - c", "(a - b) - c"),
        ("-a ^ b", "-(a ^ b)"),
        ("-a * b", "(-a) * b"),
        ("a or b and c unless d", "a or ((b and c) unless d)"),
        ("a == b > c", "(a == b) > c"),
        ("a atan2 b % c", "(a atan2 b) % c"),
        ("x offset -2 ^ 2", "(x offset -2) ^ 2"),
    ] {
        let shape = |query| {
            let tree =
                syntax_tree(query, &Limits::default()).unwrap_or_else(|error| panic!("{query}: {error}"));
            let mut tree: serde_json::Value = serde_json::from_str(&tree).expect("a document");
            without_parentheses(&mut tree);
            tree
        };
        assert_eq!(shape(query), shape(same), "{query}");
    }
}

fn without_parentheses(tree: &mut serde_json::Value) {
    while tree["type"] == "parenExpr" {
        *tree = tree["expr"].take();
    }
    if let serde_json::Value::Object(entries) = tree {
        entries.values_mut().for_each(without_parentheses);
    }
}

#[test]
fn queries_are_documents() {
    let tree = syntax_tree("rate(x{a=\"b\"}[5m] offset step())", &Limits::default()).expect("a query");
    let tree: serde_json::Value = serde_json::from_str(&tree).expect("a document");
    assert_eq!(tree["func"]["name"], "rate");
    let selector = &tree["args"][0];
    assert_eq!((&selector["type"], &selector["range"]), (&"matrixSelector".into(), &300_000.into()));
    assert_eq!(selector["offsetExpr"]["op"], "step");
    let signed = syntax_tree("x offset +step()", &Limits::default()).expect("a query");
    let signed: serde_json::Value = serde_json::from_str(&signed).expect("a document");
    assert_eq!(
        (&signed["offsetExpr"]["op"], &signed["offsetExpr"]["rhs"]["op"]),
        (&"+".into(), &"step".into())
    );
    assert_eq!(selector["matchers"][1]["value"], "x");
}

#[test]
fn long_chains_are_formatted() {
    let chain = vec!["x"; 900].join("+");
    assert!(format(&chain, &Limits::default()).is_ok() && syntax_tree(&chain, &Limits::default()).is_ok());
    assert!(format(&vec!["x"; 1100].join("+"), &Limits::default()).is_err());
}
