"""Take the pictures of the docs: `python -m tools.take_pictures`, a part of `make docs`.

The example goes through the pipeline in an empty home. The record is opened as a reader would: in
`upthread web` by a real browser, wide and as narrow as a telephone, and by `show --tree` in a
terminal. Ids and times differ from one run to the next, so pictures are taken when something that
they show has changed, and not compared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.chromium import CHROMIUM, screenshot
from tests.support.decisions_told import decisions_told
from tools.record_demo import drawn

from upthread.core.decision.words import RESUME
from upthread.surfaces.cli.verbs.demo import set_up

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WORKSTREAM = "spec-42"
WIDE, NARROW = 1400, 400
HEIGHTS = {"list": 420, "timeline": 1300, "decision": 1000}
WAITING = 4
"""How a command ends that waits for a person."""


class Place(NamedTuple):
    """Where the example was worked on: a project, and a home of ours."""

    project: Path
    environment: Mapping[str, str]

    def upthread(self, *words: str, code: int = 0) -> str:
        """Return what the program writes there."""
        command = (sys.executable, "-m", "upthread", *words)
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, capture_output=True, check=False
        )
        if done.returncode != code:
            raise SystemExit(f"{words} ended with {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()


@contextmanager
def played() -> Iterator[Place]:
    """Take the example through the pipeline, and return where."""
    with tempfile.TemporaryDirectory() as directory:
        project, environment = set_up(Path(directory) / "kept")
        home = {"HOME": directory, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        ours = {name: text for name, text in environment.items() if "UPTHREAD" in name}
        place = Place(project, {**home, **ours})
        agent = ("--agent", "rehearsal")
        place.upthread("run", WORKSTREAM, "--spec", "spec.md", *agent, code=WAITING)
        place.upthread("answer", WORKSTREAM, "opening", "Good day", code=WAITING)
        place.upthread("answer", WORKSTREAM, "stranger", "whoever you are")
        place.upthread("run", WORKSTREAM)
        # Two more, so that a list is one: a run that waits for a person, and a turn that was told.
        place.upthread("run", "spec-43", "--spec", "spec.md", *agent, code=WAITING)
        place.upthread(
            "tell", "docs/planner", "[[rehearse: say First the page of the greeter.]]", *agent
        )
        yield place


@contextmanager
def served(place: Place) -> Iterator[str]:
    """Serve the record, and return the address that lets a browser in."""
    words = (sys.executable, "-m", "upthread", "web", "--no-open")
    with subprocess.Popen(
        words, cwd=place.project, env=place.environment, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+", server.stderr.readline())
            assert found is not None
            yield found[0]
        finally:
            server.terminate()


def main() -> int:
    """Write them all; without a browser, say so."""
    if CHROMIUM is None:
        sys.stderr.write("the pictures are as they were: Debian's chromium is not installed\n")
        return 0
    PICTURES.mkdir(exist_ok=True)
    with played() as place, tempfile.TemporaryDirectory() as directory:
        browser = Path(directory)
        words = ("show", WORKSTREAM, "--tree")
        tree = drawn(place.upthread(*words), command=f"$ upthread {' '.join(words)}", name="tree")
        (PICTURES / "tree.svg").write_text(tree, "utf-8")
        pages = {"list": "/?", "timeline": f"/workstream?name={WORKSTREAM}&"}
        with served(place) as address:
            # The token in an address lets a browser in, and leads to the same page without it.
            host, _, token = address.partition("/?")
            for name, path in pages.items():
                take(f"{host}{path}{token}", browser, name)
        take(opened_turn(place, browser), browser, "decision")
    return 0


def take(page: Path | str, browser: Path, name: str) -> None:
    """Take a page, wide and narrow."""
    for width in (WIDE, NARROW):
        height = HEIGHTS[name] * (1 if width == WIDE else 2)
        taken = screenshot(page, browser, name=name, width=width, height=height)
        shutil.copy(taken, PICTURES / taken.name)


def opened_turn(place: Place, browser: Path) -> Path:
    """Return the audit's page with one turn in it: one that resumed its session, unfolded."""
    whole = place.upthread("audit", WORKSTREAM, "--format", "html")
    (head, _, _), turns = whole.partition("<main"), whole.split('<details class="turn"')[1:]
    resumed = (each for each in reversed(turns) if RESUME in decisions_told(each))
    turn = next(each for each in resumed if 'class="call"' in each)
    page = browser / "turn.html"
    page.write_text(f'{head}<main><section class="role"><details class="turn" open{turn}', "utf-8")
    return page


if __name__ == "__main__":
    sys.exit(main())
