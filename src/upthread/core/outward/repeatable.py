"""Which lines of shell can run twice without harm: reading, building, testing, local changes. Pure.

While an action is in doubt, a call runs only if it is known to be repeatable. A list of dangerous
commands is never complete, so the tables here list the safe ones. For example `git commit`,
`pytest` and `make test` are repeatable; a script, code in another language, `make deploy` and any
program that is not in a table are not understood. Hooks of git, and what a test itself does, are
not seen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, TypeAlias

from upthread.core.names import rows_by_name
from upthread.core.outward.shell_commands import (
    ASSIGNED,
    EVALUATED,
    SHELLS,
    Word,
    Words,
    commands_written,
    name_of,
    program_of,
    source_of,
    tree_of,
    without,
    without_wrapper,
    word_of,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

Judge: TypeAlias = Callable[[Words], Words]
"""Returns the paths that a program's words change; raises where the words are not understood."""

SHELLS_WITHIN_MAX = 4


class _NotUnderstoodError(Exception):
    """The line holds something that no table has."""


@lru_cache(maxsize=1024)
def places_changed(line: str) -> tuple[str, ...] | None:
    """Return the paths that a line enters or changes, None if it is not known to be repeatable.

    A path is relative to the directory where the line runs. The caller checks that each one lies in
    the working tree.
    """
    walk = _Walk()
    try:
        walk.line(line, "", SHELLS_WITHIN_MAX)
    except _NotUnderstoodError:
        return None
    return tuple(dict.fromkeys(walk.places))


def only_reads(line: str) -> bool:
    """Return whether a line does nothing but read, for certain. An empty one is not known.

    The first thing that is not known decides: a variable, a wrapper, a program or an option that is
    not in `READERS`. A variable may do what an option may not: RIPGREP_CONFIG_PATH gives `rg` any.
    """
    if places_changed(line) != () or re.search(_ASSIGNS, line):
        return False
    commands = commands_written(line)
    return bool(commands) and all(map(_is_reader, commands))


def _is_reader(words: Words) -> bool:
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return False
    program, *rest = known
    if name_of(program) in SHELLS:
        return only_reads(rest[-1])
    # By the whole word: `./cat` is whatever somebody put there.
    return program in READERS and READERS[program](rest)


