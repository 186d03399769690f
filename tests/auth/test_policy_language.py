"""Random rules, evaluated by gnudi and by oslo.policy: the same decisions.

Invalid rules, which gnudi refuses to load, are not compared. oslo.policy denies, fails, or evaluates them all the same: a check that it
cannot parse denies, so that its negation allows everything. Valid rules must not be refused.
"""

import json
import logging
import random
import subprocess

import pytest
from oslo_config import cfg
from oslo_policy import _parser, policy
from support.gnudi import example

ROUNDS = 1500
QUESTIONS = 12

ROLES = ["admin", "service", "Member", "reader", "\u00c9tranger"]
VALUES = ["p1", "p2", "u1", "u1:p1", "", "None", "True", "5", "1.5", "admin", "\u00e9"]
NAMES = ["a", "b", "c", "d e", "default", "missing"]
ATTRIBUTES = ["project_id", "creator", "resource.project_id", "enabled", "none", "absent", "number"]
FIELDS = ["project_id", "user", "user_id", "roles", "nothing", "inner.x", "inner.list", "inner.objects.x", "is_admin", "flag"]
LITERALS = ["'p1'", '"admin"', "True", "False", "None", "5", "-7", "1.5", "''", "'\u00e9'"]


@pytest.fixture(scope="module")
def program():
    process = subprocess.Popen([example("gnudi-api", "policy")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.stdin.close()
    assert process.wait(timeout=60) == 0


def right(rng):
    """What stands behind a colon."""
    return rng.choice(
        [
            lambda: f"%({rng.choice(ATTRIBUTES)})s",
            lambda: f"%({rng.choice(ATTRIBUTES)})s",
            lambda: rng.choice([value for value in VALUES if value]),
            lambda: f"u1:%({rng.choice(ATTRIBUTES)})s",
            lambda: f"%({rng.choice(ATTRIBUTES)})s%({rng.choice(ATTRIBUTES)})s",
            lambda: "100%%",
        ]
    )()


def check(rng, names):
    kind = rng.random()
    if kind < 0.1:
        return rng.choice("@!")
    if kind < 0.35:
        return f"role:{rng.choice([rng.choice(ROLES), rng.choice(ROLES).upper(), right(rng)])}"
    if kind < 0.55:
        return f"rule:{rng.choice(names)}"
    if kind < 0.7:
        return f"{rng.choice(LITERALS)}:{right(rng)}"
    return f"{rng.choice(FIELDS)}:{right(rng)}"


def expression(rng, names, depth):
    if depth == 0 or rng.random() < 0.3:
        return check(rng, names)
    kind = rng.random()
    if kind < 0.2:
        return f"{rng.choice(['not', 'NOT'])} {expression(rng, names, depth - 1)}"
    if kind < 0.45:
        space = rng.choice(["", " "])
        return f"({space}{expression(rng, names, depth - 1)}{space})"
    word = rng.choice([" and ", " or ", " AND ", "\tOr  "])
    return word.join(expression(rng, names, depth - 1) for _ in range(rng.randrange(2, 4)))


def broken(rng, text):
    """The text with a small fault, or none."""
    if not text or rng.random() < 0.6:
        return text
    at = rng.randrange(len(text))
    return rng.choice([text[:at] + text[at + 1:], text[:at] + rng.choice("()% :'!@") + text[at:], text + " or", text + " a"])


def rule(rng, names, may_break):
    if rng.random() < 0.15:
        several = lambda: [check(rng, names) for _ in range(rng.randrange(1, 3))]
        return [rng.choice([check(rng, names), several()]) for _ in range(rng.randrange(3))]
    if rng.random() < 0.05:
        return ""
    named = [name for name in names if " " not in name]
    if not named:
        return "role:admin"
    text = expression(rng, named, rng.randrange(4))
    return broken(rng, text) if may_break else text


def rules(rng):
    """Rules that refer to those behind them, now and then to any, and now and then with a fault."""
    names = NAMES[:5]
    rng.shuffle(names)
    circles, faults = rng.random() < 0.1, rng.random() < 0.3
    found = {}
    for index, name in enumerate(names):
        # What stands for missing rules must not refer to one: that would be a circle.
        behind = names if circles else names[index + 1:] + (["missing"] if "default" in names[index + 1:] else [])
        found[name] = rule(rng, behind, faults) if behind else rng.choice(["", "!", "role:admin"])
    return found, circles or faults


def facts(rng):
    credentials = {"roles": rng.sample(ROLES, rng.randrange(4))} if rng.random() < 0.9 else {}
    for field in ["project_id", "user", "user_id"]:
        if rng.random() < 0.8:
            credentials[field] = rng.choice([*VALUES, None])
    if rng.random() < 0.5:
        credentials["is_admin"] = rng.random() < 0.5
        credentials["flag"] = rng.choice([5, 1.5, "5", None])
    if rng.random() < 0.5:
        credentials["inner"] = {"x": rng.choice(VALUES), "list": rng.sample(VALUES, 2), "objects": [{"x": rng.choice(VALUES)}, {}]}
    target = {}
    for name in ATTRIBUTES:
        if name != "absent" and rng.random() < 0.8:
            target[name] = {"none": None, "enabled": rng.random() < 0.5, "number": rng.choice([5, 1.5, 100.0])}.get(name, rng.choice(VALUES))
    return credentials, target


class Faults(logging.Handler):
    """Whether oslo.policy has complained of a rule that it does not understand."""

    def __init__(self):
        super().__init__()
        self.seen = False

    def emit(self, record):
        self.seen = True


def oslo(found, default, asked):
    """The answers of oslo.policy, `?` for exceptions; and whether it has complained of a rule."""
    faults = Faults()
    _parser.LOG.addHandler(faults)
    propagate, _parser.LOG.propagate = _parser.LOG.propagate, False
    try:
        enforcer = policy.Enforcer(cfg.ConfigOpts(), default_rule=default, use_conf=False)
        enforcer.set_rules(policy.Rules.from_dict(found, default))
    finally:
        _parser.LOG.removeHandler(faults)
        _parser.LOG.propagate = propagate
    answers = ""
    for name, credentials, target in asked:
        try:
            answers += "+" if enforcer.enforce(name, target, dict(credentials)) else "-"
        except Exception:  # pylint: disable=broad-except
            answers += "?"
    return answers, faults.seen


def test_answers_are_those_of_oslo_policy(program, seed, rounds):
    rng = random.Random(seed)
    compared, refused, allowed = 0, 0, 0
    for _ in range(rounds):
        found, is_suspect = rules(rng)
        asked = [[rng.choice(list(found)), *facts(rng)] for _ in range(QUESTIONS)]
        expected, complained = oslo(found, "default", asked)
        program.stdin.write(json.dumps({"rules": found, "default": "default", "asked": asked}) + "\n")
        program.stdin.flush()
        answers = program.stdout.readline().rstrip("\n")
        if answers.startswith("refused"):
            assert is_suspect, (found, answers)
            refused += 1
            continue
        assert not complained, f"loaded, though oslo.policy does not understand it: {found}"
        for question, ours, theirs in zip(asked, answers, expected, strict=True):
            # Where oslo.policy fails (a path into a text), no answer is right but to deny, or what the rest of the rule says.
            if theirs != "?":
                assert ours == theirs, (found, question)
                compared += 1
                allowed += ours == "+"
    assert compared > rounds * QUESTIONS // 3 and 0.1 < allowed / compared < 0.9, (compared, allowed)
    assert refused > rounds // 50


@pytest.mark.parametrize(
    "text",
    ["http://127.0.0.1:9/%(a)s", "a", "role:x or", "(role:x", "role:x)", "role:x role:y", "'a:b'", "x:%(a)", "x:%d", "'a:%(x)s",
     " ", "()", "rule:r", "not rule:r", "[1]:%(a)s", "(" * 80 + "@" + ")" * 80],
)
def test_what_cannot_be_answered_is_refused(program, text):
    program.stdin.write(json.dumps({"rules": {"r": text}, "default": "", "asked": []}) + "\n")
    program.stdin.flush()
    assert program.stdout.readline().startswith("refused r: ")
