"""Whether a line of shell certainly does nothing but read. Pure; nothing is looked up.

For an agent that has no tool to read with, and a role that may read but run no commands. So a line
is taken apart by what is known to be harmless, and the first thing that is not known decides: a
variable, a substitution, a file written to, a program or an option that is not in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from upthread.core.outward.nested_commands import SHELLS, name_of
from upthread.core.outward.shell_commands import source_of, tree_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

_Harmless: TypeAlias = Callable[[Sequence[str]], bool]

SHELLS_WITHIN_MAX: Final = 2

_JOINING: Final = frozenset({"program", "list", "pipeline", "redirected_statement"})
_NOWHERE: Final = re.compile(r"\d?(?:>>?|&>>?)\s*/dev/null|\d?>&\d|<\s*[\w./-]+")
"""A redirection that writes no file."""
_PRINTED: Final = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p")
"""What `sed -n` may be told: to print lines."""
_PATTERN: Final = re.compile(r"[*?\[{]")
_SHELL_OPTION: Final = re.compile(r"-l?c")


def only_reads(line: str) -> bool:
    """Return whether a line does nothing but read, for certain. An empty one is not known."""
    return _reads(line, SHELLS_WITHIN_MAX)


def _reads(line: str, depth: int) -> bool:
    root = tree_of(line)
    # Of a line that cannot be read to its end nothing is certain.
    return root is not None and bool(root.named_children) and _is_harmless(root, depth)


def _is_harmless(node: Node, depth: int) -> bool:
    if node.type == "command":
        return _is_reader(node, depth)
    if node.type == "file_redirect":
        return _NOWHERE.fullmatch(source_of(node)) is not None
    return node.type in _JOINING and all(_is_harmless(each, depth) for each in node.named_children)


def _is_reader(command: Node, depth: int) -> bool:
    # A variable may do what an option may not: RIPGREP_CONFIG_PATH gives `rg` any of its own.
    if any(each.type.endswith(("assignment", "redirect")) for each in command.named_children):
        return False
    words = [word for word in words_of(command) if word is not None]
    # A word that only running the line would tell may be an option that writes.
    if not words or len(words) != len(words_of(command)):
        return False
    program, *rest = words
    is_shell = name_of(program) in SHELLS and len(rest) == len(("-c", "LINE"))
    if is_shell and _SHELL_OPTION.fullmatch(rest[0]):
        return depth > 0 and _reads(rest[1], depth - 1)
    # By the whole word: `./cat` is whatever somebody put there.
    harmless = _READERS.get(program)
    if harmless is None or (harmless is not _always and _may_become_options(command)):
        return False
    return harmless(rest)


def _may_become_options(command: Node) -> bool:
    """Whether the shell makes other words of these: a file may be called `-delete`."""
    bare = (each for each in command.named_children if not each.type.endswith("string"))
    return any(_PATTERN.search(source_of(each)) for each in bare)


# --- the programs --------------------------------------------------------------------------------


def _always(_words: Sequence[str]) -> bool:
    return True


def _without(*options: str) -> _Harmless:
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


def _prints_lines(words: Sequence[str]) -> bool:
    """`sed -n 1,80p FILE`: any other script may write a file or run a program."""
    if len(words) < len(("-n", "1p")) or words[0] != "-n" or not _PRINTED.fullmatch(words[1]):
        return False
    return not any(word.startswith("-") for word in words[2:])


def _finds(words: Sequence[str]) -> bool:
    acting = ("-delete", "-exec", "-execdir", "-fls", "-fprint", "-ok")
    return not any(word.startswith(acting) for word in words)


_READERS: Final[Mapping[str, _Harmless]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("cat", "cut", "echo", "egrep", "fgrep", "grep", "head", "ls", "nl", "od", "pwd"),
                *("rev", "stat", "tac", "tail", "tr", "true", "wc", "basename", "dirname", "cmp"),
            ),
            _always,
        ),
        "find": _finds,
        "rg": _without("-z", "--hostname-bin", "--pre", "--search-zip"),
        "sed": _prints_lines,
        "sort": _without("-o", "-T", "--compress-program", "--output", "--temporary-directory"),
    }
)
