"""Commands that run others: `sudo git push`, `sh -c '…'`, `find -exec`, `git rebase --exec`. Pure.

Each is read here by the words that follow, as its own program reads them. Variables, functions,
aliases and text that a shell reads are not followed: a line that uses them is not
understood, so it does not run while an action is in doubt (repeatable.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

Word: TypeAlias = str | None
Row = TypeVar("Row")

SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})

HOLE: Final = "\ue000"
"""Stands in a text for what only running it would tell: a word that has one is not known."""

_WRAPPERS: Final = """
builtin:; chronic:; command:; coproc:; dbus-run-session:; nohup:; setsid:; taskset:
caffeinate: -t -w; chrt: -T -P -D; doas: -u -C; env: -u --unset -C --chdir -S --split-string
exec: -a; flock: -w --timeout -E; ionice: -c -n; ltrace: -e -o; nice: -n --adjustment
parallel: -j --jobs -I -N -a; ssh-agent: -a -t; stdbuf: -i -o -e; strace: -e -o -s -P
sudo: -u -g -h -p -C -D --user --group --chdir; time: -f -o; watch: -n --interval
timeout: -k -s --kill-after --signal; xargs: -I -n -P -L -d -a -E -s
"""
_OPTIONS_WITH_VALUE: Final = {
    name.strip(): frozenset(options.split())
    for name, _, options in (
        each.partition(":") for each in _WRAPPERS.replace("\n", ";").split(";") if each
    )
}
"""The programs that run the command after their own options, and which options take a word."""

_OPERAND_FIRST: Final = frozenset({"chrt", "flock", "taskset", "timeout"})
"""Those that take one word of their own before the command."""

ASSIGNED: Final = r"[A-Za-z_]\w*="
ASSIGNING: Final = frozenset({"doas", "env", "sudo"})
"""Those that take `NAME=value` before the command."""

_COMMAND_OPTION: Final = r"-[a-zA-Z]*c[a-zA-Z]*"


def name_of(word: Word) -> str:
    """Return a program's name, whatever path leads to it."""
    return (word or "").rpartition("/")[2]


def as_line(words: Sequence[Word]) -> str:
    """Return words as a line of shell that has them as they are."""
    return " ".join(HOLE if word is None else shlex.quote(word) for word in words)


def unwrapped(words: tuple[Word, ...]) -> str | tuple[Word, ...]:
    """Return what a command runs: a line of shell to be read, else its own words."""
    words = without_wrapper(words)
    name = name_of(words[0]) if words else ""
    if name == "eval":
        return " ".join(HOLE if word is None else word for word in words[1:])
    if name in SHELLS:
        for at, word in enumerate(words[1:], 1):
            if word and re.fullmatch(_COMMAND_OPTION, word):
                return _first_known(words[at + 1 :])
    return words


def without_wrapper(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words from the program on that is run at last."""
    while words and (taking := _OPTIONS_WITH_VALUE.get(name_of(words[0]))) is not None:
        name, at = name_of(words[0]), 1
        while at < len(words) and ((word := words[at]) or "").startswith("-"):
            # An option's own word must not be taken for the program that is run.
            at += 2 if word in taking else 1
        if name in _OPERAND_FIRST:
            at += 1
        while name in ASSIGNING and at < len(words) and re.match(ASSIGNED, words[at] or ""):
            at += 1
        words = words[at:]
    return words


def lines_run_by(words: tuple[Word, ...]) -> Iterator[str]:
    """Yield the lines of shell that `find -exec` and `git rebase --exec` run."""
    name = name_of(words[0]) if words else ""
    acting = {"find": _ACTING, "git": {"--exec", "-x"}}.get(name, frozenset[str]())
    for at, word in enumerate(words):
        if word in acting:
            rest = words[at + 1 :]
            if name == "git":
                yield _first_known(rest)
                continue
            end = next((i for i, each in enumerate(rest) if each in {";", "+"}), len(rest))
            # `find` fills in the path at run time, so the argument is unknown.
            yield as_line([None if each and "{}" in each else each for each in rest[:end]])


_ACTING: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _first_known(words: Sequence[Word]) -> str:
    """Return the first word, a hole where it is not known, empty where there is none."""
    return "".join(HOLE if word is None else word for word in words[:1])


def rows_by_name(*tables: tuple[str, Row]) -> Mapping[str, Row]:
    """Return rows by the names they are for: ("scp rsync", ROW) is a row for each of the two."""
    return {name: row for names, row in tables for name in names.split()}


def without(*options: str) -> Callable[[Sequence[str]], bool]:
    """Return whether none of these options is there, in any of its shorter forms or in a bundle."""
    letters = {each[1] for each in options if len(each) == len("-x")}
    names = [each for each in options if each.startswith("--")]

    def harmless(words: Sequence[str]) -> bool:
        for word in words:
            name = word.partition("=")[0]
            if name.startswith("--"):
                # Long options may be cut short where they are told apart: `--out` writes, too.
                if len(name) > len("--") and any(each.startswith(name) for each in names):
                    return False
            elif name.startswith("-") and letters & set(word):
                return False
        return True

    return harmless


_OF_PROJECT: Final = r"(?:.*/)?(?:node_modules/\.bin|\.?venv/bin)/([\w.-]+)|\./(gradlew|mvnw)"
_OF_SYSTEM: Final = r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/([\w.-]+)"


def program_of(word: Word) -> str:
    """Return the name of a program in no directory, or in one that programs are installed in."""
    if word is None or "/" not in word:
        return word or ""
    found = re.fullmatch(_OF_SYSTEM, word) or re.fullmatch(_OF_PROJECT, word)
    return next(filter(None, found.groups()), "") if found else ""
