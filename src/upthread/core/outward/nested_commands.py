"""Commands that run others: `sudo git push`, `sh -c '…'`, `find -exec`, `git rebase --exec`. Pure.

Each is read here by the words that follow, as its own program reads them. Variables, functions,
aliases and text that is written into a shell are not followed: a line that uses them is not
understood, so it does not run while an action is in doubt (repeatable.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from upthread.core.lazy_regex import regex

Word: TypeAlias = str | None

SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})

MAKES: Final = frozenset({"gmake", "just", "make"})
PACKAGERS: Final = frozenset({"bun", "npm", "pnpm", "yarn"})
TASK_RUNNERS: Final = (
    MAKES
    | PACKAGERS
    | {"ant", "bundle", "cap", "composer", "fab", "gradle", "grunt", "gulp", "inv", "invoke"}
    | {"mage", "mise", "mix", "moon", "mvn", "ninja", "nox", "nx", "rake", "task", "tox", "turbo"}
    | {"act", "deno", "lefthook", "nix", "pre-commit"}
)
"""Programs that run what a project calls a task, by its name."""

DRY_RUNS: Final = frozenset(
    {"-n", "--dry-run", "--just-print", "--recon", "--list", "-l", "--version"}
)
"""Options by which those only tell; those of PACKAGERS have other meanings."""

HOLE: Final = "\ue000"
"""Stands in a text for what only running it would tell: a word that has one is not known."""

_OPTIONS_WITH_VALUE: Final[dict[str, frozenset[str]]] = {
    "builtin": frozenset(),
    "caffeinate": frozenset({"-t", "-w"}),
    "chronic": frozenset(),
    "chrt": frozenset({"-T", "-P", "-D"}),
    "command": frozenset(),
    "coproc": frozenset(),
    "dbus-run-session": frozenset(),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"}),
    "exec": frozenset({"-a"}),
    "flock": frozenset({"-w", "--timeout", "-E"}),
    "ionice": frozenset({"-c", "-n"}),
    "ltrace": frozenset({"-e", "-o"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "nohup": frozenset(),
    "parallel": frozenset({"-j", "--jobs", "-I", "-N", "-a"}),
    "setsid": frozenset(),
    "ssh-agent": frozenset({"-a", "-t"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "strace": frozenset({"-e", "-o", "-s", "-P"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "--user", "--group", "--chdir"}),
    "taskset": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "timeout": frozenset({"-k", "-s", "--kill-after", "--signal"}),
    "watch": frozenset({"-n", "--interval"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"}),
}
"""The programs that run the command after their own options, and which options take a word."""

_OPERAND_FIRST: Final = frozenset({"chrt", "flock", "taskset", "timeout"})
"""Those that take one word of their own before the command."""

ASSIGNED: Final = regex(r"[A-Za-z_]\w*=")
ASSIGNING: Final = frozenset({"doas", "env", "sudo"})
"""Those that take `NAME=value` before the command."""

_COMMAND_OPTION: Final = regex(r"-[a-zA-Z]*c[a-zA-Z]*")


def name_of(word: Word) -> str:
    """Return a program's name, whatever path leads to it."""
    return (word or "").rpartition("/")[2]


def as_line(words: Sequence[Word]) -> str:
    """Return words as a line of shell that has them as they are."""
    return " ".join(HOLE if word is None else shlex.quote(word) for word in words)


def unwrapped(words: tuple[Word, ...]) -> str | tuple[Word, ...]:
    """Return what a command runs: a line of shell to be read, else its own words."""
    if (split := _split_by_env(words)) is not None:
        return split
    words = without_wrapper(words)
    name = name_of(words[0]) if words else ""
    if name == "eval":
        return " ".join(HOLE if word is None else word for word in words[1:])
    if name == "trap":
        return _first_known(words[1:]) if len(words) > 2 else words
    if name == "-c":  # `flock FILE -c LINE`
        return _first_known(words[1:])
    if name == "busybox":
        # `busybox sh -c …` is the shell that its first operand names.
        words, name = words[1:], name_of(words[1]) if words[1:] else ""
    if name in SHELLS or name == "script":
        for at, word in enumerate(words[1:], 1):
            if word and _COMMAND_OPTION.fullmatch(word):
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
        while name in ASSIGNING and at < len(words) and ASSIGNED.match(words[at] or ""):
            at += 1
        words = words[at:]
    return words


def lines_run_by(words: tuple[Word, ...]) -> Iterator[str]:
    """Yield lines of shell that a command runs beside what it is itself."""
    name = name_of(words[0]) if words else ""
    if name == "find":
        yield from _run_by_find(words)
    elif name in {"npm", "npx", "pnpm"}:
        calls = (at for at, word in enumerate(words) if word in {"-c", "--call"})
        yield from (_first_known(words[at + 1 :]) for at in calls)
    elif name == "git":
        yield from _run_by_git(words)


def git_verb(words: Sequence[Word]) -> int:
    """Return where the verb of a `git` command stands; its length where there is none."""
    at = 1
    while at < len(words) and ((word := words[at]) or "").startswith("-"):
        at += 2 if word in _GIT_TAKING else 1
    return at


_GIT_TAKING: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)


def _run_by_find(words: tuple[Word, ...]) -> Iterator[str]:
    starts = [at for at, word in enumerate(words) if word in {"-exec", "-execdir", "-ok", "-okdir"}]
    for at in starts:
        rest = words[at + 1 :]
        end = next((i for i, word in enumerate(rest) if word in {";", "+"}), len(rest))
        # What is found stands there, which only running it would tell.
        yield as_line([None if word and "{}" in word else word for word in rest[:end]])


def _run_by_git(words: tuple[Word, ...]) -> Iterator[str]:
    at = git_verb(words)
    verb, rest = (words[at] if at < len(words) else None), words[at + 1 :]
    if verb == "rebase":
        for i, word in enumerate(rest):
            if word in {"--exec", "-x"}:
                yield _first_known(rest[i + 1 :])
            elif word and (found := re.match(r"--exec=|-x", word)):
                yield word[found.end() :]
    elif (verb, rest[:1]) == ("bisect", ("run",)):
        yield as_line(rest[1:])
    elif (verb, rest[:1]) == ("submodule", ("foreach",)):
        run = [word for word in rest[1:] if word not in {"--recursive", "-q", "--quiet"}]
        yield _first_known(run) if len(run) == 1 else as_line(run)


def _split_by_env(words: tuple[Word, ...]) -> str | None:
    """Return what `env -S LINE` runs, None where that is not said."""
    if not words or name_of(words[0]) != "env":
        return None
    for at, word in enumerate(words):
        if word in {"-S", "--split-string"}:
            return f"{_first_known(words[at + 1 :])} {as_line(words[at + 2 :])}"
        if word and (found := re.match(r"-S(?=.)|--split-string=", word)):
            return f"{word[found.end() :]} {as_line(words[at + 1 :])}"
    return None


def _first_known(words: Sequence[Word]) -> str:
    """Return the first word, a hole where it is not known, empty where there is none."""
    return "".join(HOLE if word is None else word for word in words[:1])
