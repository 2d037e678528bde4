"""Hold the source to its size and shape: `python tools/size_budget.py DIRECTORY`.

Fails when a function, a file, a list of parameters, a folder or the share of modules that are
named by a gerund is over its budget. Prints median, ninetieth percentile and the largest of each,
so that growth is seen before it hurts.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 800
FILE_LINES_MAX_OF = {"handshake.py": 199}
"""What decides fits on a few screens. Its rules, inputs and words are files beside it."""
PARAMETERS_MAX = 8
FOLDER_MODULES_MAX: int | None = 25
"""How many modules may lie in one folder, those in folders within it not counted. None: shown."""
FOLDER_MODULES_MAX_OF = {"verbs": 40}
"""The command line has one file for each verb."""
GERUNDS_PERCENT_MAX: float | None = 3.0
"""How many of the modules may be named by what is being done, not by what is there. None: shown."""

NOUNS = {"briefing", "string"}
"""Words in -ing that are things: a briefing is a document."""
PARTICLES = {"back", "into", "out", "over", "up"}
"""`looking_back` is a gerund, where `working_tree` is a kind of tree."""


class Measured(NamedTuple):
    """Something with a size and the most it may have, None for no limit. `name` is where it is."""

    size: float
    unit: str
    name: str
    size_max: float | None

    @property
    def is_over(self) -> bool:
        """Whether there is a limit, and this is over it."""
        return self.size_max is not None and self.size > self.size_max

    def __str__(self) -> str:
        return f"{self.name} has {self.size:g} {self.unit}"


def measure_file(path: Path) -> Measured:
    """Return a file's size in lines, comments and blank ones counted."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    return Measured(lines, "lines", str(path), FILE_LINES_MAX_OF.get(path.name, FILE_LINES_MAX))


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return each function and method of a file, nested ones too."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def measure_function(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Measured:
    """Return a function's size in lines, decorators and signature counted, its docstring not.

    Of a verb, only the body counts: the decorators and the signature are a table of its options.
    """
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    if is_verb(path, node):
        first = node.body[0].lineno
    lines = (node.end_lineno or node.lineno) - first + 1
    if ast.get_docstring(node) is not None:
        said = node.body[0]
        lines -= (said.end_lineno or said.lineno) - said.lineno + 1
    return Measured(lines, "lines", f"{path}:{node.name}", FUNCTION_LINES_MAX)


def measure_parameters(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Measured | None:
    """Return how many parameters a public function has, self not counted; None for another."""
    is_public = not node.name.startswith("_") or node.name == "__init__"
    if not is_public or is_verb(path, node):
        return None
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given = [each for each in every if each.arg not in {"self", "cls"}]
    return Measured(len(given), "parameters", f"{path}:{node.name}", PARAMETERS_MAX)


def is_verb(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a verb of the command line."""
    first = next(iter(node.args.args), None)
    return "cli" in path.parts and first is not None and _type_of(first) == "Call"


def _type_of(parameter: ast.arg) -> str:
    return parameter.annotation.id if isinstance(parameter.annotation, ast.Name) else ""


def modules_in(paths: list[Path]) -> list[Path]:
    """Return the modules that have a name of their own: neither `__init__` nor `__main__`."""
    return [path for path in paths if not path.stem.startswith("__")]


def measure_folders(paths: list[Path]) -> Iterator[Measured]:
    """Return how many modules each folder has at its own level."""
    for folder, count in Counter(path.parent for path in modules_in(paths)).items():
        most = FOLDER_MODULES_MAX_OF.get(folder.name, FOLDER_MODULES_MAX)
        yield Measured(count, "modules", str(folder), most)


def is_gerund(name: str) -> bool:
    """Return whether a module is named by what is being done: `draining`, `looking_back`."""
    first, *_, last = ("", *name.strip("_").split("_"))[-2:]
    acts = [word.endswith("ing") and word not in NOUNS for word in (first, last)]
    return acts[1] or (acts[0] and last in PARTICLES)


def measure_gerunds(paths: list[Path]) -> Measured:
    """Return which percentage of the modules is named by a gerund, and how many are."""
    modules = modules_in(paths)
    gerunds = sum(is_gerund(path.stem) for path in modules)
    share = round(100 * gerunds / max(1, len(modules)), 1)
    unit = f"% of modules named by a gerund ({gerunds} of {len(modules)})"
    return Measured(share, unit, "the source", GERUNDS_PERCENT_MAX)


def summary(what: str, measured: list[Measured]) -> str:
    """Return one line: count, median, ninetieth percentile, and the largest by name."""
    sizes = sorted(one.size for one in measured)
    ninetieth = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    largest = max(measured, key=lambda one: (one.size, one.name))
    return (
        f"{len(sizes)} {what}: median {statistics.median(sizes):g}, p90 {ninetieth:g}, "
        f"max {largest.size:g} ({largest.name})"
    )


def main(arguments: list[str]) -> int:
    """Return 1 when something is over its budget, 2 when there is nothing to measure."""
    paths = sorted(path for argument in arguments for path in Path(argument).rglob("*.py"))
    every = [(path, node) for path in paths for node in functions_of(path)]
    if not every:
        print("usage: size_budget.py DIRECTORY, one that holds Python source", file=sys.stderr)
        return 2
    counted = (measure_parameters(path, node) for path, node in every)
    measured = {
        "files": [measure_file(path) for path in paths],
        "functions": [measure_function(path, node) for path, node in every],
        "lists of parameters": [each for each in counted if each],
        "folders": list(measure_folders(paths)),
    }
    for what, each in measured.items():
        if each:
            print(summary(what, each))
    gerunds = measure_gerunds(paths)
    print(gerunds)
    over = [one for each in (*measured.values(), [gerunds]) for one in each if one.is_over]
    for one in sorted(over, reverse=True):
        print(f"{one}, {one.size_max:g} allowed")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
