"""Commands that run others, and what a line of shell says of its own names. Pure.

`sudo git push`, `sh -c '…'`, `find -exec`, `git rebase --exec`, an alias: each is told here by the
words that come after, as its own program reads them. A variable, a function, an alias, what is
echoed: known where the whole line gives it one value in plain words, and nothing in it reads or
adds to it. What else may have happened to it is why a command is told without as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from upthread.core.lazy_dataclass import dataclass, field, replace
from upthread.core.lazy_regex import regex

if TYPE_CHECKING:
    from tree_sitter import Node


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


_GIT_ALIAS: Final = regex(r"alias\.([^=]+)=(.*)", re.DOTALL)
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


# --- variables, functions, aliases, what is echoed ------------------------------------------------


Source: TypeAlias = Callable[["Node"], str]

_NOT_PLAIN: Final = regex(r"""[\s;&|()<>$`"'\\*?\[\]{}~#!]""")
_NAME: Final = regex(r"\$\{?([A-Za-z_]\w*|[@*]|\d)(?::?[-=+?][^}]*)?\}?")
_DEFAULT: Final = regex(r"\$\{[A-Za-z_]\w*:?[-=]([^}$`]*)\}")
_WHICH: Final = regex(r"(?:\$\(|`)\s*(?:which|command -v|type -[pP])\s+([\w./+-]+)\s*(?:\)|`)")
_FORMAT: Final = regex(r"%(?:%|[-0-9.]*([bdqsu]))")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\\": "\\", r"\"": '"', r"\'": "'"}
_ESCAPE: Final = regex(r"""\\[nt\\"']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known where a command stands. `arguments` are `$1` and so on, None for one unknown.

    `functions` have their bodies; `aliases` those of the shell, and those of git as `git NAME`;
    `entered` are the calls of functions that this is within.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[Word, ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    entered: frozenset[tuple[Word, ...]] = frozenset()

    def with_alias(self, name: str, value: str) -> Known:
        """Return this with one alias more."""
        return replace(self, aliases={**self.aliases, name: value})

    def without_alias(self, words: tuple[Word, ...]) -> Known:
        """Return this without the aliases that a command's words begin with: none runs itself."""
        left = {name: value for name, value in self.aliases.items() if name != words[0]}
        return replace(self, aliases=left)

    def value_of(self, node: Node, source: Source) -> str | None:
        """Return what a variable or a default stands for, None where that is not known."""
        text = source(node).lstrip()
        if found := _WHICH.fullmatch(text):
            return found[1]
        found = _NAME.fullmatch(text)
        if found and found[1] in {"@", "*"}:
            told = [HOLE if word is None else word for word in self.arguments]
            return " ".join(told) if told else None
        if found and found[1].isdigit():
            at = int(found[1]) - 1
            return self.arguments[at] if 0 <= at < len(self.arguments) else None
        if found and found[1] in self.values:
            return self.values[found[1]]
        default = _DEFAULT.fullmatch(text)
        return default[1] if default else None

    def words_of(self, node: Node, source: Source) -> tuple[Word, ...] | None:
        """Return the words that a value becomes, None where it becomes one or is not known."""
        if source(node) in {'"$@"', '"${@}"'}:
            return self.arguments or None
        if node.type not in {"simple_expansion", "expansion"}:
            return None
        value = self.value_of(node, source)
        return None if value is None else tuple(value.split())


def known_in(root: Node, outside: Known, source: Source) -> Known:
    """Return what a line says of its names, beside what is known around it."""
    said: dict[str, set[str | None]] = {}
    functions = dict(outside.functions)
    arguments = outside.arguments
    for node in _all(root):
        for name, value in _said_of_variables(node, source):
            said.setdefault(name, set()).add(value)
        if node.type == "function_definition" and (body := node.child_by_field_name("body")):
            functions[source(node.named_children[0])] = source(body)
        words = source(node).split() if node.type == "command" else []
        if words[:2] == ["set", "--"]:
            arguments = tuple(_literal(word) for word in words[2:])
    # What is known around it counts only where the line itself says nothing of that name.
    values = {name: value for name, value in outside.values.items() if name not in said}
    for name, each in said.items():
        (value, *others) = each
        # Two values, or one that is not told: only running it would tell which it has there.
        if value is not None and not others:
            values[name] = value
    return replace(outside, values=values, functions=functions, arguments=arguments)


def _said_of_variables(node: Node, source: Source) -> Iterator[tuple[str, str | None]]:
    """Yield the variables that a part of a line gives a value, None for one it does not say."""
    if node.type == "variable_assignment":
        name, _, text = source(node).partition("=")
        yield name.rstrip("+"), None if name.endswith("+") else _literal(text)
    elif node.type == "for_statement" and (variable := node.child_by_field_name("variable")):
        yield source(variable), None
    elif node.type == "command":
        words = source(node).split()
        if words and name_of(words[0]) in {"mapfile", "read", "readarray"}:
            yield from ((word, None) for word in words[1:])


def output_of(words: tuple[Word, ...]) -> str | None:
    """Return what `echo` or `printf` writes, None for another program."""
    name, rest = name_of(words[0]) if words else "", [HOLE if w is None else w for w in words[1:]]
    if name == "echo":
        while rest and re.fullmatch(r"-[neE]+", rest[0]):
            rest = rest[1:]
        return _unescaped(" ".join(rest))
    return _formatted(rest[0], rest[1:]) if name == "printf" and rest else None


def _formatted(text: str, arguments: list[str]) -> str:
    """Return what `printf` writes: the format again until the arguments are used up."""
    left = iter(arguments)
    places = sum(1 for found in _FORMAT.finditer(text) if found[1])
    rounds = max(1, -(-len(arguments) // places)) if places else 1
    filled = "".join(
        _FORMAT.sub(lambda found: next(left, "") if found[1] else "%", text) for _ in range(rounds)
    )
    return _unescaped(filled)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


def _literal(text: str) -> str | None:
    """Return what an assigned word says, None where only running it would tell."""
    for quote in "'\"":
        if len(text) > 1 and text[0] == text[-1] == quote and quote not in text[1:-1]:
            inside = text[1:-1]
            return None if quote == '"' and re.search(r"[$`\\]", inside) else inside
    return None if _NOT_PLAIN.search(text) else text


def _all(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.named_children)
