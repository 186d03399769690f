"""Random queries on the series of `series`."""

from prometheus.series import MINUTES, START


class Queries:
    """Makes queries that mean the same in Prometheus 2.42 and 3."""

    def __init__(self, numbers):
        self.numbers = numbers

    def any(self, items):
        return self.numbers.choice(items)

    def duration(self):
        return self.any(["1m", "2m30s", "5m", "7m", "15m", "1h"])

    def shift(self):
        at = START + self.numbers.randrange(MINUTES * 60) + 0.5
        return self.any([""] * 6 + [" offset 3m", " offset -90s", f" @ {at}", " @ end()", " @ start() offset 1m"])

    def matchers(self, name):
        choices = ['job="api"', 'job!="web"', 'instance=~"a.*"', 'instance!~"b:[0-9]"', 'missing=""', 'missing="x"', 'job=~"api|web"',
                   'job=~".+"']
        if name == "requests_total":
            choices += ['code=~"4..|5.."', 'code="200"']
        if name == "temperature":
            choices += ['zone="süd"', 'zone=~"(nor|s).*"']
        picked = self.numbers.sample(choices, self.any([0, 0, 1, 2]))
        return "{" + ", ".join(picked) + "}" if picked else ""

    def selector(self):
        name = self.any(["requests_total", "temperature", "latency_bucket"])
        return name + self.matchers(name)

    def range(self, depth):
        if depth > 0 and self.numbers.random() < 0.25:
            return f"({self.vector(depth - 1)})[{self.any(['5m', '20m', '1h'])}:{self.any(['', '1m', '97s'])}]{self.shift()}"
        return f"{self.selector()}[{self.duration()}]{self.shift()}"

    def grouping(self):
        labels = ", ".join(self.numbers.sample(["job", "instance", "code", "zone", "le", "missing"], self.numbers.randrange(3)))
        return self.any(["", f" by ({labels})", f" without ({labels})"])

    def scalar(self, depth):
        return self.any(["1", "0.5", "-2", "3e2", "time()", "pi()", f"scalar({self.vector(depth - 1)})" if depth > 0 else "7"])

    def vector(self, depth):
        if depth <= 0:
            return self.selector() + self.shift()
        kind = self.numbers.randrange(10)
        if kind == 0:
            # How far a rate is continued to where a series begins has changed since: counters without gaps alone are the same.
            name = self.any(["requests_total", "latency_bucket"])
            return f"{self.any(['rate', 'increase'])}({name}{self.matchers(name)}[{self.duration()}]{self.shift()})"
        if kind < 3:
            function = self.any(["irate", "delta", "idelta", "deriv", "changes", "resets", "avg_over_time", "sum_over_time",
                                 "min_over_time", "max_over_time", "count_over_time", "last_over_time", "stddev_over_time",
                                 "present_over_time", "absent_over_time"])
            return f"{function}({self.range(depth)})"
        if kind == 3:
            return self.any([f"quantile_over_time({self.any(['0.5', '0.9', '0'])}, {self.range(depth)})",
                             f"predict_linear({self.selector()}[{self.duration()}], 600)"])
        if kind < 6:
            operator = self.any(["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"])
            return f"{operator}{self.grouping()} ({self.vector(depth - 1)})"
        if kind == 6:
            return self.any([f"quantile{self.grouping()} (0.7, {self.vector(depth - 1)})",
                             f"histogram_quantile(0.9, sum by (le, job) (rate(latency_bucket[{self.any(['5m', '15m'])}])))",
                             f"histogram_quantile(0.5, latency_bucket{self.matchers('latency_bucket')})",
                             f"count_values(\"v\", {self.selector()} > bool 5)"])
        if kind == 7:
            function = self.any(["abs", "ceil", "floor", "sgn", "sqrt", "ln", "hour", "day_of_week", "absent", "timestamp"])
            return f"{function}({self.vector(depth - 1)})"
        if kind == 8:
            return self.any([f"label_replace({self.vector(depth - 1)}, \"host\", \"$1\", \"instance\", \"(.*):.*\")",
                             f"clamp({self.vector(depth - 1)}, 0, 20)", f"round({self.vector(depth - 1)}, 0.5)",
                             f"label_join({self.vector(depth - 1)}, \"both\", \"-\", \"job\", \"instance\")"])
        operator = self.any(["+", "-", "*", "/", "%", ">", "<=", "== bool", "!="])
        if self.numbers.random() < 0.5:
            return f"{self.vector(depth - 1)} {operator} {self.scalar(depth)}"
        matching = self.any(["", "", " on (job, instance)", " ignoring (code, zone)", " on (job) group_left"])
        if operator in (">", "<=", "!="):
            # Whether pairs that are filtered out may be many has changed since.
            matching = ""
        return f"({self.vector(depth - 1)}) {self.any([operator + matching, 'and', 'or', 'unless'])} ({self.vector(depth - 1)})"

    def query(self):
        return self.vector(self.any([0, 1, 1, 2, 2, 3]))