class _Walk:
    """Goes through the tree of one line; `places` are the paths that it enters or changes."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def line(self, line: str, where: str, depth: int) -> None:
        root = tree_of(line)
        if root is None or not root.named_children or not depth:
            raise _NotUnderstoodError
        self._visit(root, where, depth)

    def _visit(self, node: Node, where: str, depth: int) -> str:
        """Check one node and all below; returns the directory that the shell is in afterwards."""
        # A function may have the name of a program of the tables.
        _require(node.type != "function_definition")
        inside = where
        for child in node.named_children:
            inside = self._visit(child, inside, depth)
        if node.type == "command":
            words = words_of(node)
            bare = (each for each in node.named_children if each.type in {"word", "concatenation"})
            # Of such a word the shell makes others: a file of a clone may be called `--pre=./x`.
            is_option = any(source_of(each)[:1] in {*"*?[{"} for each in bare)
            _require(not is_option or words[0] in READING_ANYTHING or words[0] not in READERS)
            return self._command(words, where, depth)
        if node.type == "file_redirect":
            self._redirect(node, where)
        elif node.type == "variable_assignment":
            _require(_is_harmless_variable(source_of(node)))
        _require(not re.match(EVALUATED, f"{node.type}:{source_of(node)}"))
        return where if node.type in _OWN_SHELLS else inside

    def _redirect(self, node: Node, where: str) -> None:
        named = [each for each in node.named_children if each.type != "file_descriptor"]
        # To the grammar, words of the command that follow belong to the redirection.
        to = word_of(named[0]) if len(named) == 1 else None
        is_copy = any(each.type in {">&", "<&"} for each in node.children)
        # `/dev/tcp/HOST/PORT` is a connection.
        _require(to is not None, to in _DEVICES or not (to or "").startswith("/dev/"))
        if not (to in _DEVICES or (is_copy and to and to.isdigit())):
            is_read = any(each.type == "<" for each in node.children)
            self._keep([] if is_read else [to], where)

    def _keep(self, places: Words, where: str) -> None:
        for place in places:
            _require(place is not None)
            said = place or ""
            self.places.append(said if said[:1] == "~" else posixpath.join(where, said))

    def _command(self, words: Words, where: str, depth: int) -> str:
        words = _unwrapped(words)
        name = program_of(words[0])
        if name in SHELLS:
            _require(len(words) == len(("sh", "-c", "LINE")) and words[1] in {"-c", "-lc"})
            _require(words[2] is not None)
            self.line(words[2] or "", where, depth - 1)
            return where
        if not (name and words[1:] in {("--help",), ("--version",), ("-V",)}):
            self._keep(_PROGRAMS.get(name, _nothing)(words[1:]), where)
        return posixpath.join(where, words[1] or "") if name == "cd" else where


_ASSIGNS = r"(?<![-\w.])\w+\+?="
_OWN_SHELLS = {"command_substitution", "pipeline", "process_substitution", "subshell"}
"""Parts of a line that run in a shell of their own: a `cd` in there leads nowhere outside."""
_DEVICES = frozenset({"/dev/null", "/dev/stderr", "/dev/stdin", "/dev/stdout"})


def _require(*conditions: object) -> None:
    if not all(conditions):
        raise _NotUnderstoodError


# --- the program that a command runs --------------------------------------------------------------

_FOREIGN = {
    *("builtin", "coproc", "dbus-run-session", "doas", "exec", "flock", "ltrace", "parallel"),
    *("script", "ssh-agent", "strace", "sudo", "watch"),
}
"""Wrappers that do more than run a command, or run it as somebody else."""
_HARMFUL_VARIABLE = (
    r"PATH|(LD|DYLD|GIT)_.*|.*CONFIG(_.*)?|(BASH_)?ENV|IFS|SHELL|PROMPT_COMMAND|VISUAL|MAKE(FLAGS|FILES)"
    r"|.*(BROWSER|COMMAND|EDITOR|OPT|OPTIONS|PAGER|RUNNER|WRAPPER)|PYTHON(STARTUP|HOME|INSPECT)"
    r"|CC|CXX|RUSTC|GOFLAGS|npm_config_.*|.*_PLUGINS|PS4"
)
_STARTERS = rows_by_name(
    ("uv pdm pipenv poetry rye", "run"), ("npm pnpm yarn bundle", "exec"), ("npx bunx uvx", "")
)
"""Programs that start another one, and after which verb."""
_PYTHON = r"python[\d.]*"
_STARTERS_FLAGS = frozenset("--frozen --locked --no-sync --yes -y -q --".split())


def _is_harmless_variable(assignment: str) -> bool:
    return re.fullmatch(_HARMFUL_VARIABLE, assignment.partition("=")[0].rstrip("+")) is None


def _unwrapped(words: Words) -> Words:
    """Return the words from the program on that is run at last, which is one of the tables."""
    if words[:2] == ("command", "-v"):
        return ("which", *words[2:])
    inner = without_wrapper(words)
    before = [word or "" for word in words[: len(words) - len(inner)]]
    _require(bool(inner) and _FOREIGN.isdisjoint(map(name_of, before)))
    for word in before:
        _require(not word.startswith(("-S", "-C", "--chdir", "--split")))
        _require(not re.match(ASSIGNED, word) or _is_harmless_variable(word))
    # What `xargs` adds may be options.
    _require("xargs" not in map(name_of, before) or inner[0] in READING_ANYTHING)
    name = program_of(inner[0])
    verbs = _STARTERS.get(name)
    if verbs is not None and (not verbs or inner[1:2] == (verbs,)):
        rest = inner[2 if verbs else 1 :]
        flags = len([*takewhile(lambda word: word in _STARTERS_FLAGS, rest)])
        return _unwrapped(rest[flags:])
    if re.fullmatch(_PYTHON, name) and inner[1:2] == ("-m",):
        _require(inner[2:3] != () and inner[2] in _MODULES)
        return inner[2:]
    return inner


# --- judges ---------------------------------------------------------------------------------------


def _nothing(_words: Words) -> Words:
    raise _NotUnderstoodError


def _prints_lines(words: Sequence[str]) -> bool:
    """`sed -n 1,80p FILE`: any other script may write a file or run a program."""
    if len(words) < len(("-n", "1p")) or words[0] != "-n" or not re.fullmatch(_PRINTED, words[1]):
        return False
    return not any(word.startswith("-") for word in words[2:])


def _finds(words: Sequence[str]) -> bool:
    acting = ("-delete", "-exec", "-execdir", "-fls", "-fprint", "-ok")
    return not any(word.startswith(acting) for word in words)


_PRINTED = r"(?:\d+|\$)(?:,(?:\d+|\$))?p"
READING_ANYTHING = frozenset(
    "basename cat cmp cut dirname echo egrep fgrep grep head ls nl od pwd rev stat tac tail tr wc"
    " true".split()
)
READERS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    **dict.fromkeys(READING_ANYTHING, lambda _words: True),
    "find": _finds,
    "rg": without("-z", "--hostname-bin", "--pre", "--search-zip"),
    "sed": _prints_lines,
    "sort": without("-o", "-T", "--compress-program", "--output", "--temporary-directory"),
}
"""The programs that only read, and with which words."""


def _as(harmless: Callable[[Sequence[str]], bool]) -> Judge:
    def judge(words: Words) -> Words:
        _require(None not in words and harmless([word or "" for word in words]))
        return ()

    return judge


_EDITS = (
    r"(?:(?:\d+|\$|/[^/]*/)(?:,(?:\d+|\$|/[^/]*/))?)?"
    r"(?:[dp]|s(?P<mark>[^\w\s\\])(?:(?!(?P=mark)).)*(?P=mark)(?:(?!(?P=mark)).)*(?P=mark)[gpI\d]*)"
)


def _sed(words: Words) -> Words:
    """`sed SCRIPT FILE…` and `sed -i SCRIPT FILE…` with a script that only replaces text."""
    options = [word for word in words if word and word.startswith("-")]
    script, *files = [word for word in words if not (word and word.startswith("-"))] or [None]
    _require(not {*options} - {"-i", "-n", "-E", "-r", "-e", "-i.bak", "-ne", "-En", "-nE"})
    _require(bool(re.fullmatch(_EDITS, script or "")) or bool(re.fullmatch(_PRINTED, script or "")))
    return files if {"-i", "-i.bak"} & {*options} else ()


def _operands(words: Words) -> Words:
    return [word for word in words if word is None or not word.startswith("-")]


def _changes(words: Words) -> Words:
    """All operands are paths that change: `rm`, `mkdir`, `mv`. Modes and owners do no harm."""
    _require(not any(word and word.startswith(("-t", "--target")) for word in words))
    return _operands(words)


def _plain(words: Words) -> Words:
    """A builtin of bash that evaluates the name of a variable, and is given none of these."""
    _require(words[:1] != (None,))
    _require(not any(word and (word.startswith("-v") or "[" in word[1:]) for word in words))
    return ()


def _enters(words: Words) -> Words:
    _require(len(words) == 1 and words[0] not in {"", "-"})
    return words


_TARGETS = """
bench build check checks clean compile cov coverage doc docs fmt format integration
lint package py spec test tests type typecheck types unit validate verify
""".split()
_TARGET = rf"(?:[\w-]+:)?(?:{'|'.join(_TARGETS)})\d*(?:[:_./-]\w+)*"
_TELLING = r"(?i)deploy|live|migrat|notif|prod|publish|push|release|remote|seed|send|ship|upload"
_RUNNERS_FLAG = (
    r"-[jkBsirq]?\d*|--(?:jobs|keep-going|silent|quiet|no-print-directory|parallel)(?:=\d+)?"
    r"|-C|-D[\w.-]*(?:=[\w.:-]*)?|--(?:no-daemon|console=plain|stacktrace|info|offline|batch-mode)"
)


def _is_target(word: Word) -> bool:
    return bool(word and re.fullmatch(_TARGET, word.lstrip(":")) and not re.search(_TELLING, word))


def _runs_targets(words: Words) -> Words:
    """A task runner: each of its operands is a target of the table; `-C` leads to a directory."""
    left = [word for before, word in zip([None, *words], words, strict=False) if before != "-C"]
    operands = [word for word in _operands(left) if not (word and re.fullmatch(_NUMBER, word))]
    _require(operands, *map(_is_target, operands))
    _require(*(re.fullmatch(_RUNNERS_FLAG, w) for w in left if w and w.startswith("-")))
    return _after("-C", words)


_NUMBER = r"(?:\w+=)?\d*"
"""`4` of `-j 4`, and `V=1`."""


def _packages(words: Words) -> Words:
    """The npm family: a script of the table, or a list."""
    operands = [word for word in words if word not in {"-s", "--silent", "run", "run-script"}]
    verb = operands[0] if operands else None
    is_list = verb in {"ls", "list", "outdated", "view", "info", "why", "t"} and verb == words[0]
    _require(is_list or _is_target(verb))
    _require(None not in words and _NPM_STAYS([word or "" for word in words]))
    return ()


_NPM_STAYS = without(
    *"--script-shell --node-options --prefix --cwd --dir -C --config --userconfig --use".split()
)


def _verbs(table: str, acting: str = "") -> Judge:
    """A program with verbs: those of the table, of one word or two, and without acting options."""
    known = {tuple(each.split()) for each in table.split(",")}
    bad = tuple(acting.split())

    def judge(words: Words) -> Words:
        taking = {"-n", "--namespace", "--context", "-R", "--repo"}
        values = [at + 1 for at, word in enumerate(words) if word in taking]
        said = [word or "" for at, word in enumerate(words) if at not in values]
        verbs = tuple(word for word in said if word[:1] not in {"-", "+"})
        _require(verbs[:1] in known or verbs[:2] in known)
        _require(not any(bad and word.startswith(bad) for word in said))
        return ()

    return judge


def _awk(words: Words) -> Words:
    """An awk without a program file, and with a program that starts none and writes no file."""
    _require(not any(word is None or re.search(_AWK_ACTS, word) for word in words))
    return ()


_AWK_ACTS = r"system|getline|[|>@]|^-(?!F|v)"


def _cmake(words: Words) -> Words:
    acting = ("-P", "-E", "-C", "--install", "--workflow", "--open")
    _require(not any(word is None or word == "--" or word.startswith(acting) for word in words))
    _require(all(map(_is_target, (*_after("--target", words), *_after("-t", words)))))
    return _after("-B", words)


def _after(option: str, words: Words) -> Words:
    """Return the word after each place where an option stands."""
    return [after for word, after in pairwise(words) if word == option]


# --- git ------------------------------------------------------------------------------------------

_GIT_READS = {
    *"""
    blame cat-file check-ignore count-objects describe diff diff-index diff-tree for-each-ref grep
    help log ls-files ls-remote ls-tree merge-base name-rev range-diff reflog rev-list rev-parse
    shortlog show show-ref status var version whatchanged
    """.split()
}
_GIT_CHANGES = {
    *"add am apply branch checkout cherry-pick clean commit fetch init merge mv pull".split(),
    *"rebase reset restore revert rm stash switch tag".split(),
}
_GIT_SENDS_NOTHING = without(
    *("--exec", "--upload-pack", "--output", "--ext-diff", "--open-files-in-pager", "-O")
)
_GIT_SECOND = {
    "config": frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"}),
    "remote": frozenset({"", "-v", "--verbose", "get-url", "show"}),
    "submodule": frozenset({"", "status"}),
    "worktree": frozenset({"list", "prune"}),
}


def _git(words: Words) -> Words:
    """A verb of git's own that sends nothing; git takes no alias for such a verb."""
    places: list[Word] = []
    while words and words[0] in {"-C", "--no-pager", "-P"}:
        skipped = len(("-C", "DIRECTORY")) if words[0] == "-C" else 1
        places += words[1:skipped]
        words = words[skipped:]
    verb, *rest = words or [None]
    if verb in _GIT_SECOND:
        _require((rest[0] if rest else "") in _GIT_SECOND[verb])
        return places
    _require(verb in _GIT_READS or verb in _GIT_CHANGES)
    # A message may be put together by the line; another unknown word may be an option.
    said = [
        word
        for before, word in zip(["", *rest], rest, strict=False)
        if before not in {"-m", "-am", "--message"}
    ]
    _require(None not in said and _GIT_SENDS_NOTHING([word or "" for word in said]))
    # `rebase -x` runs a command, and so does an address such as `ext::COMMAND`.
    _require(not any(word and word.startswith("-x") for word in said if verb == "rebase"))
    _require(verb in _GIT_READS - {"ls-remote"} or not any("::" in (word or "") for word in said))
    return places


