"""Git's configuration format, read as plain values: nothing is run and no include is followed.

The format as git 2.39 reads it (git-config(1), "Syntax"); a property test holds this to the real
git. Hooks load this: nothing heavy.
"""

from __future__ import annotations

import re

from upthread.boundary.git.directory_files import GitFileError, read_plain

BYTES_MAX = 1 << 20
"""How large a configuration may be that is read. Each branch adds about a hundred bytes."""

_SECTION = re.compile(
    r'\[(?P<name>[A-Za-z0-9.-]+|(?=[ \t]+"))'  # without a name there must be one in quotes
    r'(?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\[^\n])*)")?\]'
)
_KEY = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?P<equals>=)?")
_SPACE = re.compile(r"\s*(?:[#;][^\n]*\s*)*")
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"', "\n": ""}
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0", ""}


class Configuration:
    """Values by `section.subsection.key`, sections and keys in lower case.

    A key without `=` has the value None, which is true.
    """

    def __init__(self, values: dict[str, list[str | None]]) -> None:
        self.values = values

    def last(self, name: str) -> str | None:
        """Return the last value, as git does; None for none and for one without `=`."""
        return self.values.get(name, [None])[-1]

    def truth(self, name: str) -> bool | None:
        """Return whether a setting is on, None where it is not set or is no truth value."""
        if name not in self.values:
            return None
        text = (self.values[name][-1] or "").lower()
        if self.values[name][-1] is None or text in _TRUE:
            return True
        return False if text in _FALSE else None

    def over(self, other: Configuration) -> Configuration:
        """Return the other's values with these over them."""
        names = {**other.values, **self.values}
        return Configuration(
            # All of them, these last: of `safe.directory` and its like each value counts.
            {name: [*other.values.get(name, ()), *self.values.get(name, ())] for name in names}
        )


def read_configuration(path: str) -> Configuration:
    """Return what a configuration file holds, nothing where there is none. Raises GitFileError."""
    raw = read_plain(path, bytes_max=BYTES_MAX) or b""
    try:
        return parse(raw.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise GitFileError(f"{path}: {error}") from error


def parse(text: str) -> Configuration:
    """Return the values of a configuration. Raises ValueError where git would refuse it too."""
    # Git takes both, as some editors leave them.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in text:
        raise ValueError("a null byte in the configuration")
    values: dict[str, list[str | None]] = {}
    section, at = "", _skipped(text, 0)
    while at < len(text):
        if found := _SECTION.match(text, at):
            section, at = _section(found), found.end()
        elif section and (found := _KEY.match(text, at)):
            at = found.end()
            value: str | None = None
            if found["equals"]:
                value, at = _value(text, at)
            elif text[at : at + 1] not in {"", "\n"}:
                raise ValueError(f"bad configuration line {text.count(chr(10), 0, at) + 1}")
            values.setdefault(f"{section}.{found['key'].lower()}", []).append(value)
        else:
            raise ValueError(f"bad configuration line {text.count(chr(10), 0, at) + 1}")
        at = _skipped(text, at)
    return Configuration(values)


def _skipped(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _section(found: re.Match[str]) -> str:
    name, sub = found["name"].lower(), found["sub"]
    return name if sub is None else f"{name}." + re.sub(r"\\(.)", r"\1", sub)


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins here, and where its line ends."""
    kept: list[str] = []
    solid = 0  # how much of it is not white space that may yet be at its end
    is_quoted = False
    while at < len(text) and text[at] != "\n":
        char = text[at]
        if char == "\\":
            char, at = _escaped(text, at)
            kept.append(char)
            solid = len(kept)
        elif char == '"':
            is_quoted = not is_quoted
            solid = len(kept)
        elif char in "#;" and not is_quoted:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            break
        elif is_quoted or not char.isspace():
            kept.append(char)
            solid = len(kept)
        elif kept:
            kept.append(char)
        at += 1
    if is_quoted:
        raise ValueError("a quote is not closed in the configuration")
    return "".join(kept[:solid]), at


def _escaped(text: str, at: int) -> tuple[str, int]:
    char = _ESCAPED.get(text[at + 1 : at + 2])
    if char is None:
        raise ValueError("an escape that git does not know in the configuration")
    return char, at + 1