class AllQueries(Queries):
    """Makes queries of all that Prometheus 3.16 has, but for native histograms."""

    def duration(self):
        return self.any([super().duration(), "2m+30s", "5m-step()", "max_of(range()/4, 1m)", "min_of(10m, 3*step())+1s", "90", "(2*1.5)*60"])

    def shift(self):
        return self.any([super().shift(), super().shift(), " offset (1m+30s)", " offset -(30s*2)", " offset step()", " @ start() offset max_of(1m, 10s)"])

    def selector(self):
        return self.any([super().selector(), super().selector(), super().selector(), '{__name__="temperature", zone!="süd"}',
                         '{__name__=~"requests_total|temperature"}', '{"latency_bucket", "le"=~"1|5"}', "odd", 'odd{job="api"}', "pressure",
                         '{__name__=~"odd|pressure", instance="a:1"}', "target_info"])

    def range(self, depth):
        if depth > 1 and self.numbers.random() < 0.2:
            function = self.any(["sum_over_time", "rate", "max_over_time", "last_over_time", "changes", "count_over_time"])
            return f"{function}({super().range(depth - 1)})[{self.any(['10m', '1h'])}:{self.any(['', '2m', '61s'])}]{self.shift()}"
        return super().range(depth)

    def number(self):
        return self.any(["time()", "start()", "end()", "step()", "range()", "hour()", "minute(vector(time()))", "-0", "Inf", "1 / 0", "2 > bool 1",
                         "max_of(step(), 30)", "(5 % 3) ^ 2"])

    def rest(self, depth):
        inner, selector = self.vector(depth - 1), self.selector() + self.shift()
        comparison = self.any([">", "<", "==", "!=", ">=", "<=", "> bool", "!= bool"])
        return self.any([
            f"-({inner})", f"-{selector}", f"{self.number()} {self.any(['+', '-', '*', '/', '%', '^'])} ({inner})", f"{self.number()} {comparison} ({inner})",
            f"absent({selector})", f"absent({inner})", f"absent_over_time({self.range(depth)})", f"({inner}) or vector({self.number()})",
            f"label_replace({inner}, \"__name__\", \"$1_x\", \"__name__\", \"(.*)\")", f"label_replace({inner}, \"__name__\", \"\", \"\", \"\")",
            f"label_replace({inner}, \"job\", \"$2$1\", \"instance\", \"(.):(.)\")", f"label_join({inner}, \"__name__\", \"_\", \"job\", \"code\")",
            f"{self.any(['sum', 'count', 'max', 'avg'])} {self.any(['by', 'without'])} (__name__, job) ({inner})",
            f"({inner}) {self.any(['and', 'unless', 'or', '+', '>'])} {self.any(['on', 'ignoring'])} (__name__, job, instance, code, zone, le) ({self.vector(depth - 1)})",
            f"({inner}) {self.any(['and', 'unless'])} on () (vector(1) {comparison} {self.number()})", f"timestamp({selector})", f"timestamp({inner})",
            f"count_values by (job) (\"{self.any(['job', 'v', '__name__'])}\", {selector})", f"{self.any(['hour', 'day_of_year', 'month'])}({inner} * 1e7)",
            f"{selector} smoothed", f"info({inner}, {{version=~\".+\"}})", f"info({selector}, {{version=\"{self.any(['1', '2', '3', ''])}\"}})",
            f"vector({self.number()})", f"scalar({inner}) {self.any(['+', '*', '/'])} {selector}", f"round({inner}, {self.any(['0.1', '-3', '0', '1e-9', '60'])})",
            f"clamp({inner}, {self.number()}, {self.any(['5', 'NaN', '1000'])})", f"sort_by_label_desc({inner}, \"job\")",
            f"double_exponential_smoothing({self.range(depth)}, {self.any(['0.5', '1', '0.1'])}, {self.any(['0.5', '0', '0.9'])})"])

    def over_time(self, depth):
        function = self.any(["first_over_time", "stdvar_over_time", "mad_over_time", "ts_of_max_over_time", "ts_of_min_over_time",
                             "ts_of_first_over_time", "ts_of_last_over_time", "integral", "rate", "increase", "deriv", "delta"])
        return self.any([
            f"{function}({self.range(depth)})", f"{function}({self.range(depth)})",
            f"double_exponential_smoothing({self.range(depth)}, 0.4, 0.7)", f"predict_linear({self.range(depth)}, {self.scalar(depth)})",
            f"quantile_over_time({self.any(['0.3', '1.5', 'NaN', '-1'])}, {self.range(depth)})", f"integral({self.range(depth)}, {self.any(['0', '1', '7'])})",
            f"{self.any(['rate', 'increase', 'delta'])}({self.selector()}[{self.duration()}] {self.any(['anchored', 'smoothed'])}{self.shift()})",
            f"{self.any(['changes', 'resets'])}({self.selector()}[{self.duration()}] anchored{self.shift()})"])

    def of_vector(self, depth):
        inner = self.vector(depth - 1)
        function = self.any(["deg", "rad", "day_of_month", "day_of_year", "days_in_month", "minute", "month", "year", "sort", "sort_desc"])
        # The last digits of these differ, which large arguments of others would make the first ones.
        inexact = self.any(["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log2", "log10", "sin", "sinh", "tan", "tanh"])
        return self.any([
            f"{function}({inner})", f"{inexact}(clamp({inner}, -5, 5))", f"clamp({inner}, 0, 10) ^ {self.any(['2', '0.5', '-1'])}", f"vector(scalar({inner}))", f"clamp_min({inner}, {self.scalar(depth)})", f"clamp_max({inner}, {self.scalar(depth)})",
            f"histogram_fraction({self.any(['0', '0.2', '-Inf'])}, {self.any(['1', '+Inf', '3'])}, {inner})",
            f"histogram_quantile({self.any(['0', '0.99', '1', '1.2', '-0.1'])}, {inner})", f"sort_by_label({inner}, \"job\", \"code\")",
            f"histogram_quantiles({inner}, \"q\", 0.5, {self.any(['0.9', '2'])})", f"info({inner})"])

    def aggregation(self, depth):
        inner = self.vector(depth - 1)
        # Which of equal values are the highest depends on the order in which series were made. No two of these are equal.
        distinct = f"pressure{self.matchers('pressure')}{self.shift()} {self.any(['', '* -2', '> 1000'])}"
        return self.any([
            f"topk{self.grouping()} ({self.any(['1', '2', '5', '0'])}, {distinct})", f"bottomk{self.grouping()} ({self.any(['1', '3'])}, {distinct})",
            f"limitk{self.grouping()} (2, {self.selector()})", f"limit_ratio{self.grouping()} ({self.any(['0.3', '-0.5', '1', '1.5'])}, {inner})",
            f"quantile{self.grouping()} ({self.any(['0', '0.5', '1.2', 'NaN'])}, {inner})", f"count_values{self.grouping()} (\"code\", round({inner}))"])

    def operation(self, depth):
        operator = self.any(["+", "-", "*", "/", "%", "atan2", "==", "!=", ">", "<", ">=", "<=", "> bool", "== bool", "<= bool"])
        matching = self.any(["", " on (job, instance)", " ignoring (code, zone, le)", " on (job) group_left ()", " on (job, instance) group_left (zone)",
                             " on (instance) group_right ()", " ignoring (code, zone) group_right (zone)", " on ()"])
        fill = self.any([""] * 3 + [" fill (0)", " fill_left (1)", " fill_right (-1)", " fill_left (2) fill_right (3)"])
        if self.numbers.random() < 0.3:
            set_matching = self.any(["", " on (job)", " ignoring (code, zone, le)"])
            return f"({self.vector(depth - 1)}) {self.any(['and', 'or', 'unless'])}{set_matching} ({self.vector(depth - 1)})"
        return f"({self.vector(depth - 1)}) {operator}{matching}{fill} ({self.vector(depth - 1)})"

    def vector(self, depth):
        if depth <= 0 or self.numbers.random() < 0.4:
            return super().vector(depth)
        return self.any([self.over_time, self.of_vector, self.aggregation, self.operation, self.rest])(depth)
