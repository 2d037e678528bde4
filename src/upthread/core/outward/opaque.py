"""Commands of which the words alone do not tell what they do, and what is to be read for it. Pure.

A script, a task, code in another language, a program whose name only running the line would tell.
None of them is an outward action by itself: they only matter while one is held back. A task stands
for the commands of a target of a Makefile or a script of a package.json, read as text, never as the
program would: to find one too many costs a question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from upthread.core.lazy_regex import regex
from upthread.core.outward.nested_commands import (
    DRY_RUNS,
    MAKES,
    PACKAGERS,
    SHELLS,
    TASK_RUNNERS,
    Word,
    git_verb,
    name_of,
)
from upthread.core.outward.programs import without_starter
from upthread.core.outward.shell_commands import INTERPRETERS, ShellCommand
from upthread.core.types import JsonValue

_Fits: TypeAlias = Callable[[str, tuple[Word, ...]], bool]
Way: TypeAlias = Literal["shell", "code", "program", "make", "package"]


class Opaque(Struct, frozen=True, kw_only=True):
    """What a command runs that its words do not tell. `said` is what of them may mention an action.

    `files` are read in the way named, each by its path from where the command runs; one of several
    may be missing. `is_closed`: nothing tells what it does. `is_git`: it is one of git's doings.
    """

    words: tuple[Word, ...]
    said: tuple[Word, ...] = ()
    files: tuple[str, ...] = ()
    way: Way = "code"
    arguments: tuple[Word, ...] = ()
    is_closed: bool = False
    is_git: bool = False


def opaque_of(command: ShellCommand) -> Opaque | None:
    """Return what a command runs that cannot be told, None where it is what its words say."""
    words = without_starter(command.words)
    # It comes once more with its values, and is judged then.
    if command.is_told_again or not words:
        return None
    if words[0] is None:
        return Opaque(words=command.written, said=command.written, is_closed=True)
    name = name_of(words[0])
    return next((read(words) for fits, read in _READERS if fits(name, words)), None)


def is_writing(words: tuple[Word, ...]) -> bool:
    """Return whether a program makes files of what it is given: `cp`, `tee` and the like."""
    return name_of(words[0]) in {"cp", "mv", "ln", "install", "tee", "rsync"}


_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_AWK_RUNS: Final = regex(r"system\s*\(|\|\s*[\"&]|getline")
_SYSTEM: Final = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/")
_CODE: Final = regex(r"-[A-Za-z0-9]*[cCeE]|-p|--eval|--print")

_TASKS_TOO: Final = frozenset({"bun", "deno"})
"""Interpreters that run tasks as well."""


def _is_file(words: tuple[Word, ...]) -> bool:
    """Whether the first operand looks like a file of code, and not like a task."""
    rest = [word for word in words[1:] if word != "run" and not (word or "").startswith("-")]
    return bool(rest) and any(mark in (rest[0] or "/") for mark in "./")


_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES: Final = ("justfile", "Justfile", ".justfile")
_TAKING: Final = frozenset({"-C", "--directory", "--prefix", "--cwd", "-w", "--workspace", "-f"})
_STANDARD: Final = frozenset({"test", "t", "start", "stop", "restart"})
_NOT_SCRIPTS: Final = frozenset(
    {"add", "audit", "cache", "ci", "config", "dlx", "exec", "i", "info", "init", "install", "link"}
    | {"list", "ls", "outdated", "pack", "publish", "remove", "uninstall", "update", "upgrade"}
    | {"version", "view", "why", "x"}
)


def _script(words: tuple[Word, ...], at: int, way: Way) -> Opaque | None:
    """A program and the file it runs, which stands at a place; none without."""
    if at >= len(words):
        return None
    file, rest = words[at], words[at + 1 :]
    if file is None:
        return Opaque(words=words, said=words[1:], is_closed=True)
    return Opaque(words=words, said=words[1:], files=(file,), way=way, arguments=rest)


def _by_shell(words: tuple[Word, ...]) -> Opaque | None:
    at = 1
    while at < len(words) and ((word := words[at]) or "")[:1] in {"-", "+"} and word:
        # Its input is what it runs, which is looked at where it is fed.
        if word == "-s":
            return None
        at += 2 if word in {"-o", "-O", "+o", "+O", "--rcfile", "--init-file"} else 1
    return _script(words, at, "shell")


def _interpreted(words: tuple[Word, ...]) -> Opaque | None:
    name = name_of(words[0])
    at = 2 if words[1:2] == ("run",) else 1
    while at < len(words) and (word := words[at]) and word != "-" and word.startswith("-"):
        if word == "-m" and name.startswith(("py", "python")):
            path = ((words[at + 1] if at + 1 < len(words) else "") or "").replace(".", "/")
            # As Python looks for it: a module is a file, or a package with a `__main__`.
            return Opaque(words=words, files=(f"{path}.py", f"{path}/__main__.py"))
        if _CODE.fullmatch(word) or (word == "-r" and name == "php"):
            return Opaque(words=words, said=words[1:], is_closed=None in words)
        at += 2 if word in {"-W", "-X", "-r", "--require", "--import", "--loader"} else 1
    # Its code is its input, which is looked at where it is fed.
    return None if words[at : at + 1] == ("-",) else _script(words, at, "code")


def _git(words: tuple[Word, ...]) -> Opaque | None:
    """A verb that git does not have: an alias, or a program of somebody's own."""
    at = git_verb(words)
    verb = words[at] if at < len(words) else ""
    # Git takes no alias for a verb that it has itself.
    if verb == "" or verb in _GIT_VERBS:
        return None
    return Opaque(words=words, is_closed=True, is_git=True)


