"""The commands in a line of shell, with their words as the shell would hand them over. Pure.

Parsed with the grammar of bash (tree-sitter-bash 0.25), which also reads what sh, zsh and most
agents write, and goes on after what it cannot read. Commands within commands are found: in `sh -c`,
`eval`, `$(…)`, a document for a shell, words for a shell at the end of a pipe, a function that is
called. What only running it would tell is None. A variable that the line gives one value is told
twice: without the value, as anything may have come between, and with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from upthread.core.lazy_dataclass import dataclass, replace
from upthread.core.lazy_regex import regex
from upthread.core.outward.nested_commands import (
    ASSIGNED,
    ASSIGNING,
    HOLE,
    SHELLS,
    Known,
    Word,
    aliases_in,
    arguments_of,
    given_by_xargs,
    known_in,
    lines_run_by,
    name_of,
    output_of,
    unwrapped,
    without_wrapper,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

COMMAND_CHARACTERS_MAX: Final = 100_000
"""How much of a line is read: no shell takes a longer word, and nobody writes a longer line."""

DEPTH_MAX: Final = 8
"""How many shells within shells are looked into."""

ROUGH_WORDS_MAX: Final = 32
"""How many words of a line that cannot be read may begin a command, and how many one has."""

COMMANDS_MAX: Final = 100_000
"""How many commands of a line are read: functions that call functions may be any number."""

INTERPRETERS: Final = regex(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|Rscript|pwsh|osascript|tsx|ts-node"
    r"|expect)[\d.]*"
)
"""Programs that run code in another language."""

_ESCAPED: Final = regex(r"\\(?:\n|(.))", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = regex(r"\\(?:\n|([\\$`\"]))")
_ANSI: Final = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
_LETTER: Final = 0xC0
_PAIRS: Final = {
    byte: chr(_LETTER + (byte >> 4)) + chr(_LETTER + (byte & 15)) for byte in range(0x80, 0x100)
}
_PAIR: Final = regex("[\u00c0-\u00cf]{2}")
_NOT_PARSED: Final = regex(r"[\s;&|()]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One command: its words, the program first. `directory` is where a `cd` before it led.

    `written` is what stands there, with what runs it, empty where the line cannot be read and this
    is what a word of it may begin. `is_told_again` where it comes once more with
    what the line itself says of its variables.
    """

    words: tuple[Word, ...]
    directory: str = ""
    written: tuple[Word, ...] = ()
    is_told_again: bool = False


def commands_in(line: str, arguments: Sequence[Word] = ()) -> tuple[ShellCommand, ...]:
    """Return the commands of a line in the order they stand there, those that run others opened.

    `arguments` are what it has as `$1` and so on.
    """
    known = Known(arguments=tuple(arguments))
    return tuple(islice(_commands(line, "", DEPTH_MAX, known), COMMANDS_MAX))


def commands_written(line: str) -> tuple[tuple[Word, ...], ...]:
    """Return the words of a line's commands as they stand there, `sudo` and the like included."""
    root = _parsed(line[:COMMAND_CHARACTERS_MAX])
    return tuple(words for words, _ in _simple_commands(root, Known()))


def tree_of(line: str) -> Node | None:
    """Return a line's tree, None for one that is too long or cannot be read to its end."""
    if len(line) > COMMAND_CHARACTERS_MAX:
        return None
    root = _parsed(line)
    return None if root.has_error else root


def _commands(line: str, directory: str, depth: int, known: Known) -> Iterator[ShellCommand]:
    root = _parsed(line[:COMMAND_CHARACTERS_MAX])
    known = known_in(root, known, source_of)
    where = directory
    for words, node in _simple_commands(root, known):
        for name, value in aliases_in(words):
            # From here on: what stands before it in the line is run without.
            known = known.with_alias(name, value)
        full = words_of(node, known) if node else words
        yield from _one(words, where, depth, known, node, is_told_again=full != words)
        # Both are judged: to know a value must not make a judgement milder (ADR 90).
        if full and full != words:
            yield from _one(full, where, depth, known, node)
        if words[0] == "cd":
            where = _joined(where, _first_operand(words))
    if root.has_error:
        yield from _rough(line[:COMMAND_CHARACTERS_MAX], where)


