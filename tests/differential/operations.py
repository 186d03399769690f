"""Random trees of the operations language of /v1/aggregates, as JSON and as text."""

COMPARISONS = ["=", "==", "eq", "<", "lt", ">", "gt", "<=", "≤", "le", ">=", "≥", "ge", "!=", "≠", "ne"]
ARITHMETIC = ["%", "mod", "+", "add", "-", "sub", "*", "×", "mul", "/", "÷", "div", "clip_min", "clip_max", "max"]
POWERS = ["**", "^", "pow"]
UNARY = ["abs", "absolute", "neg", "negative", "floor", "ceil"]
WAVES = ["cos", "sin", "tan"]
RATES = ["rateofchange", "rateofchangesec"]
PLAIN = ["mean", "median", "std", "min", "max", "sum", "var", "count"]
NUMBERS = [0, 1, 2, -1, 0.5, 3, 10, -2.5, 1e3]
SPANS = [60, 120, "5 minutes", 300, "1h", 3600.0]
# To this part of a number agree what the C library computes,
ABOUT = 1e-9
# and sums over metrics whose order is left open.
SUMS = 1e-12


class Operations:
    """`references`: what `metric` may name; `methods`: with which aggregation methods."""

    def __init__(self, rng, references, methods):
        self.rng, self.references, self.methods = rng, references, methods
        self.about = 0.0

    def tree(self, depth=3):
        """One tree that is no bare number."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self.metric()
        choice = rng.random()
        if choice < 0.35:
            return ["aggregate", self.method(), self.tree(depth - 1)]
        if choice < 0.6:
            return self.binary(depth)
        if choice < 0.66:
            operands = [rng.choice(NUMBERS) for _ in range(rng.choice([1, 2, 2]))]
            return ["clip", self.tree(depth - 1), *sorted(operands)]
        if choice < 0.76:
            name = rng.choice(UNARY + WAVES)
            self.about = max(self.about, ABOUT if name in WAVES else 0)
            return [name, self.tree(depth - 1)]
        if choice < 0.82:
            return [rng.choice(RATES), self.tree(depth - 1)]
        if choice < 0.9:
            return ["rolling", self.method(0.1), rng.choice([1, 2, 3, 5]), self.tree(depth - 1)]
        # Gnocchi takes `var` and rates here, too, and then fails.
        return ["resample", rng.choice([name for name in PLAIN if name != "var"]), rng.choice(SPANS), self.tree(depth - 1)]

    def method(self, rate=0.15):
        name = self.rng.choice(PLAIN)
        if name in ("std", "var"):
            self.about = max(self.about, ABOUT)
        return "rate:" + name if self.rng.random() < rate else name

    def metric(self):
        rng = self.rng
        pair = lambda: [rng.choice(self.references), rng.choice(self.methods)]
        if rng.random() < 0.5:
            return ["metric", *pair()]
        return ["metric", *[pair() for _ in range(rng.randint(1, 3))]]

    def binary(self, depth):
        rng = self.rng
        name = rng.choice(COMPARISONS + ARITHMETIC * 2 + POWERS)
        if name in POWERS or name in ("%", "mod"):
            self.about = max(self.about, ABOUT)
        operands = [self.tree(depth - 1), rng.choice(NUMBERS) if rng.random() < 0.6 else self.tree(depth - 1)]
        if rng.random() < 0.3:
            operands.reverse()
        return [name, *operands]


def spell(tree):
    """The tree as text."""
    if isinstance(tree, list):
        return "(" + " ".join(spell(part) for part in tree) + ")"
    return str(tree)


def can_spell(tree):
    """Whether a text can say it: words hold no spaces."""
    if isinstance(tree, list):
        return all(can_spell(part) for part in tree)
    return not isinstance(tree, str) or " " not in tree