def _task(words: tuple[Word, ...]) -> Opaque | None:
    name = name_of(words[0])
    # Not of npm and its like: to them such a word may be the script's.
    if any(word in DRY_RUNS for word in words[1:] if name not in PACKAGERS):
        return None
    operands, places, file = _operands(words)
    if name in PACKAGERS:
        return _package(words, operands, places)
    if name not in MAKES:
        return Opaque(words=words, said=words[1:])
    names = (file,) if file else _JUSTFILES if name == "just" else _MAKEFILES
    files = tuple(f"{places}{each}" for each in names)
    # `A=b` gives make a variable, and is no target.
    targets = tuple(word for word in operands if word is None or "=" not in word)
    return Opaque(words=words, said=words[1:], files=files, way="make", arguments=targets)


def _package(words: tuple[Word, ...], operands: list[Word], place: str) -> Opaque | None:
    verb = operands[0] if operands else ""
    if verb in {"run", "run-script", "rum", "urn"}:
        script = operands[1] if operands[1:] else ""
    else:
        is_script = verb in _STANDARD or (name_of(words[0]) != "npm" and verb not in _NOT_SCRIPTS)
        script = ("test" if verb == "t" else verb) if is_script else ""
    if script == "":
        return None
    files = (f"{place}package.json",)
    return Opaque(words=words, said=words[1:], files=files, way="package", arguments=(script,))


def _operands(words: tuple[Word, ...]) -> tuple[list[Word], str, str]:
    """Return the operands, the directory that an option leads to (`a/`), and the file it names."""
    operands: list[Word] = []
    place, file = "", ""
    waiting = list(words[1:])
    while waiting:
        word = waiting.pop(0)
        if word in _TAKING:
            value = (waiting.pop(0) if waiting else "") or ""
            place = f"{value}/" if word in {"-C", "--directory", "--prefix", "--cwd"} else place
            file = value if word == "-f" else file
        elif word is None or not word.startswith("-"):
            operands.append(word)
    return operands, place, file


_GIT_VERBS: Final = frozenset(
    """
    add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr
    check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean
    clone column commit commit-graph commit-tree config count-objects credential describe
    diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch
    fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc
    get-tar-commit-id grep hash-object help index-pack init interpret-trailers lfs log ls-files
    ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index
    merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects
    pack-refs patch-id prune pull push range-diff read-tree rebase reflog refs remote repack
    replace replay request-pull rerere reset restore rev-list rev-parse revert rm send-email
    send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status
    stripspace submodule subtree svn switch symbolic-ref tag unpack-file unpack-objects
    update-index update-ref update-server-info var verify-commit verify-pack verify-tag version
    whatchanged worktree write-tree
    """.split()
)
"""The verbs of git 2.51 and of what comes with it, but for `hook`, which runs a script."""


def _runs_of_awk(words: tuple[Word, ...]) -> Opaque | None:
    is_running = any(word and _AWK_RUNS.search(word) for word in words)
    return Opaque(words=words, said=words[1:]) if is_running else None


