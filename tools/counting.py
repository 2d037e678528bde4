"""Count code lines, syntax nodes, comments and words. Every tool that counts them counts here.

A code line is a line that is neither blank nor a comment nor part of a docstring, so that an
explanation costs nothing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import NamedTuple

GENERATED_PART = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
"""A part of a document that `make docs` writes."""


class Syntax(NamedTuple):
    """How a kind of text file marks comments: prefixes of a line, and the two ends of a block."""

    prefixes: tuple[str, ...] = ()
    block: tuple[str, str] | None = None


_C_BLOCK = ("/*", "*/")
_C_LIKE = ".c .cjs .cts .go .h .java .js .jsx .kt .less .mjs .mts .rs .scss .swift .ts .tsx"
_MARKUP = ".html .md .svelte .svg .vue .xml"
_WITH_HASH = " .cfg .in .lock .rb .sh .toml .yaml .yml"
SYNTAXES = {
    **dict.fromkeys(_C_LIKE.split(" "), Syntax(("//",), _C_BLOCK)),
    **dict.fromkeys(_MARKUP.split(" "), Syntax(block=("<!--", "-->"))),
    # The first suffix is "", for example of a Makefile.
    **dict.fromkeys(_WITH_HASH.split(" "), Syntax(("#",))),
    ".css": Syntax(block=_C_BLOCK),
    ".sql": Syntax(("--",), _C_BLOCK),
}
"""How each language marks comments, by suffix. In a file of another language, all text is code."""

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


class PythonSize(NamedTuple):
    """The size of one Python source."""

    code_lines: int
    ast_nodes: int


def measure_python(text: str) -> PythonSize:
    """Return the code lines and the syntax nodes of a Python source.

    A string that stands alone is a docstring, below a field too. In a longer string every line
    counts that is not blank, also one that begins with `#`.
    """
    nodes = 0
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        nodes += 1
        if isinstance(node, ast.Expr) and _is_string(node.value):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in documented
        if token.type not in _NO_CODE and not is_docstring:
            code.update(range(token.start[0], token.end[0] + 1))
    lines = enumerate(io.StringIO(text), start=1)
    return PythonSize(sum(bool(line.strip()) and number in code for number, line in lines), nodes)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def count_code_lines(text: str, suffix: str) -> int:
    """Return the code lines of a text file that is not Python, for example of suffix `.sql`.

    A block comment must begin its line: `/*` behind code, or in a string, hides no code.
    """
    syntax = SYNTAXES.get(suffix, Syntax())
    count, is_in_block = 0, False
    for line in map(str.strip, text.splitlines()):
        code = line
        while syntax.block and (is_in_block or code.startswith(syntax.block[0])):
            start = 0 if is_in_block else len(syntax.block[0])
            end = code.find(syntax.block[1], start)
            is_in_block = end < 0
            code = "" if is_in_block else code[end + len(syntax.block[1]) :].strip()
            if is_in_block:
                break
        count += bool(code) and not code.startswith(syntax.prefixes)
    return count


def find_comments(text: str) -> list[str]:
    """Return the comments of a Python source without their `#`."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]


def count_written_words(text: str) -> int:
    """Return the words of a Markdown document outside its generated parts."""
    return len(GENERATED_PART.sub(" ", text).split())
