"""A fixed set of series, and queries on them that have every function, operator, aggregation and modifier of the language."""

import itertools
import math
import random

from prometheus.series import MINUTES, STALE, START, series_of

END = START + MINUTES * 60


def every(seconds, value, first=START, last=END):
    """One sample each so many seconds; `value` says which, of its number."""
    return [(time * 1000, float(value(number))) for number, time in enumerate(range(first, last, seconds))]


def demo():
    found = series_of(random.Random(1), aligned=True)

    def add(name, samples, **labels):
        found.append(({"__name__": name, **labels}, samples))
    special = [1, math.inf, -math.inf, math.nan, 0, -1.5, 1e300, 1e-300]
    add("special", every(60, lambda at: special[at // 5 % len(special)]), kind="mixed")
    add("special", every(60, lambda at: at), kind="plain")
    add("constant", every(15, lambda at: 7), host="a")
    add("seconds", every(60, lambda at: START + at * 86400 * 17), host="a")
    add("short_total", every(60, lambda at: at * 3, START + 1800, START + 1860), host="a")
    add("short_total", every(15, lambda at: at * 3, START + 1800, START + 2000) + [((START + 2000) * 1000, STALE)], host="b")
    for version in ["v1.2", "v1.10", "v1.9", "v2.0"]:
        add("release", every(60, lambda at: at % 4), version=version)
    for job, instance in itertools.product(["api", "web"], ["a:1", "b:2"]):
        half = START + MINUTES * 30
        add("target_info", every(60, lambda at: 1, last=half), job=job, instance=instance, zone="here", edition="1")
        add("target_info", every(60, lambda at: 1, half), job=job, instance=instance, zone="here", edition="2")
    add("build_info", every(60, lambda at: 1), job="api", instance="a:1", revision="abc")
    add("http.server.requests", every(30, lambda at: at * 2), **{"service.name": "api"})
    add("http.server.requests", every(30, lambda at: at * 3), **{"service.name": "web"})
    for bound, factor in [("-1", 1), ("0", 2), ("2", 5), ("+Inf", 6)]:
        add("signed_bucket", every(30, lambda at, factor=factor: at * factor), le=bound)
    for bound, factor in [("1", 5), ("2", 4), ("3", 9), ("+Inf", 8), ("many", 3)]:
        add("broken_bucket", every(30, lambda at, factor=factor: at * factor), le=bound)
    for bound in ["1", "2"]:
        add("open_bucket", every(30, lambda at: at), le=bound)
    return found


def each(template, **lists):
    """The template with each combination of what its names stand for."""
    for values in itertools.product(*lists.values()):
        text = template
        for name, value in zip(lists, values):
            text = text.replace(name, value)
        yield text


def queries():
    gauge, counter = "temperature", "requests_total"
    found = ["42", "-1e3", "0x1F", "0b1", "1_000", "NaN", "-Inf", "1h30m", ".5", '"text"', "'it''s'", "`raw\\n`", '"\\u00e9\\t"']
    # Selectors.
    found += [gauge, counter, "missing", "{}", '{job="api"}', '{__name__="constant"}', '{"http.server.requests"}', "http.server.requests",
              'http.server.requests{service.name="api"}', '{"http.server.requests", "service.name"="web"}', 'temperature{zone="süd"}']
    found += each("requests_total{MATCHERS}", MATCHERS=[
        'code="200"', 'code!="200"', 'code=~"4..|5.."', 'code!~"2.."', 'code=""', 'code!=""', 'absent=""', 'absent=~".*"', 'absent=~".+"', 'job="api",code="404"',
        'job=~"a.*", instance!~"b.*",', 'job="api", job="web"', '"code"=~"2.*"', 'code=~"(?i:200)"', "__name__=\"x\""])
    # Go's regular expressions.
    found += each("temperature{zone!~\"EXPRESSION\"}", EXPRESSION=[
        "s\\\\w+d", "s\\\\W*d", "{id}", "s{,3}.*", "[[s].*", "[a&&b].*", "[s&&t].*", "\\\\Qs\\\\E.*", "\\\\<.*", "[\\\\pL-]+", "s\\\\b.*", "a{2", "\\\\101", "\\\\1"])
    found += each("temperature SHIFT", SHIFT=[
        "offset 5m", "offset -5m", "offset 90", "offset 1h30m", "@ start()", "@ end()", f"@ {START + 1000}", f"@ {START + 1000}.5 offset 2m", "offset 2m @ end()",
        "@ 0", "offset 100d", "offset step()", "offset (step() * 2)", "offset -(30s + 30s)", "offset min_of(1m, step())", "offset (range() / 2)", "offset (2 ^ 3)",
        "offset 60 + 1", "offset (7m % 4m)", "anchored", "smoothed", "smoothed offset 3m", f"smoothed @ {START + 999}"])
    # Functions of ranges.
    over_time = ["avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time", "stddev_over_time", "stdvar_over_time", "last_over_time",
                 "first_over_time", "present_over_time", "absent_over_time", "mad_over_time", "ts_of_max_over_time", "ts_of_min_over_time", "ts_of_first_over_time",
                 "ts_of_last_over_time", "integral", "changes", "resets", "delta", "idelta", "deriv", "rate", "irate", "increase"]
    found += each("FUNCTION(SERIES[RANGE])", FUNCTION=over_time, SERIES=[gauge, counter, "special"], RANGE=["1m", "5m", "1h"])
    found += each("FUNCTION(short_total[10m])", FUNCTION=over_time)
    found += each("FUNCTION((temperature > 0)[20m:2m])", FUNCTION=over_time)
    found += each("rate(requests_total[RANGE])", RANGE=["60", "2m+30s", "step()", "range()", "max_of(step(), 3m)", "1h/4", "2 * (1m + 30s)", "1m offset 5m", "1m @ end()",
                                                      "0", "-1m", "1m - 1m", "1m/0", "5m offset -1m"])
    found += each("FUNCTION(requests_total[RANGE] anchored)", FUNCTION=["rate", "increase", "delta", "changes", "resets", "avg_over_time"], RANGE=["1m", "7m"])
    found += each("FUNCTION(requests_total[RANGE] smoothed)", FUNCTION=["rate", "increase", "delta", "changes"], RANGE=["1m", "7m"])
    found += each("quantile_over_time(Q, temperature[15m])", Q=["0", "0.25", "0.5", "1", "-1", "1.5", "NaN"])
    found += each("predict_linear(temperature[15m], T)", T=["0", "600", "-600", "time() - time()"])
    found += each("double_exponential_smoothing(temperature[15m], S, T)", S=["0.1", "0.9", "0", "1.5"], T=["0.3", "0.8"])
    found += each("integral(temperature[15m], S)", S=["0", "1", "2", "3", "0.5"])
    # Functions of values, labels, times.
    math_functions = ["abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin",
                      "sinh", "tan", "tanh", "deg", "rad"]
    found += each("FUNCTION(SERIES)", FUNCTION=math_functions, SERIES=[gauge, "special"])
    dates = ["day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year"]
    found += each("FUNCTION(ARGUMENT)", FUNCTION=dates, ARGUMENT=["", "seconds", "special"])
    found += each("round(SERIES ARGUMENT)", SERIES=[gauge, "special"], ARGUMENT=["", ", 0.5", ", 10", ", -1", ", 0"])
    found += ["clamp(temperature, -5, 5)", "clamp(temperature, 5, -5)", "clamp(special, NaN, 1)", "clamp_min(temperature, 3)", "clamp_max(special, 1)"]
    found += ["time()", "pi()", "vector(1)", "vector(time())", "scalar(constant)", "scalar(temperature)", "scalar(missing)", "start()", "end()", "step()", "range()",
              "min_of(1, 2)", "max_of(1, NaN)", "timestamp(temperature)", "timestamp(temperature offset 2m)", "timestamp(-temperature)", "timestamp(vector(1))"]
    found += ["absent(missing)", "absent(temperature)", 'absent(missing{a="1", b=~"x", c="2"})', "absent(sum(missing))", 'absent(missing{a="1", a="2"})',
              'absent_over_time(missing{a="1"}[5m])', "absent_over_time(sum(missing)[5m:])"]
    found += ["sort(temperature)", "sort_desc(temperature)", "sort(special)", 'sort_by_label(release, "version")', 'sort_by_label_desc(release, "version")',
              'sort_by_label(temperature, "zone", "job")']
    found += each("label_replace(temperature, ARGUMENTS)", ARGUMENTS=[
        '"to", "$1-x", "instance", "(.*):.*"', '"to", "${name}", "job", "(?P<name>a)pi"', '"job", "", "job", "api"', '"to", "all", "", ""', '"zone", "same", "", ".*"',
        '"__name__", "renamed", "", ""', '"", "x", "", ""', '"to", "$1", "job", "("', '"to", "$2", "job", "(.*)"',
        '"to", "$1x $1é ${1 ${1-} $01 $0 $$", "job", "(a).*"', '"to", "$1", "instance", "(\\\\w+):\\\\d"', '"to", "$1", "instance", "([[a]):{?\\\\d"'])
    found += each("label_join(temperature, ARGUMENTS)", ARGUMENTS=['"to", "-", "job", "instance"', '"to", "", "job"', '"job", "/", "zone", "missing"', '"zone", ""', '"", "-", "job"'])
    found += ["info(requests_total)", 'info(requests_total, {zone="here"})', 'info(requests_total, {edition="2"})', 'info(requests_total, {__name__="build_info"})',
              'info(requests_total, {__name__=~".+_info"})', 'info(requests_total, {missing="x"})', 'info(requests_total, {missing=~".*"})', "info(target_info)",
              "info(rate(requests_total[5m]))", "info(requests_total offset 1h)", "info(requests_total @ start())", "info(constant)", "info(sum by (job) (requests_total))",
              'info(requests_total, build_info{})', "info(requests_total, 1)", 'info(requests_total, {__name__!="target_info"})']
    # Histograms.
    histograms = ["latency_bucket", "signed_bucket", "broken_bucket", "open_bucket", "rate(latency_bucket[5m])", "sum by (le, job) (rate(latency_bucket[5m]))", gauge]
    found += each("histogram_quantile(Q, SERIES)", Q=["0", "0.5", "0.99", "1", "1.1", "NaN"], SERIES=histograms)
    found += each("histogram_fraction(FROM, TO, SERIES)", FROM=["0", "-Inf", "0.3"], TO=["1", "+Inf"], SERIES=histograms)
    found += ['histogram_quantiles(latency_bucket, "q", 0.1, 0.5, 0.9)', 'histogram_quantiles(broken_bucket, "q", 0.5, 2)']
    # Over a range, more warnings than are shown.
    found += ["histogram_quantile(time(), latency_bucket)"]
    # Aggregations.
    aggregations = ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]
    groupings = ["", "by (job)", "by (job, zone)", "by ()", "without (job)", "without (instance, zone)", "by (missing)", 'by ("job")', "without ()"]
    found += each("OPERATOR GROUPING (SERIES)", OPERATOR=aggregations, GROUPING=groupings, SERIES=[gauge])
    found += each("OPERATOR(SERIES)", OPERATOR=aggregations, SERIES=["special", "missing", "requests_total > 1000", "vector(1)"])
    found += each("OPERATOR GROUPING (2, temperature)", OPERATOR=["topk", "bottomk", "limitk"], GROUPING=["", "by (job)", "without (zone)"])
    found += each("OPERATOR(K, temperature)", OPERATOR=["topk", "bottomk", "limitk"], K=["0", "-1", "1.9", "100", "NaN", "Inf", "scalar(constant)"])
    found += each("limit_ratio(R, temperature)", R=["0", "0.5", "-0.5", "1", "-1", "2", "-2", "NaN"])
    found += each("quantile GROUPING (Q, temperature)", Q=["0", "0.5", "0.9", "1", "2", "-1", "NaN"], GROUPING=["", "by (job)"])
    found += ['count_values("value", release)', 'count_values by (job) ("value", round(temperature))', 'count_values("job", constant)', 'count_values("", constant)',
              'count_values without (version) ("version", release)']
    # Operators.
    arithmetic = ["+", "-", "*", "/", "%", "^", "atan2"]
    comparisons = ["==", "!=", "<", "<=", ">", ">="]
    found += each("LEFT OPERATOR RIGHT", OPERATOR=arithmetic, LEFT=["temperature", "3", "special"], RIGHT=["-2", "temperature"])
    found += each("temperature OPERATOR MODIFIER 5", OPERATOR=comparisons, MODIFIER=["", "bool"])
    found += each("temperature OPERATOR MODIFIER temperature offset 5m", OPERATOR=comparisons, MODIFIER=["", "bool"])
    found += each("2 OPERATOR bool 3", OPERATOR=comparisons)
    found += each("1 OPERATOR 2", OPERATOR=[*arithmetic, "==", "and"])
    one = "sum by (job, instance) (requests_total)"
    found += each("requests_total OPERATOR MATCHING ONE", OPERATOR=["/", "> bool", "<", "atan2"], ONE=[one], MATCHING=[
        "on (job, instance) group_left", "ignoring (code) group_left", "on (job, instance)", "ignoring (code)", "on (job) group_left", "", "on ()"])
    found += each("ONE OPERATOR MATCHING requests_total", OPERATOR=["*", ">="], ONE=[one], MATCHING=["on (job, instance) group_right", "ignoring (code) group_right ()"])
    found += ["requests_total * on (job, instance) group_left (edition, zone) target_info", "temperature * on (job, instance) group_left (edition) target_info",
              "target_info * on (job, instance) group_right (edition) requests_total", "requests_total / on (job) group_left (job) " + one]
    found += each('sum by (code) (requests_total) OPERATOR FILL sum by (code) (requests_total{code!="200", job="api"})', OPERATOR=["+", ">", "== bool"],
                  FILL=["fill (0)", "fill_left (1)", "fill_right (2)", "fill_left (1) fill_right (-2)", "fill (NaN)"])
    found += each("temperature OPERATOR MATCHING (temperature > 5)", OPERATOR=["and", "or", "unless"], MATCHING=["", "on (job)", "ignoring (zone)", "on ()", "on (job) group_left"])
    found += ["-temperature", "+temperature", "-(1)", "--1", "-2 ^ 2", "2 ^ 3 ^ 2", "-temperature ^ 2", "1 + 2 * 3 % 4", "temperature or vector(0)", "vector(1) == 1",
              "temperature > 0 < 10 or constant unless special", "(temperature)", "((1 + 2)) * constant", "1 == bool 1 + 1"]
    # Subqueries.
    found += each("FUNCTION(SERIES[RANGE])", FUNCTION=["avg_over_time", "max_over_time", "rate"], SERIES=["requests_total", "sum(requests_total)", "rate(requests_total[2m])"],
                  RANGE=["10m:", "10m:30s", "10m:7m", "10m:1m] offset 3m[1m:", "step()*3:step()"])
    found += ["max_over_time(rate(requests_total[1m])[10m:1m] offset 5m)", "max_over_time(rate(requests_total[1m])[10m:1m] @ end())", "max_over_time(time()[5m:])",
              "max_over_time(max_over_time(temperature[2m])[5m:1m])", "max_over_time((temperature @ start())[5m:])", "sum_over_time(vector(1)[1m:0s])", "temperature[5m]",
              "temperature[5m:1m]", "requests_total[2m] anchored", "requests_total[2m] smoothed", "sum(temperature)[5m]", "(temperature)[5m:]"]
    # What has no meaning.
    found += ["", "sum(", "sum()", "sum(1)", "sum(temperature, 1)", "topk(temperature)", "rate(temperature)", "rate(temperature[5m:][5m])", "nonsense(1)", "abs()", "abs(1)",
              "abs(temperature, 1)", "temperature{", "temperature{a}", "temperature{a=}", 'temperature{a="', "temperature[", "temperature[5]]", "temperature[5m", "1 +", "+",
              "temperature temperature", "temperature offset", "temperature offset 1m offset 1m", "temperature @", "temperature @ x", "temperature @ 1 @ 2", "1 offset 1m",
              "temperature + on temperature", "temperature + on (job) group_left (job) temperature", "temperature > bool", "temperature + bool 1", "temperature and 1",
              '"a" + "b"', "temperature[5m] + 1", "-temperature[5m]", "sum by (1) (temperature)", "sum by (job (temperature)", "1 fill (0) 2", "temperature !", "temperature $",
              "temperature{a=~\"(\"}", "@", "{a=\"\"}", "temperature{__name__=\"x\"}", "5m5", "1e", "0x", "temperature[5m1h]", "label_join(temperature, 1, 2)", "time(1)",
              "sum without by (temperature)", "topk(\"a\", temperature)", "count_values(1, temperature)", "quantile(temperature, temperature)", "temperature == ~", "a:b{c:d=\"1\"}",
              "temperature anchored smoothed", "max_over_time(temperature[5m] anchored)", "sum(temperature anchored)", "(1 + 2", "1 + 2)", "temperature[1m:1m:1m]"]
    return list(dict.fromkeys(found))
