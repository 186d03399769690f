"""Parses systemd's units, and starts them as systemd would where it is not running."""

import configparser
import shlex


def read(*texts):
    """The keys of [Unit], [Service] and [Install], each with a list of values in the order of the texts."""
    found = {}
    for text in texts:
        section = None
        for line in text.splitlines():
            line = line.strip()
            if line.startswith("["):
                section = found.setdefault(line.strip("[]"), {})
            elif line and not line.startswith(("#", ";")):
                key, value = line.split("=", 1)
                section.setdefault(key, []).append(value)
    return found


def environment(text):
    """An environment file's variables."""
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str
    parser.read_string("[all]\n" + text)
    return dict(parser["all"])


def start_words(unit, variables):
    """The words of ExecStart; `$NAME` as a word of its own is as many words as the variable has."""
    words = []
    for word in shlex.split(unit["Service"]["ExecStart"][-1]):
        words += shlex.split(variables.get(word[1:], "")) if word.startswith("$") else [word]
    return words
