"""The commands in a line of shell, with their words as the shell would hand them over. Pure.

Parsed with the grammar of bash (tree-sitter-bash 0.25), which also reads what sh, zsh and most
agents write, and continues after what it cannot read. What only running the line would tell is
None.

Commands within commands are found: in `sh -c`, `eval`, `$(…)`, and behind those that run others,
such as `sudo git push`, `find -exec` and `git rebase --exec`. Each of these is read by the words
that follow, as its own program reads them. Variables, functions, aliases and text that a shell
reads are not followed: a line that uses them is not understood, so it does not run while an action
is in doubt (repeatable.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


Word: TypeAlias = str | None
Words: TypeAlias = Sequence[Word]

SHELLS = frozenset("ash bash dash fish ksh sh zsh".split())

HOLE = "\ue000"
"""Stands in a text for what only running it would tell: a word that has one is not known."""

_WRAPPERS = """
builtin:; chronic:; command:; coproc:; dbus-run-session:; nohup:; setsid:; taskset:
caffeinate: -t -w; chrt: -T -P -D; doas: -u -C; env: -u --unset -C --chdir -S --split-string
exec: -a; flock: -w --timeout -E; ionice: -c -n; ltrace: -e -o; nice: -n --adjustment
parallel: -j --jobs -I -N -a; ssh-agent: -a -t; stdbuf: -i -o -e; strace: -e -o -s -P
sudo: -u -g -h -p -C -D --user --group --chdir; time: -f -o; watch: -n --interval
timeout: -k -s --kill-after --signal; xargs: -I -n -P -L -d -a -E -s
"""
_OPTIONS_WITH_VALUE = {
    name.strip(): frozenset(options.split())
    for name, _, options in (
        each.partition(":") for each in _WRAPPERS.replace("\n", ";").split(";") if each
    )
}
"""The programs that run the command after their own options, and which options take a word."""

_OPERAND_FIRST = frozenset({"chrt", "flock", "taskset", "timeout"})
"""Those that take one word of their own before the command."""

ASSIGNED = r"[A-Za-z_]\w*="
ASSIGNING = frozenset({"doas", "env", "sudo"})
"""Those that take `NAME=value` before the command."""

_COMMAND_OPTION = r"-[a-zA-Z]*c[a-zA-Z]*"


def name_of(word: Word) -> str:
    """Return a program's name, whatever path leads to it."""
    return (word or "").rpartition("/")[2]


def as_line(words: Words) -> str:
    """Return words as a line of shell that has them as they are."""
    return " ".join(HOLE if word is None else shlex.quote(word) for word in words)


def unwrapped(words: Words) -> str | Words:
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


def without_wrapper(words: Words) -> Words:
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


def lines_run_by(words: Words) -> Iterator[str]:
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


_ACTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _first_known(words: Words) -> str:
    """Return the first word, a hole where it is not known, empty where there is none."""
    return "".join(HOLE if word is None else word for word in words[:1])


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


_OF_PROJECT = r"(?:.*/)?(?:node_modules/\.bin|\.?venv/bin)/([\w.-]+)|\./(gradlew|mvnw)"
_OF_SYSTEM = r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/([\w.-]+)"


def program_of(word: Word) -> str:
    """Return the name of a program in no directory, or in one that programs are installed in."""
    if word is None or "/" not in word:
        return word or ""
    found = re.fullmatch(_OF_SYSTEM, word) or re.fullmatch(_OF_PROJECT, word)
    return next(filter(None, found.groups()), "") if found else ""


# --- a line of shell ------------------------------------------------------------------------------


COMMAND_CHARACTERS_MAX = 100_000
"""How much of a line is read: no shell takes a longer word, and nobody writes a longer line."""

DEPTH_MAX = 8
"""How many shells within shells are looked into."""

COMMANDS_MAX = 100_000
"""How many commands of a line are read: functions that call functions may be any number."""

