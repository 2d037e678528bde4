"""Print how the source stands: what a resumed `tell` crosses, cycles, comments in each layer.

`python -m tools.figures`, with `--crossed` for the files themselves. Sizes, folders and names are
size_budget's. Only CROSSED_MAX is a limit here; a cycle fails where imports are checked.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import grimp
from tools.contracts import cycle_in
from tools.counting import find_comments, measure_python

from upthread.surfaces.cli.program import main as upthread

CROSSED_MAX: int | None = None
"""How many files of ours a resumed `tell` may run functions of. None: shown, not held to."""
SOURCE = Path(__file__).resolve().parent.parent / "src" / "upthread"


# --- what a resumed turn crosses -----------------------------------------------------------------


def crossed_files() -> list[str]:
    """Return the files of ours of which a resumed `tell` runs a function, in this process.

    The agent is the rehearsal agent, a process of its own that is not counted. The turn is the
    third: the first opens the session, the second has loaded what is loaded late, so that a
    function that runs while a module is imported is not taken for a part of the turn.
    """
    with tempfile.TemporaryDirectory(prefix="upthread-figures-") as place, _at_home(Path(place)):
        _tell()
        _tell()
        with _noticed() as codes:
            decision = _tell()
    if decision not in {"resume", "resume_with_update"}:
        raise RuntimeError(f"the session was not resumed, but: {decision}")
    files = {Path(code.co_filename) for code in codes}
    return sorted(str(each.relative_to(SOURCE)) for each in files if each.is_relative_to(SOURCE))


def _tell() -> str:
    """Take one turn, as a person would at a terminal; returns what was decided."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = upthread(["tell", "figures/planner", "Say hello.", "--agent", "rehearsal", "--json"])
    if code:
        raise RuntimeError(f"the turn ended with {code}: {said.getvalue()}")
    told = [json.loads(line) for line in said.getvalue().splitlines()]
    return next(each["decision"] for each in told if "decision" in each)


@contextlib.contextmanager
def _at_home(place: Path) -> Iterator[None]:
    """Stand in an empty project, with a home of its own."""
    before, stood = dict(os.environ), Path.cwd()
    (place / "project").mkdir()
    os.environ.update(HOME=str(place), UPTHREAD_HOME=str(place / "home"), NO_COLOR="1")
    os.chdir(place / "project")
    try:
        yield
    finally:
        os.chdir(stood)
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _noticed() -> Iterator[set[CodeType]]:
    """Notice each function that begins, in every thread that is started meanwhile."""
    codes: set[CodeType] = set()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        # The bodies of modules and of classes are code as well, and are no function's.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            codes.add(frame.f_code)

    threading.setprofile(notice)
    sys.setprofile(notice)
    try:
        yield codes
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


# --- imports and comments ------------------------------------------------------------------------


def comments_and_code(text: str) -> tuple[int, int]:
    """Return how many comments a source has, and lines of code; docstrings are neither."""
    return len(find_comments(text)), measure_python(text).code_lines


def comments_by_layer(source: Path) -> dict[str, float]:
    """Return the comments for each 100 lines of code, by layer, and of `all`."""
    counted: dict[str, list[tuple[int, int]]] = {"all": []}
    for path in sorted(source.rglob("*.py")):
        layer = path.relative_to(source).parts[0].removesuffix(".py")
        found = comments_and_code(path.read_text(encoding="utf-8"))
        counted["all"].append(found)
        if (source / layer).is_dir():
            counted.setdefault(layer, []).append(found)
    return {
        layer: round(
            100 * sum(each for each, _ in found) / max(1, sum(each for _, each in found)), 1
        )
        for layer, found in counted.items()
    }


def main(arguments: list[str]) -> int:
    """Print the figures; returns 1 when a turn crosses more files than it may."""
    crossed = crossed_files()
    if "--crossed" in arguments:
        print("\n".join(crossed))
    layers = Counter(each.partition("/")[0].removesuffix(".py") for each in crossed)
    among = ", ".join(f"{layer} {count}" for layer, count in sorted(layers.items()))
    print(f"a resumed tell crosses {len(crossed)} files: {among}")
    circle = cycle_in(grimp.build_graph("upthread", cache_dir=None))
    print(
        "the graph of imports has " + (f"a cycle: {' <- '.join(circle)}" if circle else "no cycle")
    )
    by_layer = ", ".join(f"{layer} {share:g}" for layer, share in comments_by_layer(SOURCE).items())
    print(f"comments for each 100 lines of code: {by_layer}")
    return 1 if CROSSED_MAX is not None and len(crossed) > CROSSED_MAX else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
