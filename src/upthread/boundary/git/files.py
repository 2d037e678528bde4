"""Reads the files of a git directory: regular files, no links, bounded, and without waiting.

The configuration is read as plain values: no program runs, and no include is followed. The format
is that of git 2.39 (git-config(1), "Syntax"); a property test compares this parser with real git.

A `.git` file may name any git directory. Without a check, a folder could pass for another project
and get the conversations of that project. So the git directory has to name the folder as well,
because the author of a `.git` file may be unable to write there. For example, a linked worktree is
named by `gitdir`; a submodule and a separate git directory are named by `core.worktree`.

Hooks import this module, so it imports only the standard library.
"""

from __future__ import annotations

import os
import re
from os.path import dirname, join, realpath

from upthread.boundary import files

LINE_BYTES_MAX = 4096
"""How long a file may be that holds one line: HEAD, a reference, a pointer."""


class GitFileError(OSError):
    """A file of a repository is not what git writes there, and was not read."""


def open_plain(path: str, *, bytes_max: int) -> int | None:
    """Return a descriptor of a regular file, None where there is none. Raises GitFileError."""
    try:
        descriptor = files.direct(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise GitFileError(f"{path} cannot be read: {error}") from error
    if os.fstat(descriptor).st_size <= bytes_max:
        return descriptor
    os.close(descriptor)
    raise GitFileError(f"{path} is larger than {bytes_max} bytes")


def read_plain(path: str, *, bytes_max: int) -> bytes | None:
    """Return the content of a regular file, None where there is none. Raises GitFileError."""
    descriptor = open_plain(path, bytes_max=bytes_max)
    if descriptor is None:
        return None
    try:
        # Bounded once more: it may have grown since its size was asked.
        return files.read_all(descriptor, path, bytes_max=bytes_max)
    except OSError as error:
        raise GitFileError(f"{path} cannot be read: {error}") from error


def read_line(path: str) -> str | None:
    """Return the only line of a file, None where there is none. Raises GitFileError."""
    raw = read_plain(path, bytes_max=LINE_BYTES_MAX)
    if raw is not None and b"\0" in raw:
        raise GitFileError(f"{path} holds a null byte, which no path or name has")
    return None if raw is None else os.fsdecode(raw).rstrip("\r\n")


# --- configuration --------------------------------------------------------------------------------


BYTES_MAX = 1 << 20
"""How large a configuration may be that is read. Each branch adds about a hundred bytes."""

# What was matched is never given back (`++`, `*+`): a file may be made to be slow to read.
_SPACE = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)++")
_SECTION = re.compile(
    r'\[(?P<name>[A-Za-z0-9.-]+|(?=[ \t]+"))'  # without a name there must be one in quotes
    r'(?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\[^\n])*+)")?\]'
)
# Nothing possessive here: before Python 3.11.5 such a group keeps what it tried in vain. A value
# cannot begin with what may stand before it, so that nothing is tried twice.
_ENTRY = re.compile(
    r"""(?x)(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*
    (?:=  (?:[ \t\r]|"(?:\\\n)*"|\\\n)*(?![ \t\r]|"(?:\\\n)*"|\\\n)  # before it
        (?P<value>(?:[ \t\r]*(?:"(?:[^"\\\n]|\\[ntb\\"\n])*"|\\[ntb\\"\n]|[^ \t\r\n"\\#;]))*)
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


# --- whether a git directory and a working tree name each other -----------------------------------


_NAMES = "gitdir: "


def named_in(dot_git: str) -> str | None:
    """Return the git directory that a `.git` file names, None where it is no such file.

    Raises GitFileError.
    """
    line = read_line(dot_git)
    if line is None or not line.startswith(_NAMES):
        return None
    return realpath(join(dirname(dot_git), line.removeprefix(_NAMES)))


def common_of(git_directory: str) -> str | None:
    """Return the directory that a git directory shares, itself for a main one.

    None where it names one that is not above it, where git keeps linked worktrees. Raises
    GitFileError.
    """
    named = read_line(join(git_directory, "commondir"))
    if named is None:
        return git_directory
    common = realpath(join(git_directory, named))
    kept_at = dirname(realpath(git_directory))
    return common if kept_at == join(common, "worktrees") else None


def points_back(git_directory: str, top: str) -> bool:
    """Whether a git directory that is not in a folder names it. Raises GitFileError."""
    dot_git = read_line(join(git_directory, "gitdir"))
    # A linked tree's record names its `.git` file, all others the folder itself.
    if dot_git is not None:
        named = join(git_directory, dirname(dot_git))
    else:
        configuration = read_configuration(join(git_directory, "config"))
        named = join(git_directory, configuration.last("core.worktree") or ".")
    return realpath(named) == realpath(top)