def _one(
    words: tuple[Word, ...],
    where: str,
    depth: int,
    known: Known,
    node: Node | None,
    *,
    is_told_again: bool = False,
) -> Iterator[ShellCommand]:
    """Yield a command, or what it runs; and what it runs beside that."""
    inner = unwrapped(words)
    # What is not known inside a line for a shell is a hole, so that the rest of it is still read.
    if isinstance(inner, str) and node is not None:
        loose = unwrapped(words_of(node, known, hole=HOLE))
        inner = loose if isinstance(loose, str) else inner
    if isinstance(inner, str):
        inside = replace(known, arguments=arguments_of(words) or known.arguments)
        # Too deep to be parsed is not passed: it is read word by word.
        yield from _commands(inner, where, depth - 1, inside) if depth else _rough(inner, where)
        return
    if not inner:
        return
    yield ShellCommand(words=inner, directory=where, written=words, is_told_again=is_told_again)
    if not depth:
        return
    # Without arguments there is nothing to add: its body stands in the line, and is read there.
    # One that calls itself with the same words does again what was read of it.
    if inner[0] in known.functions and inner[1:] and inner not in known.entered:
        inside = replace(known, arguments=inner[1:], entered=known.entered | {inner})
        yield from _commands(known.functions[inner[0] or ""], where, depth - 1, inside)
    for line in lines_run_by(inner, known.aliases):
        yield from _commands(line, where, depth - 1, known.without_alias(inner))


def _rough(line: str, directory: str) -> Iterator[ShellCommand]:
    """Yield what may be commands of a line that cannot be read: any word may begin one."""
    for piece in line.splitlines():
        words = [word.strip("'\"`") for word in _NOT_PARSED.split(piece) if word]
        for at in range(min(len(words), ROUGH_WORDS_MAX)):
            yield ShellCommand(words=tuple(words[at : at + ROUGH_WORDS_MAX]), directory=directory)


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415  # most verbs read no command
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


# --- the tree ------------------------------------------------------------------------------------


