"""What a line of shell says of its own names: variables, functions, aliases, what is echoed. Pure.

A variable is known where the whole line gives it one value in plain words, and nothing in it reads
or adds to it. What else may have happened to it is why a command is told without as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from upthread.core.outward.nested_commands import HOLE, Word, name_of

if TYPE_CHECKING:
    from tree_sitter import Node

Source: TypeAlias = Callable[["Node"], str]

_NOT_PLAIN: Final = re.compile(r"""[\s;&|()<>$`"'\\*?\[\]{}~#!]""")
_NAME: Final = re.compile(r"\$\{?([A-Za-z_]\w*|[@*]|\d)(?::?[-=+?][^}]*)?\}?")
_DEFAULT: Final = re.compile(r"\$\{[A-Za-z_]\w*:?[-=]([^}$`]*)\}")
_WHICH: Final = re.compile(r"(?:\$\(|`)\s*(?:which|command -v|type -[pP])\s+([\w./+-]+)\s*(?:\)|`)")
_FORMAT: Final = re.compile(r"%(?:%|[-0-9.]*([bdqsu]))")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\\": "\\", r"\"": '"', r"\'": "'"}
_ESCAPE: Final = re.compile(r"""\\[nt\\"']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known where a command stands. `arguments` are `$1` and so on, None for one unknown.

    `functions` have their bodies; `aliases` those of the shell, and those of git as `git NAME`.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[Word, ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])

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
