"""Commands that run others, by their own words: what they hand to a shell, or start. Pure.

`sudo git push`, `sh -c '…'`, `find -exec`, `git rebase --exec`, an alias: each is told here by the
words that come after, as its own program reads them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

Word: TypeAlias = str | None

SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})

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

ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
ASSIGNING: Final = frozenset({"doas", "env", "sudo"})
"""Those that take `NAME=value` before the command."""

_COMMAND_OPTION: Final = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")


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


def arguments_of(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return what a shell is given after its line, which it has as `$1` and so on."""
    words = without_wrapper(words)
    for at, word in enumerate(words[1:], 1):
        if name_of(words[0]) in SHELLS and word and _COMMAND_OPTION.fullmatch(word):
            # Behind the line stands `$0`, which is none of them.
            return words[at + 3 :]
    return ()


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


def given_by_xargs(words: tuple[Word, ...], told: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return what `xargs` runs where it is told these words; nothing for another program."""
    if not words or name_of(words[0]) != "xargs":
        return ()
    run = without_wrapper(words)
    mark = next(
        (
            (word or "")[2:] or words[at + 1] or ""
            for at, word in enumerate(words[:-1])
            if (word or "").startswith("-I")
        ),
        "",
    )
    if not mark:
        return (*run, *told)
    told_word = told[0] if len(told) == 1 else None
    return tuple(
        (word.replace(mark, told_word) if told_word is not None else None)
        if word and mark in word
        else word
        for word in run
    )


def lines_run_by(words: tuple[Word, ...], aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield lines of shell that a command runs beside what it is itself."""
    name = name_of(words[0]) if words else ""
    if name == "find":
        yield from _run_by_find(words)
    elif name in {"npm", "npx", "pnpm"}:
        calls = (at for at, word in enumerate(words) if word in {"-c", "--call"})
        yield from (_first_known(words[at + 1 :]) for at in calls)
    elif name == "git":
        yield from _run_by_git(words, aliases)
    elif words and words[0] in aliases:
        yield f"{aliases[words[0] or '']} {as_line(words[1:])}"


def git_verb(words: Sequence[Word]) -> int:
    """Return where the verb of a `git` command stands; its length where there is none."""
    at = 1
    while at < len(words) and ((word := words[at]) or "").startswith("-"):
        at += 2 if word in _GIT_TAKING else 1
    return at


def aliases_in(words: tuple[Word, ...]) -> Iterator[tuple[str, str]]:
    """Yield the aliases that a command makes, of the shell by their name, of git by `git NAME`."""
    name = name_of(words[0]) if words else ""
    if name == "alias":
        said = (word.partition("=") for word in words[1:] if word and "=" in word)
        yield from ((alias, value) for alias, _, value in said)
    if name != "git":
        return
    for at, word in enumerate(words[:-1]):
        if word == "-c" and (found := _GIT_ALIAS.fullmatch(words[at + 1] or "")):
            yield f"git {found[1]}", found[2]
    if words[git_verb(words) :][:1] == ("config",):
        for at, word in enumerate(words[:-1]):
            if word and word.startswith("alias."):
                value = words[at + 1]
                yield f"git {word[6:]}", HOLE if value is None else value


_GIT_ALIAS: Final = re.compile(r"alias\.([^=]+)=(.*)", re.DOTALL)
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


def _run_by_git(words: tuple[Word, ...], aliases: Mapping[str, str]) -> Iterator[str]:
    at = git_verb(words)
    verb, rest = (words[at] if at < len(words) else None), words[at + 1 :]
    if (meant := aliases.get(f"git {verb}")) is not None:
        begin = as_line(words[:at])
        yield (
            f"{meant[1:]} {as_line(rest)}"
            # With a mark it is a line of shell, else words for git itself.
            if meant[:1] == "!"
            else (f"{begin} {meant} {as_line(rest)}")
        )
    elif verb == "rebase":
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