_ESCAPED = r"(?s)\\(?:\n|(.))"
_ESCAPED_IN_QUOTES = r"\\(?:\n|([\\$`\"]))"
_ANSI = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
_LETTER = 0xC0
_PAIRS = {
    byte: chr(_LETTER + (byte >> 4)) + chr(_LETTER + (byte & 15)) for byte in range(0x80, 0x100)
}
_PAIR = "[\u00c0-\u00cf]{2}"


class ShellCommand(Struct, frozen=True, kw_only=True):
    """One command: its words, the program first. `directory` is where a `cd` before it led."""

    words: tuple[Word, ...]
    directory: str = ""


def commands_in(line: str) -> tuple[ShellCommand, ...]:
    """Return the commands of a line in the order they stand there, those that run others opened."""
    return tuple(islice(_commands(line, "", DEPTH_MAX), COMMANDS_MAX))


def commands_written(line: str) -> Sequence[Words]:
    """Return the words of a line's commands as they stand there, `sudo` and the like included."""
    root = _parsed(line[:COMMAND_CHARACTERS_MAX])
    return tuple(words for words, _ in _simple_commands(root))


def tree_of(line: str) -> Node | None:
    """Return a line's tree, None for one that is too long or cannot be read to its end."""
    if len(line) > COMMAND_CHARACTERS_MAX:
        return None
    root = _parsed(line)
    return None if root.has_error else root


def _commands(line: str, directory: str, depth: int) -> Iterator[ShellCommand]:
    root = _parsed(line[:COMMAND_CHARACTERS_MAX])
    where = directory
    for words, node in _simple_commands(root):
        yield from _one(words, where, depth, node)
        if words[0] == "cd":
            operand = next((word for word in words[1:] if word and not word.startswith("-")), "")
            where = _joined(where, operand)


def _one(words: Words, where: str, depth: int, node: Node | None) -> Iterator[ShellCommand]:
    """Yield a command, or what it runs; and what it runs beside that."""
    inner = unwrapped(words)
    # What is not known inside a line for a shell is a hole, so that the rest of it is still read.
    if isinstance(inner, str) and node is not None:
        loose = unwrapped(words_of(node, hole=HOLE))
        inner = loose if isinstance(loose, str) else inner
    if isinstance(inner, str):
        yield from _commands(inner, where, depth - 1) if depth else ()
        return
    if not inner:
        return
    yield ShellCommand(words=tuple(inner), directory=where)
    for line in lines_run_by(inner) if depth else ():
        yield from _commands(line, where, depth - 1)


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415  # most verbs read no command
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


# --- the tree ------------------------------------------------------------------------------------


