"""Change single statements of the source and list the changes that no test notices.

`python tools/mutants.py --sample 60 --seed 37 --set all`. The changes come from all packages.
One run of the chosen set of tests, on a copy of the repository with a probe before each drawn
statement, records which tests execute which statement, child processes included. Then each
change is judged by the tests that execute its statement: with `--set all` first by those of the
first set, and where they notice nothing by the others.

A change that survives either alters nothing that anybody could see, or lacks a test: a person
decides which. Nothing in the working tree is touched.
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
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/upthread")
SETS = {"first": "not extended and not soak", "all": "not soak"}
"""For each set of tests, its marker expression. `all` is what CI runs."""

TIMEOUT_S = 900
"""After this time, a run of tests counts as having noticed the change, because it hangs."""

TESTS_TRIED_MAX = 400
"""A statement that more tests execute is judged by so many of them, the quickest first."""

COPIED = ("src", "tests", "tools", "examples", "docs", "bench", "requirements")

_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
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
    """One changed file: `what` changed at `line` (from 1) gives `source`.

    `statement` numbers the statement that holds the change, in the order of `ast.walk`.
    """

    line: int
    what: str
    source: str
    statement: int


def mutants_of(source: str, wanted: Container[int] | None = None) -> Iterator[Mutant]:
    """Yield each source that differs from this one in one place of a function, in order.

    `wanted` selects mutants by their number from 0; None for all.
    """
    tree = ast.parse(source)
    count = 0
    for number, (node, statement) in enumerate(_inside_functions(tree)):
        changed = _changed(node)
        if changed is None:
            continue
        count += 1
        if wanted is not None and count - 1 not in wanted:
            continue
        other = copy.deepcopy(tree)
        target, _ = next(each for at, each in enumerate(_inside_functions(other)) if at == number)
        became = _Replacement(target, [changed]).visit(other)
        was, now = ast.unparse(node).splitlines()[0], ast.unparse(changed).splitlines()[0]
        what = f"{was}  →  {now}"
        text = ast.unparse(ast.fix_missing_locations(became))
        place = next(at for at, each in enumerate(ast.walk(tree)) if each is statement)
        yield Mutant(getattr(node, "lineno", 0), what, text, place)


def _inside_functions(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """Yield each node within a function, with the innermost statement that holds the node."""
    waiting: list[tuple[ast.AST, ast.stmt | None, bool]] = [(tree, None, False)]
    while waiting:
        node, statement, is_inside = waiting.pop()
        if isinstance(node, ast.stmt):
            statement = node
        if is_inside and statement is not None:
            yield node, statement
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        children = node.body if is_function else list(ast.iter_child_nodes(node))
        inside = is_inside or is_function
        waiting += [(child, statement, inside) for child in reversed(children)]


def with_probes(source: str, keys: Mapping[int, list[int]]) -> str:
    """Return a source that records a key before each statement that `keys` numbers."""
    tree = ast.parse(source)
    statements = {at: node for at, node in enumerate(ast.walk(tree)) if at in keys}
    for at, statement in statements.items():
        calls = [ast.parse(f"_executed_({key})").body[0] for key in keys[at]]
        tree = _Replacement(statement, [*calls, statement]).visit(tree)
    begin = next(
        at
        for at, node in enumerate(tree.body)
        if not _is_docstring(node) and not _is_future_import(node)
    )
    tree.body[begin:begin] = ast.parse(
        "from executed_statements import executed as _executed_"
    ).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _changed(node: ast.AST) -> ast.AST | None:
    """Return the node that takes a node's place, or None for a node that is left alone."""
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
    def __init__(self, old: ast.AST, new: list[ast.AST]) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if node is not self._old:
            return super().visit(node)
        return self._new[0] if len(self._new) == 1 else self._new


class Drawn(NamedTuple):
    """One mutant of one file. `name` is the file's path within the package."""

    name: str
    mutant: Mutant