# --- the tables -----------------------------------------------------------------------------------


_CHECKERS = """
autopep8 bandit basedpyright biome black c++ cc clang clang++ clang-format clang-tidy eslint flake8
g++ gcc gofmt golangci-lint hadolint isort javac jest ld markdownlint mocha mypy phpstan phpunit
prettier pylint pyright pytest rspec rubocop ruff rustc rustfmt shellcheck shfmt stylelint tsc
vitest yamllint compileall py_compile unittest
"""
_MODULES = {*_CHECKERS.split(), "coverage", "json.tool", "pip"}
_READING_MORE = """
: [ break column comm continue date df diff du exit expr false file fold free id jq json.tool md5sum
nproc paste printenv ps realpath readlink seq set sha256sum shasum shift shopt sleep strings
type uname uptime wait which whoami
"""
_VERBS = """
coverage: report,html,xml,json,combine
bazel: build,test,query,info;--run_under --workspace_status_command
cargo: build,check,test,clippy,fmt,doc,tree,metadata,clean,bench,nextest;--config
go: build,test,vet,fmt,list,mod tidy,mod download,mod graph,mod verify,version,doc
 ;-exec -toolexec -vettool
dotnet: build,test,format,restore,clean,list;-t /t -p:Deploy /p:Deploy -target
swift: build,test
mix: test,compile,format
pip pip3: list,show,freeze,check
uv: pip list,pip show,pip freeze,pip check,tree
poetry: show,check
gh glab: pr view,pr list,pr status,pr checks,pr diff,issue view,issue list,issue status
 ,run view,run list,release list,release view,repo view,auth status
kubectl oc: get,describe,logs,version,top,explain,cluster-info
docker podman: ps,images,logs,inspect,version,info,compose ps,compose logs
"""
"""Programs with verbs: those that do no harm, and after a semicolon the options that may."""
_PROGRAMS = rows_by_name(
    (f"{' '.join(READING_ANYTHING)} {_READING_MORE}", lambda _words: ()),
    *((name, _as(READERS[name])) for name in ("find", "rg", "sort")),
    ("sed", _sed),
    ("awk gawk mawk", _awk),
    ("chmod mkdir mv rm rmdir tee touch truncate", _changes),
    ("cp uniq", lambda words: [*_changes(words)][-1:]),
    ("cd", _enters),
    ("printf read test", _plain),
    # A compiler, a checker or `tree`: the word after `-o` is a file that is written.
    (f"{_CHECKERS} tree", lambda words: _after("-o", words)),
    ("git", _git),
    ("gmake gradle gradlew inv invoke just make mvn mvnw ninja rake task", _runs_targets),
    ("nox tox", lambda words: _runs_targets([word for word in words if word != "-e"])),
    ("npm pnpm yarn bun", _packages),
    ("cmake", _cmake),
    ("ctest", _as(without("-S", "-D", "-T", "-M", "--script", "--build-and-test", "--dashboard"))),
    *(
        (names, _verbs(*told.split(";")))
        for names, told in (
            row.split(": ") for row in _VERBS.replace("\n ", "").strip().splitlines()
        )
    ),
)
"""The programs that are repeatable, and what judges their words."""