def _simple_commands(root: Node, known: Known) -> Iterator[tuple[tuple[Word, ...], Node | None]]:
    """Yield each command's words, in order; and for a program that is fed, what it is fed."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        # A stack of our own: lines may be nested deeper than Python recurses.
        waiting += reversed(node.named_children)
        if node.type == "command":
            words = words_of(node)
            yield from ((each, node) for each in filter(None, [words]))
            yield from _without_node(_fed_by_document(node, words))
        elif node.type == "pipeline":
            yield from _without_node(_fed_by_pipe(node, known))
        elif node.type == "redirected_statement":
            commands = (each for each in node.named_children if each.type == "command")
            words = next(map(words_of, commands), ())
            yield from _without_node(_fed_by_document(node, words))
            yield from _without_node(_fed_by_file(node, words))


def _without_node(
    found: Iterator[tuple[Word, ...]],
) -> Iterator[tuple[tuple[Word, ...], None]]:
    yield from ((words, None) for words in found if words)


def words_of(
    command: Node, known: Known | None = None, *, hole: str | None = None
) -> tuple[Word, ...]:
    """Return a command's words, without what is assigned before them.

    With what is `known` of the line's names; `hole` stands for what is not, None for the word.
    """
    words: list[Word] = []
    for child in command.children:
        if child.type == "command_name":
            words += (
                _words(child.named_children[0], known, hole) if child.named_children else [None]
            )
        elif not child.is_named or _is_assigning(words, child):
            words.append(source_of(child))  # `==` and `=~` are words anywhere but in a test
        elif not child.type.endswith(("_redirect", "variable_assignment")):
            words += _words(child, known, hole)
    return tuple(None if not hole and word and HOLE in word else word for word in words)


def _is_assigning(words: Sequence[Word], node: Node) -> bool:
    """Whether a word is an `A=b` for the program before it, whatever its value."""
    return (
        bool(words)
        and name_of(words[0]) in ASSIGNING
        and ASSIGNED.match(source_of(node)) is not None
    )


def _words(node: Node, known: Known | None, hole: str | None) -> list[Word]:
    """Return the words that one becomes: none or more where it is a value in no quotes."""
    if known is not None and (several := known.words_of(node, source_of)) is not None:
        return [*several]
    return [_text(node, known, hole)]


def _text(node: Node, known: Known | None = None, hole: str | None = None) -> Word:
    """Return a word as the shell would hand it over, None where only running it would tell."""
    if node.type in {"string", "concatenation"}:
        return _joined_pieces(node, known, hole)
    read = _READERS.get(node.type)
    if read is not None and (said := read(node)) is not None:
        return said
    value = known.value_of(node, source_of) if known is not None else None
    return hole if value is None else value


def _joined_pieces(node: Node, known: Known | None, hole: str | None) -> Word:
    """Return a word of several pieces, some of which may be values."""
    if node.type == "string" and all(each.type == "string_content" for each in node.named_children):
        return _unescaped_in_quotes(source_of(node)[1:-1])
    quotes = 1 if node.type == "string" else 0
    at, end = node.start_byte + quotes, node.end_byte - quotes
    pieces: list[str] = []
    for child in node.named_children:
        is_content = child.type == "string_content"
        said = _unescaped_in_quotes(source_of(child)) if is_content else _text(child, known, hole)
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


def word_of(node: Node) -> Word:
    """Return a word as the shell would hand it over, None where only running it would tell."""
    return _text(node)


def source_of(node: Node) -> str:
    """Return what stands in the line where a node is."""
    return _shown(node.text or b"")


def _shown(text: bytes) -> str:
    shown = text.decode()
    if shown.isascii():
        return shown
    return _PAIR.sub(_byte_of, shown).encode("latin-1").decode("utf-8", "replace")


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
    return _ESCAPED.sub(lambda found: found[1] or "", source_of(node))


def _unescaped_in_quotes(text: str) -> str:
    return _ESCAPED_IN_QUOTES.sub(lambda found: found[1] or "", text)


def _raw(node: Node) -> Word:
    return source_of(node)[1:-1]


def _ansi(node: Node) -> Word:
    return _ESCAPED.sub(lambda found: _ANSI.get(found[1] or "", ""), source_of(node)[2:-1])


_READERS: Final[dict[str, Callable[[Node], Word]]] = {
    "word": _plain,
    "number": _plain,
    "raw_string": _raw,
    "ansi_c_string": _ansi,
}


def _fed_by_pipe(pipeline: Node, known: Known) -> Iterator[tuple[Word, ...]]:
    """Yield what each command of a pipe runs of what is written into it, as if it were told so."""
    for before, after in pairwise(_last_commands(pipeline)):
        words = words_of(after) if after is not None else ()
        said = output_of(words_of(before, known, hole=HOLE)) if before is not None else None
        if _is_fed(words):
            program, *rest = (words_of(before) if before is not None else ()) or (None,)
            # `cat a.sh | sh` runs a file that can be read; all other output is not known.
            file = rest[-1] if rest and name_of(program) == "cat" else None
            yield (name_of(without_wrapper(words)[0]), *(("-c", said) if said else (file,)))
        else:
            told = tuple((said or HOLE).split())
            yield tuple(
                None if word and HOLE in word else word for word in given_by_xargs(words, told)
            )


def _last_commands(pipeline: Node) -> list[Node | None]:
    """Return the command of each stage of a pipe, None for one that is several."""
    stages = [each for each in pipeline.named_children if each.type != "comment"]
    opened = [
        each.named_children[0]
        if each.type == "redirected_statement" and each.named_children
        else each
        for each in stages
    ]
    return [each if each.type == "command" else None for each in opened]


def _fed_by_document(node: Node, words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield a shell that reads a document, as if it were `sh -c`; and so for other languages."""
    redirects = [
        each
        for each in node.named_children
        if each.type in {"heredoc_redirect", "herestring_redirect"}
    ]
    bodies = [
        source_of(body).strip("'\"")
        for redirect in redirects
        for body in redirect.named_children
        if body.type in {"heredoc_body", "string", "raw_string"}
    ]
    if not bodies:
        return
    if _is_fed(words):
        yield (name_of(without_wrapper(words)[0]), "-c", "\n".join(bodies))
    for redirect in redirects:  # `cat <<EOF | bash` is a pipe within the document's mark
        for pipe in redirect.named_children:
            last = pipe.named_children[-1:] if pipe.type == "pipeline" else []
            after = words_of(last[0]) if last and last[0].type == "command" else ()
            if _is_fed(after):
                yield (name_of(without_wrapper(after)[0]), "-c", "\n".join(bodies))


def _fed_by_file(node: Node, words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield what a command is fed from a file, as if it were `cat` of it, or a script's run."""
    for redirect in node.named_children:
        if redirect.type == "file_redirect" and any(each.type == "<" for each in redirect.children):
            file = [_text(each) for each in redirect.named_children[-1:]]
            yield ("cat", *file)
            if _is_fed(words):
                yield (name_of(without_wrapper(words)[0]), *file)


def _is_fed(words: Sequence[Word]) -> bool:
    """Whether a command is a shell, or the like, that reads what it does from its input."""
    words = without_wrapper(tuple(words))
    name = name_of(words[0]) if words else ""
    if name not in SHELLS and not INTERPRETERS.fullmatch(name):
        return False
    rest = [word for word in words[1:] if word is None or word == "-" or not word.startswith("-")]
    is_told = any(word in {"-c", "-e", "-m", "-p", "--eval"} for word in words[1:])
    return not is_told and (not rest or rest[0] in {"-", "/dev/stdin"} or "-s" in words)


def _first_operand(words: Sequence[Word]) -> str:
    return next((word for word in words[1:] if word and not word.startswith("-")), "")


def _joined(directory: str, to: str) -> str:
    """Return where `cd` leads, in words; nothing is looked up."""
    if to.startswith(("/", "~")) or not directory:
        return to.rstrip("/") or to
    return f"{directory}/{to}".rstrip("/")
