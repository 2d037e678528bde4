"""Git's configuration format, read as plain values: nothing is run and no include is followed.

The format as git 2.39 reads it (git-config(1), "Syntax"); a property test holds this to the real
git. Hooks load this: nothing heavy.
"""

from __future__ import annotations

import re

from upthread.boundary.git.directory_files import GitFileError, read_plain

BYTES_MAX = 1 << 20
"""How large a configuration may be that is read. Each branch adds about a hundred bytes."""

# What was matched is never given back (`++`, `*+`): a file may be made to be slow to read.
_SPACE = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)++")
_SECTION = re.compile(
    r'\[(?P<name>[A-Za-z0-9.-]+|(?=[ \t]+"))'  # without a name there must be one in quotes
    r'(?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\[^\n])*+)")?\]'
)
_ENTRY = re.compile(
    r"""(?x)(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*
    (?:=  (?:[ \t\r]|"(?:\\\n)*"|\\\n)*+  # white space before the value is no part of it
        (?P<value>(?:[ \t\r]*(?:"(?:[^"\\\n]|\\[ntb\\"\n])*"|\\[ntb\\"\n]|[^ \t\r\n"\\#;]))*+)
        [ \t\r]*(?:[#;][^\n]*)?
    )?(?=\n|\Z)"""
)
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"', "\n": ""}


class Configuration:
    """Values by `section.subsection.key`, sections and keys in lower case.

    A key without `=` is true.
    """

    def __init__(self, values: dict[str, list[str]]) -> None:
        self.values = values

    def last(self, name: str) -> str | None:
        """Return the last value, as git does, and None where there is none."""
        return self.values.get(name, [None])[-1]

    def is_true(self, name: str) -> bool:
        """Return whether a setting is on."""
        return (self.last(name) or "").lower() in {"true", "yes", "on", "1"}

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
    values: dict[str, list[str]] = {}
    section, at = "", 0
    while at < len(text):
        if found := _SPACE.match(text, at):
            pass
        elif found := _SECTION.match(text, at):
            section = found["name"].lower()
            if found["sub"] is not None:
                section += "." + re.sub(r"\\(.)", r"\1", found["sub"])
        elif section and (found := _ENTRY.match(text, at)):
            value = "true" if found["value"] is None else _unquoted(found["value"])
            values.setdefault(f"{section}.{found['key'].lower()}", []).append(value)
        else:
            raise ValueError(f"bad configuration line {text.count(chr(10), 0, at) + 1}")
        at = found.end()
    return Configuration(values)


def _unquoted(written: str) -> str:
    if '"' not in written and "\\" not in written:
        return written
    return re.sub(r'(?s)\\(.)|"', lambda found: _ESCAPED[found[1]] if found[1] else "", written)