def _is_interpreter(name: str, words: tuple[Word, ...]) -> bool:
    return bool(INTERPRETERS.fullmatch(name)) and (name not in _TASKS_TOO or _is_file(words))


def _is_by_path(name: str, words: tuple[Word, ...]) -> bool:
    path = words[0] or ""
    # What the system brings is no script that an agent wrote.
    return "/" in path and not path.startswith(_SYSTEM) and not name.startswith("git-")


_READERS: Final[tuple[tuple[_Fits, Callable[[tuple[Word, ...]], Opaque | None]], ...]] = (
    (lambda name, _: name in SHELLS or name in {".", "source"}, _by_shell),
    (_is_interpreter, _interpreted),
    (lambda name, _: name in _AWKS, _runs_of_awk),
    (lambda name, _: name == "git", _git),
    (lambda name, _: name in TASK_RUNNERS, _task),
    (_is_by_path, lambda words: _script(words, 0, "program")),
)
"""Which programs run what their words do not tell, and what reads their words; the first fits."""


# --- the commands that a task stands for ----------------------------------------------------------


ROUNDS_MAX: Final = 4
"""How deep a variable of a Makefile is put in the place of another."""

RECIPE_CHARACTERS_MAX: Final = 100_000

_RULE: Final = regex(r"@?([^\s:=#][^:=#]*?)\s*::?(?![=:])([^=]*)")
_VARIABLE: Final = regex(r"(?:export\s+)?([\w.-]+)\s*(?:[:?!+]{0,3}=)\s*(.*)")
_INCLUDED: Final = regex(r"^-?s?include\s+(.+)$|^import\s+['\"](.+)['\"]", re.MULTILINE)
_USED: Final = regex(r"\$[({]([\w.-]+)[)}]|\{\{\s*([\w.-]+)\s*\}\}")


def recipe_of(text: str, targets: Sequence[str]) -> str:
    """Return the commands of a Makefile's or justfile's targets, with those they depend on.

    Without any, those of the first target.
    """
    rules, variables = _rules_of(text)
    waiting = list(targets) or [name for name in rules if not name.startswith(".")][:1]
    seen: set[str] = set()
    lines: list[str] = []
    while waiting:
        target = waiting.pop(0)
        if target not in seen and target in rules:
            seen.add(target)
            needs, commands = rules[target]
            waiting += needs
            lines += commands
    recipe = "\n".join(lines)[:RECIPE_CHARACTERS_MAX]
    for _ in range(ROUNDS_MAX):
        recipe = _USED.sub(lambda found: variables.get(found[1] or found[2], found[0]), recipe)
        # Each round: a variable that names itself twice doubles the text.
        recipe = recipe[:RECIPE_CHARACTERS_MAX]
    # Last: `$$A` is the shell's own variable, not one of make's.
    return recipe.replace("$$", "$")


def included_in(text: str) -> tuple[str, ...]:
    """Return the files that a Makefile or a justfile takes in, by their paths in it."""
    found = (each for each in _INCLUDED.finditer(text))
    return tuple(path for each in found for path in (each[1] or each[2]).split())


def script_of(text: str, name: str) -> str:
    """Return the commands of a package's script, with those before and after; empty for none."""
    try:
        package: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    scripts = package.get("scripts") if isinstance(package, Mapping) else None
    if not isinstance(scripts, Mapping):
        return ""
    # npm runs those before and after unasked.
    found = (scripts.get(each) for each in (f"pre{name}", name, f"post{name}"))
    return "\n".join(each for each in found if isinstance(each, str))


def _rules_of(text: str) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, str]]:
    """Return each target's prerequisites and commands, and the variables."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    variables: dict[str, str] = {}
    at: list[str] = []
    # A line that is continued is one to make, and its second half no command of its own.
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1] in {"\t", " "}:
            for name in at:
                # These marks are for make, which takes them off.
                rules[name][1].append(line.strip().lstrip("@+-"))
        elif found := _VARIABLE.fullmatch(line):
            variables[found[1]] = found[2]
        elif found := _RULE.fullmatch(line):
            needs, _, command = found[2].partition(";")
            at = [each for each in found[1].split() if each]
            for name in at:
                needed, commands = rules.setdefault(name, ([], []))
                needed += needs.split()
                commands += [command.strip()] if command else []
    return rules, variables
