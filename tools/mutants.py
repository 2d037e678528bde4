"""Change single statements of the source and list the changes that no test notices.

`python tools/mutants.py --sample 40 --seed 7`. Each change is tried on a copy of the source, with
the tests that TARGETS names for its file. What is listed either changes nothing that anybody could
see, or lacks a test: a person says which. Nothing in the working tree is touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
TIMEOUT_S: Final = 300
"""After so long a run of tests is taken to have noticed: it hangs."""

TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "runtime/turns/delivery.py": (
        "tests/runtime/test_sending.py",
        "tests/runtime/test_effects.py",
        "tests/runtime/test_recovery.py",
    ),
    "runtime/turns/recovery.py": (
        "tests/runtime/test_recovery.py",
        "tests/runtime/test_effects.py",
    ),
    "runtime/permissions/gate.py": ("tests/runtime/test_gate.py",),
    "surfaces/hook/begun.py": ("tests/surfaces/hook",),
    "surfaces/hook/delegation.py": ("tests/surfaces/hook",),
    "surfaces/hook/handover.py": ("tests/surfaces/hook",),
    "surfaces/hook/main_session.py": ("tests/surfaces/hook",),
}

_OPPOSITE: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Mutant(NamedTuple):
    """A changed source. `line` is where, from 1, `what` the statement as it was and became."""

    line: int
    what: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield each source that differs from this one in one place, in order of place."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        changed = _changed(node)
        if changed is None:
            continue
        other = copy.deepcopy(tree)
        at = next(each for index, each in enumerate(ast.walk(other)) if index == number)
        became = _Replacement(at, changed).visit(other)
        was, now = ast.unparse(node).splitlines()[0], ast.unparse(changed).splitlines()[0]
        line = getattr(node, "lineno", 0)
        yield Mutant(line, f"{was}  →  {now}", ast.unparse(ast.fix_missing_locations(became)))


def _changed(node: ast.AST) -> ast.AST | None:
    """Return what takes a node's place, None for one that is left alone."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Return(value=None | ast.Constant(value=None)):
            changed: ast.AST | None = None
        case ast.Expr() | ast.Raise() | ast.AugAssign():
            changed = ast.Pass()
        case ast.Return():
            changed = ast.Return(value=ast.Constant(value=None))
        case ast.If() | ast.IfExp():
            changed = copy.copy(node)
            changed.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            changed = ast.BoolOp(op=other, values=node.values)
        case ast.Compare() if type(node.ops[0]) in _OPPOSITE:
            first = _OPPOSITE[type(node.ops[0])]()
            changed = ast.Compare(node.left, [first, *node.ops[1:]], node.comparators)
        case _:
            changed = None
    return changed


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


def is_noticed(package: Path, tests: tuple[str, ...]) -> bool:
    """Whether tests fail, or hang, on a copy of the package."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode != 0


def survivors(sample: list[tuple[str, Mutant]]) -> Iterator[tuple[str, Mutant]]:
    """Yield the mutants of a sample that no test notices."""
    with tempfile.TemporaryDirectory() as directory:
        package = Path(directory) / "upthread"
        shutil.copytree(ROOT / "src" / "upthread", package)
        for name, mutant in sample:
            file = package / name
            whole = file.read_text()
            file.write_text(mutant.source)
            if not is_noticed(package, TARGETS[name]):
                yield name, mutant
            file.write_text(whole)


def main(arguments: list[str] | None = None) -> None:
    """Print the survivors of a sample, and how many there were of how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", help="the part of the package to change: runtime/permissions/gate.py"
    )
    asked = parser.parse_args(arguments)
    every = [
        (name, mutant)
        for name in TARGETS
        if asked.only in {None, name}
        for mutant in mutants_of((ROOT / "src" / "upthread" / name).read_text())
    ]
    chosen = random.Random(asked.seed).sample(every, min(asked.sample, len(every)))
    count = 0
    for name, mutant in survivors(chosen):
        count += 1
        print(f"{name}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{count} of {len(chosen)} survived, {len(every)} in all")


if __name__ == "__main__":
    main()
