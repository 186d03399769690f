"""Parses the `console` blocks of docs/api.md, runs them and compares the output, or rewrites them.

A block is a list of commands (`$ ...`, continued after a backslash at the end of a line), each with its output. JSON has a readable
layout in the page, so it is compared as a value: `"..."` matches any value; ids chosen by the server and current times may differ, but
an id in the page must always correspond to the same id.
"""

import dataclasses
import datetime
import json
import re
import subprocess

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00)?")
ANYTHING = "..."
NOW_MAX_S = 3600
TIMEOUT_S = 120
WIDTH = 100


@dataclasses.dataclass
class Command:
    """A command and the lines that the page says it prints; `shown` is the command as it stands in the page."""

    shown: str
    printed: list

    @property
    def text(self):
        return self.shown[2:].replace("\n> ", "\n")


def blocks(page):
    """Every block of the page: a list of commands."""
    return [commands(match.group(1)) for match in BLOCK.finditer(page)]


def commands(text):
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line, []))
        elif line.startswith("> ") and not found[-1].printed:
            found[-1].shown += "\n" + line
        else:
            found[-1].printed.append(line)
    return found


class Session:
    """Runs commands in order. `setup` is shell that stands before each; `ids` are the page's ids with the real ones."""

    def __init__(self, setup, replacements, directory):
        self.setup, self.replacements, self.directory, self.ids = setup, replacements, directory, {}

    def run(self, command):
        """What it prints, with the page's ids."""
        text = command.text
        for mine, real in [*self.replacements.items(), *self.ids.items()]:
            text = text.replace(mine, real)
        setup = self.setup
        for mine, real in self.replacements.items():
            setup = setup.replace(mine, real)
        done = subprocess.run(["bash", "-c", f"{setup}\n{text}"], capture_output=True, text=True, timeout=TIMEOUT_S,
                              cwd=self.directory, check=False)
        printed = done.stdout + done.stderr
        for mine, real in self.replacements.items():
            printed = printed.replace(real, mine)
        return printed.splitlines()

    def differs(self, page, printed):
        """What is different between the page's lines and what a command printed, or None; learns ids."""
        wanted, got = parse(page), parse(printed)
        if len(wanted) != len(got):
            return f"{len(got)} answers, not {len(wanted)}"
        for mine, real in zip(wanted, got):
            why = self.compare(mine, real)
            if why is not None:
                return why
        return None

    def compare(self, mine, real):
        if mine == ANYTHING:
            return None
        if isinstance(mine, dict) and isinstance(real, dict):
            mine = {self.plain(key): value for key, value in mine.items()}
            if ANYTHING in mine:
                return None
            if mine.keys() != real.keys():
                return f"keys {sorted(real)}, not {sorted(mine)}"
            return next(filter(None, (self.compare(mine[key], real[key]) for key in mine)), None)
        if isinstance(mine, list) and isinstance(real, list) and len(mine) == len(real):
            return next(filter(None, map(self.compare, mine, real)), None)
        if isinstance(mine, str) and isinstance(real, str):
            return self.compare_texts(mine, real)
        return None if mine == real and type(mine) is type(real) else f"{real!r}, not {mine!r}"

    def compare_texts(self, mine, real):
        for id, real_id in zip(ID.findall(mine), ID.findall(real)):
            # An id that the page's author chose is the same here; the others are learnt.
            if id != real_id and id not in self.ids and real_id not in self.ids.values():
                self.ids[id] = real_id
        times = zip(TIME.findall(mine), TIME.findall(real))
        mine = self.plain(mine)
        for time, real_time in times:
            if is_now(real_time):
                mine = mine.replace(time, real_time)
        return None if mine == real else f"{real!r}, not {mine!r}"

    def plain(self, text):
        return ID.sub(lambda match: self.ids.get(match.group(), match.group()), text)

    def page_lines(self, old, printed):
        """What the page should say: the answer, laid out, with the page's ids and times where they only differ so."""
        if self.differs(old, printed) is None:
            return old
        lines = []
        for value in parse(printed):
            text = value if isinstance(value, str) else layout(value)
            for mine, real in self.ids.items():
                text = text.replace(real, mine)
            lines += text.splitlines()
        return lines


def is_now(text):
    moment = datetime.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
    return abs((moment - datetime.datetime.now(datetime.timezone.utc)).total_seconds()) < NOW_MAX_S


def parse(lines):
    """Lines as values: JSON where they are JSON, together as far as it goes, texts otherwise."""
    values, at = [], 0
    while at < len(lines):
        for end in range(len(lines), at, -1):
            try:
                value = json.loads("\n".join(lines[at:end]))
            except ValueError:
                continue
            if isinstance(value, (dict, list)):
                values.append(value)
                at = end
                break
        else:
            if lines[at].strip():
                values.append(lines[at])
            at += 1
    return values


def layout(value, indent=0):
    """JSON for reading: what fits in a line stays in it."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= WIDTH or not isinstance(value, (dict, list)):
        return line
    pad = "\n" + " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {layout(item, indent + 2)}" for key, item in value.items()]
        return "{" + pad + ("," + pad).join(items) + "\n" + " " * indent + "}"
    return "[" + pad + ("," + pad).join(layout(item, indent + 2) for item in value) + "\n" + " " * indent + "]"
