"""Hold the source to its size: `python tools/size_budget.py DIRECTORY`.

Fails when a function's body (its docstring left out) or a file is longer than the budget. Prints
median, ninetieth percentile and the longest of both, so that growth is seen before it hurts.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FUNCTION_LINES_MAX: Final = 60
FILE_LINES_MAX: Final = 500
FILE_LINES_MAX_OF: Final = {"core/handshake.py": 199}
"""The field notes' whole protocol took fewer than 200 lines, and so does ours."""


class Measured(NamedTuple):
    """Something with a size and the most it may have. `name` says where it is."""

    lines: int
    name: str
    lines_max: int


def measure_file(path: Path) -> Measured:
    """Return a file's size in lines, comments and blank ones counted."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    stricter = (most for end, most in FILE_LINES_MAX_OF.items() if path.as_posix().endswith(end))
    return Measured(lines, str(path), next(stricter, FILE_LINES_MAX))


def measure_functions(path: Path) -> Iterator[Measured]:
    """Return the size of each function and method of a file, nested ones too."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{path}:{node.name}"
            yield Measured(_body_lines(node), name, FUNCTION_LINES_MAX)


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return 0
    # A function that begins the body begins with its decorators.
    decorators: list[ast.expr] = getattr(body[0], "decorator_list", [])
    first = min([body[0].lineno, *(decorator.lineno for decorator in decorators)])
    return (node.end_lineno or node.lineno) - first + 1


def summary(what: str, measured: list[Measured]) -> str:
    """Return one line: count, median, ninetieth percentile, and the longest by name."""
    sizes = sorted(one.lines for one in measured)
    ninetieth = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    longest = max(measured)
    return (
        f"{len(sizes)} {what}: median {statistics.median(sizes):g}, p90 {ninetieth}, "
        f"max {longest.lines} ({longest.name})"
    )


def main(arguments: list[str]) -> int:
    """Return 1 when something is over its budget, 2 when there is nothing to measure."""
    paths = sorted(path for argument in arguments for path in Path(argument).rglob("*.py"))
    files = [measure_file(path) for path in paths]
    functions = [one for path in paths for one in measure_functions(path)]
    if not functions:
        print("usage: size_budget.py DIRECTORY, one that holds Python source", file=sys.stderr)
        return 2
    print(summary("files", files))
    print(summary("functions", functions))
    over = [one for one in (*files, *functions) if one.lines > one.lines_max]
    for one in sorted(over, reverse=True):
        print(f"{one.name} has {one.lines} lines, {one.lines_max} allowed: split it")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
