"""Parses a Dockerfile and executes its last stage in a tree, without a container engine. The other stages are not built."""

import dataclasses
import json
import re


@dataclasses.dataclass
class Stage:
    """`source` is what FROM names; `steps` are (instruction, text)."""

    source: str
    steps: list

    def all(self, instruction):
        return [text for name, text in self.steps if name == instruction]


def stages(text):
    """The stages of a Dockerfile in their order."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    found = []
    for line in joined.splitlines():
        name, rest = line.split(None, 1)
        if name == "FROM":
            found.append(Stage(rest.split()[0], []))
        elif found:
            found[-1].steps.append((name, rest.strip()))
    return found


def copies(stage):
    """What COPY copies: (stage or None, source, place)."""
    found = []
    for text in stage.all("COPY"):
        words = text.split()
        other = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
        found += [(other, source, words[-1]) for source in words[:-1]]
    return found


def apt_packages(stage):
    """What its steps install by apt."""
    found = []
    for text in stage.all("RUN"):
        for words in re.findall(r"apt-get install ([^&]*)", text):
            found += [word for word in words.split() if not word.startswith("-")]
    return found


def start(stage):
    """The words of ENTRYPOINT and of CMD."""
    return json.loads(stage.all("ENTRYPOINT")[-1]), json.loads(stage.all("CMD")[-1])