def draw(*, sample: int, seed: int, only: str | None = None) -> list[Drawn]:
    """Return the mutants of a sample, in order of file and line; the same for the same seed."""
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = [str(file.relative_to(ROOT / PACKAGE)) for file in files]
    # First the places, then the mutants of the drawn files alone: to make all takes minutes.
    places = [
        (name, number) for name in names if only in {None, name} for number in range(_count(name))
    ]
    drawn = random.Random(seed).sample(places, min(sample, len(places)))
    wanted: dict[str, set[int]] = defaultdict(set)
    for name, number in drawn:
        wanted[name].add(number)
    return [
        Drawn(name, mutant)
        for name in sorted(wanted)
        for mutant in mutants_of((ROOT / PACKAGE / name).read_text(), wanted[name])
    ]


def _count(name: str) -> int:
    tree = ast.parse((ROOT / PACKAGE / name).read_text())
    return sum(_changed(node) is not None for node, _ in _inside_functions(tree))


# --- the copy of the repository ------------------------------------------------------------------


PLUGIN = '''\
"""Notes which test runs in which process, and how long each takes."""
import os, time
import pytest
HITS = os.environ["UPTHREAD_MUTANTS"]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    import executed_statements
    nodeid = item.nodeid.partition("@")[0]
    with open(f"{HITS}/test.{os.getpid()}", "w") as file:
        file.write(nodeid)
    executed_statements.begin(nodeid)
    began_s = time.monotonic()
    try:
        return (yield)
    finally:
        with open(f"{HITS}/times.{os.getpid()}", "a") as file:
            file.write(f"{time.monotonic() - began_s}\\t{nodeid}\\n")
'''

RECORDER = '''\
"""Notes which statement a process executes first on behalf of which test."""
import os
HITS = {hits!r}
_seen = set()
_test = None

def _parent(pid):
    with open(f"/proc/{{pid}}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])

def _current():
    pid = os.getpid()
    try:
        while pid > 1:
            path = f"{{HITS}}/test.{{pid}}"
            if os.path.exists(path):
                with open(path) as file:
                    return file.read()
            pid = _parent(pid)
    except OSError:
        pass
    return ""

def begin(test):
    global _test
    _seen.clear()
    _test = test

def executed(key):
    global _test
    if key in _seen:
        return
    _seen.add(key)
    if _test is None:
        _test = _current()
    try:
        file = os.open(f"{{HITS}}/hits", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(file, f"{{key}}\\t{{_test}}\\n".encode())
        os.close(file)
    except OSError:
        pass

def _forget():
    global _test
    _seen.clear()
    _test = None

os.register_at_fork(after_in_child=_forget)
'''


