//! Expressions and their values; `tests/telemetry/test_expressions.py` compares random ones with Python.

use serde_json::json;

use super::*;

fn made(text: &str, value: &Value) -> Result<Value> {
    Expression::parse(text, &["value"])?.evaluate(&[("value", value)])
}

#[test]
fn expressions_have_pythons_values() {
    let value = json!({"n": 7, "f": 2.5, "t": "a$b", "l": [3, 1, 2], "rows": [{"s": 1, "on": true}, {"s": 2, "on": false}]});
    for (text, expected) in [
        ("value['n'] * 2 + 1", json!(15)),
        ("value['n'] / 2", json!(3.5)),
        ("-value['n'] // 2", json!(-4)),
        ("-7 % 3", json!(2)),
        ("2 ** -1", json!(0.5)),
        ("-2 ** 2", json!(-4)),
        ("round(value['f'])", json!(2)),
        ("round(2.675, 2)", json!(2.67)),
        ("value['t'].split('$')[0]", json!("a")),
        ("value['t'].split ('$') [-1]", json!("b")),
        ("'%s:%d' % (value['t'], value['n'])", json!("a$b:7")),
        ("'{}/{}'.format(value['n'], value['f'])", json!("7/2.5")),
        ("f\"{value['n']:.2f} {value['t']}\"", json!("7.00 a$b")),
        ("sum(row['s'] for row in value['rows'])", json!(3)),
        ("[row['s'] for row in value['rows'] if row['on']]", json!([1])),
        ("next((row for row in value['rows'] if row['s'] == 2), None)['on']", json!(false)),
        ("'up' if value['n'] > 5 and value['t'] else 'down'", json!("up")),
        ("1 < value['n'] <= 7", json!(true)),
        ("'n' in value and 'z' not in value", json!(true)),
        ("value.get('z', {'a': [None, True]})", json!({"a": [null, true]})),
        ("str(value['l'])", json!("[3, 1, 2]")),
        ("sorted(value['l'])[1:]", json!([2, 3])),
        ("max(value['l']) - min(1, 2)", json!(2)),
        ("int('42') + float('0.5')", json!(42.5)),
        ("json.loads('[1]')[0]", json!(1)),
        ("'a' 'b' \"\\u00e9\"", json!("abé")),
    ] {
        assert_eq!(made(text, &value), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for text in [
        "open('/etc/passwd')",
        "__import__('os')",
        "value.__class__",
        "value['a'].format_map({})",
        "lambda: 1",
        "value if 1",
        "value[::2]",
        "value[",
        "'a",
        "1 +",
        "a",
        "{1, 2}",
        "sorted(value, reverse=True)",
        "[x for x in value for y in x]",
        "value; 1",
        "value | 2",
        "len()",
        "0x10",
        "f'{value!r}'",
    ] {
        assert!(Expression::parse(text, &["value"]).is_err(), "{text}");
    }
    let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
    let long = format!("1{}", "+1".repeat(1000));
    for text in [deep, long, "-".repeat(400) + "1", "x".repeat(10_000)] {
        assert!(Expression::parse(&text, &["value"]).is_err());
    }
}

#[test]
fn what_has_no_value_is_an_error() {
    for text in [
        "value['z']",
        "value['n'] / 0",
        "1 + 'a'",
        "[1][5]",
        "int('x')",
        "1e308 * 10",
        "1 < 'a'",
        "sorted([1, 'a'])",
        "next([])",
        "'%d' % 'x'",
        "'x' * 10000000",
        "sum('abc')",
    ] {
        let value = json!({"n": 1});
        assert!(made(text, &value).is_err(), "{text}");
    }
}

#[test]
fn an_evaluation_is_bounded() {
    let many = Value::from(vec![0; 50_000]);
    assert!(made("sum(x for x in value)", &many).is_ok());
    let error = made("[x + 1 + 1 + 1 for x in value]", &many).unwrap_err();
    assert!(error.0.contains("too many steps"), "{error}");
    let error = made("[('x' * 1000000) for x in value]", &many).unwrap_err();
    assert!(error.0.contains("too many steps"), "{error}");
    let few = Value::from(vec!["a"; 3]);
    assert_eq!(made("('x' * 10).join(value)[:12]", &few), Ok(json!("axxxxxxxxxxa")));
    for text in ["('x' * 1000000).join(value)", "('{0}' * 3).format('x' * 1000000)"] {
        let error = made(text, &few).unwrap_err();
        assert!(error.0.contains("a result that is too long"), "{text}: {error}");
    }
}