def _simple_commands(root: Node) -> Iterator[tuple[Words, Node | None]]:
    """Yield each command's words, in order; and the file that it is fed."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        # A stack of our own: lines may be nested deeper than Python recurses.
        waiting += reversed(node.named_children)
        if node.type == "command":
            yield from ((words, node) for words in [words_of(node)] if words)
        elif node.type == "redirected_statement":
            yield from ((each, None) for each in _fed_by_file(node))


EVALUATED = (
    r"(?s)(?:test_command:(?:\[\[.*\s-(?:eq|ne|[gl][et])\s|.*\s-v\s)"
    r"|variable_assignment:.*(?:'[^']*(?:\$\(|`)|\\[`$]|\$')|declaration_command:\w+\s+-\w*[in]"
    r"|unset_command:.*\[|arithmetic_expansion:.*[A-Za-z_]|c_style_for|compound_statement:\(\()"
)
"""A node, as TYPE:SOURCE, where bash evaluates a text again, which may be `a[$(COMMAND)]`."""


def words_of(command: Node, *, hole: str | None = None) -> Words:
    """Return a command's words, without what is assigned before them.

    `hole` stands for what is not known in a word, None for the whole word.
    """
    words: list[Word] = []
    for child in command.children:
        if child.type == "command_name":
            words.append(word_of(child.named_children[0], hole) if child.named_children else None)
        elif not child.is_named or _is_assigning(words, child):
            words.append(source_of(child))  # `==` and `=~` are words anywhere but in a test
        elif not child.type.endswith(("_redirect", "variable_assignment")):
            words.append(word_of(child, hole))
    return tuple(None if not hole and word and HOLE in word else word for word in words)


def _is_assigning(words: Words, node: Node) -> bool:
    """Whether a word is an `A=b` for the program before it, whatever its value."""
    return (
        bool(words)
        and name_of(words[0]) in ASSIGNING
        and re.match(ASSIGNED, source_of(node)) is not None
    )


def word_of(node: Node, hole: str | None = None) -> Word:
    """Return a word as the shell would hand it over, the hole where only running it would tell."""
    if node.type in {"string", "concatenation"}:
        return _joined_pieces(node, hole)
    read = _READERS.get(node.type)
    said = read(node) if read is not None else None
    return hole if said is None else said


def _joined_pieces(node: Node, hole: str | None) -> Word:
    """Return a word of several pieces, some of which may be values."""
    if node.type == "string" and all(each.type == "string_content" for each in node.named_children):
        return _unescaped_in_quotes(source_of(node)[1:-1])
    quotes = 1 if node.type == "string" else 0
    at, end = node.start_byte + quotes, node.end_byte - quotes
    pieces: list[str] = []
    for child in node.named_children:
        is_content = child.type == "string_content"
        said = _unescaped_in_quotes(source_of(child)) if is_content else word_of(child, hole)
        if said is None:
            return None
        shown = "" if is_content else source_of(child)
        blank = shown[: len(shown) - len(shown.lstrip())]  # the grammar takes it for a part of `$x`
        pieces += [_between(node, at, child.start_byte), blank, said]
        at = child.end_byte
    return "".join([*pieces, _between(node, at, end)])


def _between(node: Node, start: int, end: int) -> str:
    """Return what stands between a node's parts, such as the blanks that belong to none."""
    begin = node.start_byte
    return _shown((node.text or b"")[start - begin : end - begin])


def source_of(node: Node) -> str:
    """Return what stands in the line where a node is."""
    return _shown(node.text or b"")


def _shown(text: bytes) -> str:
    shown = text.decode()
    if shown.isascii():
        return shown
    return re.sub(_PAIR, _byte_of, shown).encode("latin-1").decode("utf-8", "replace")


def _parsed(line: str) -> Node:
    """Return the root of a line's tree; read what its nodes say with `source_of`.

    The grammar's own code (tree-sitter-bash 0.25.1) asks C's `isalnum` and the like about whole
    code points, where these take bytes: a document's mark with such letters, and the process is
    gone. So it is shown each byte beyond ASCII as two letters that it may ask about.
    """
    content = line.encode("utf-8", "replace")
    if not content.isascii():
        content = content.decode("latin-1").translate(_PAIRS).encode()
    return _parser().parse(content).root_node


def _byte_of(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr((high - _LETTER) << 4 | low - _LETTER)


def _plain(node: Node) -> Word:
    if node.named_children:
        return None
    return re.sub(_ESCAPED, lambda found: found[1] or "", source_of(node))


def _unescaped_in_quotes(text: str) -> str:
    return re.sub(_ESCAPED_IN_QUOTES, lambda found: found[1] or "", text)


def _raw(node: Node) -> Word:
    return source_of(node)[1:-1]


def _ansi(node: Node) -> Word:
    return re.sub(_ESCAPED, lambda found: _ANSI.get(found[1] or "", ""), source_of(node)[2:-1])


_READERS = {"word": _plain, "number": _plain, "raw_string": _raw, "ansi_c_string": _ansi}


def _fed_by_file(node: Node) -> Iterator[Words]:
    """Yield `cat FILE` for each file that a command is fed."""
    for redirect in node.named_children:
        if redirect.type == "file_redirect" and any(each.type == "<" for each in redirect.children):
            yield ("cat", *map(word_of, redirect.named_children[-1:]))


def _joined(directory: str, to: str) -> str:
    """Return where `cd` leads, in words; nothing is looked up."""
    if to.startswith(("/", "~")) or not directory:
        return to.rstrip("/") or to
    return f"{directory}/{to}".rstrip("/")