class Laboratory:
    """A copy of the repository with an environment of its own, so that child processes use it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hits = directory / "hits"
        self.hits.mkdir()
        for name in COPIED:
            shutil.copytree(ROOT / name, directory / name, symlinks=True)
        for file in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.json")):
            shutil.copy(file, directory)
        for name in (".ci", "Makefile", "LICENSE", ".gitignore"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, directory / name)
        for name in (".agents", ".frameworks"):
            if (ROOT / name).exists():
                (directory / name).symlink_to(ROOT / name)
        self._make_environment()

    def _make_environment(self) -> None:
        environment = self.directory / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        (site,) = environment.glob("lib/python*/site-packages")
        ours = next(Path(each) for each in sys.path if each.endswith("site-packages"))
        (site / "mutants.pth").write_text(f"{self.directory / 'src'}\n{ours}\n")
        (site / "executed_statements.py").write_text(RECORDER.format(hits=str(self.hits)))
        (site / "mutants_plugin.py").write_text(PLUGIN)
        self.python = environment / "bin" / "python"

    def write(self, name: str, source: str) -> None:
        (self.directory / PACKAGE / name).write_text(source, encoding="utf-8")

    def restore(self, name: str) -> None:
        shutil.copy(ROOT / PACKAGE / name, self.directory / PACKAGE / name)

    def run(self, *words: str, processes: int = 2) -> int:
        """Run pytest; returns its exit code, or 1 for a run that does not end."""
        command = [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-n", str(processes), "--dist", "loadgroup", *words]
        environment = {**os.environ, "UPTHREAD_MUTANTS": str(self.hits)}
        with (self.directory / "log").open("ab") as log:
            try:
                return subprocess.run(
                    command,
                    cwd=self.directory,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    timeout=TIMEOUT_S if "-x" in words else None,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return 1

    def tests_by_mutant(self, sample: Sequence[Drawn], expression: str) -> list[list[str]]:
        """Return for each mutant the tests that execute its statement, the quickest first."""
        keys: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for key, drawn in enumerate(sample):
            keys[drawn.name][drawn.mutant.statement].append(key)
        for name, by_statement in keys.items():
            self.write(name, with_probes((ROOT / PACKAGE / name).read_text(), by_statement))
        elsewhere = ("--ignore=tests/live", "--ignore=tests/integrations")
        self.run("-p", "mutants_plugin", "-m", expression, "tests", *elsewhere)
        for name in keys:
            self.restore(name)
        seconds: dict[str, float] = {}
        for file in self.hits.glob("times.*"):
            for line in file.read_text().splitlines():
                taken, _, test = line.partition("\t")
                seconds[test] = float(taken)
        found: list[set[str]] = [set() for _ in sample]
        hits = self.hits / "hits"
        for line in hits.read_text().splitlines() if hits.exists() else ():
            key, _, test = line.partition("\t")
            if test:
                found[int(key)].add(test)
        return [sorted(tests, key=lambda test: seconds.get(test, 0)) for tests in found]

    def first_set(self) -> set[str]:
        """Return the tests of the first set."""
        words = ("-m", "pytest", "-q", "--collect-only", "-m", SETS["first"], "tests")
        listed = subprocess.run(
            [str(self.python), *words], cwd=self.directory, capture_output=True, check=False
        )
        lines = listed.stdout.decode().splitlines()
        return {line.partition("@")[0] for line in lines if "::" in line}

    def is_noticed(self, drawn: Drawn, tests: Sequence[str]) -> bool:
        """Return whether a test fails, or hangs, on the changed source."""
        chosen = list(tests[:TESTS_TRIED_MAX])
        if not chosen:
            return False
        self.write(drawn.name, drawn.mutant.source)
        names = self.directory / "tests-tried"
        names.write_text("\n".join(chosen))
        code = self.run(
            "-x", "--timeout", "120", f"@{names}", processes=1 if len(chosen) < 20 else 2
        )
        self.restore(drawn.name)
        return code != 0


def main(arguments: list[str] | None = None) -> None:
    """Print the mutants of a sample that survive, and how many did of how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--set", choices=SETS, default="first", help="the tests that judge")
    parser.add_argument("--only", help="one file of the package: runtime/permissions.py")
    asked = parser.parse_args(arguments)
    sample = draw(sample=asked.sample, seed=asked.seed, only=asked.only)
    noticed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="upthread-mutants-") as directory:
        laboratory = Laboratory(Path(directory))
        tests = laboratory.tests_by_mutant(sample, SETS[asked.set])
        first = laboratory.first_set()
        for drawn, executing in zip(sample, tests, strict=True):
            verdict = "SURVIVES"
            for name, some in (
                ("first", [test for test in executing if test in first]),
                ("rest", [test for test in executing if test not in first]),
            ):
                if laboratory.is_noticed(drawn, some):
                    noticed[name] += 1
                    verdict = f"noticed by {name}"
                    break
            place = f"{drawn.name}:{drawn.mutant.line}"
            print(f"{verdict}  {place}: {drawn.mutant.what}  ({len(executing)} tests)", flush=True)
    print(
        f"of {len(sample)}, the first set noticed {noticed['first']}, the others "
        f"{noticed['rest']} more; seed {asked.seed}, tests of the set {asked.set!r}"
    )


if __name__ == "__main__":
    main()
