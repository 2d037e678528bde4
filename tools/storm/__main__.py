"""Stop turns in which an outward deed is done, hundreds of times, and have it done again.

    make storm STOPS=2          # twelve stops
    make storm SEED=7 CASE=41   # one of them again

Nothing of upthread is asked whether a deed was done: the far end counts. `twice`: it counted more
than one, and no person had been asked. `lost`: a deed or a prompt that upthread knows nothing of.
`--deeds` does each deed once by hand, without any agent: each must arrive once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from tests.live.agents import AGENTS
from tools.storm.far_end import FarEnd
from tools.storm.kinds import KINDS, Place
from tools.storm.stops import (
    IS_OVER,
    STOPS,
    Case,
    Ending,
    binary_of,
    draw,
    end_all,
    make_shell,
    play,
)

from upthread.testing.rehearsal_model import RehearsalModel

COLUMNS = (
    *("stops", "no stop", "deed before", "held", "asked", "ended well", "did it once"),
    *("twice", "lost", "false hold", "beside", "other"),
)
"""`no stop`: it came too late; `held`: the repetition was; `asked`: a person was asked, or it was
refused; `ended well`: the first turn was stopped and yet did."""

BESIDE_PER_JOB = 3
"""How many cases may be under way for each that may use a processor: the others are frozen."""


def main() -> int:
    """Play the cases; returns 1 if there was any fault."""
    options = _parser().parse_args()
    _have_no_home()
    agents, ways = options.agents.split(","), options.ways.split(",")
    if options.deeds:
        return _do_all_by_hand()
    for each in agents:
        binary_of(each)
    chosen = [options.case] if options.case is not None else range(len(STOPS) * options.stops)
    cases = [draw(options.seed, n, agents) for n in chosen if STOPS[n % len(STOPS)] in ways]
    endings: list[Ending] = []
    started_s = time.monotonic()
    for ending in _played(cases, options.jobs):
        endings.append(ending)
        if not options.json:
            print(_line(ending, len(endings), len(cases)), flush=True)
            if options.case is not None:
                print(*ending.seen, sep="\n")
    again = f"make storm SEED={options.seed} AGENTS={options.agents} CASE="
    if options.json:
        print(
            json.dumps(
                [{**asdict(each), "again": f"{again}{each.case.number}"} for each in endings]
            )
        )
    else:
        _print_end(endings, again, time.monotonic() - started_s)
    return int(any(ending.faults for ending in endings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.storm", description=__doc__)
    parser.add_argument("--stops", type=int, default=100, help="for each way (100)")
    parser.add_argument("--seed", type=int, default=1, help="what all is drawn from (1)")
    parser.add_argument("--case", type=int, help="play this case alone, and tell all of it")
    parser.add_argument("--agents", default=",".join(sorted(AGENTS)))
    parser.add_argument("--ways", default=",".join(STOPS))
    parser.add_argument("--jobs", type=int, default=2, help="how many cases at once (2)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--deeds", action="store_true", help="do each deed by hand, no agent")
    return parser


def _have_no_home() -> None:
    """Nothing that is started here reads anybody's settings, or ignores a signal."""
    os.environ["HOME"] = "/dev/null/home"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def _played(cases: Sequence[Case], jobs: int) -> Iterator[Ending]:
    slots = threading.Semaphore(jobs)

    def played(case: Case) -> Ending:
        with tempfile.TemporaryDirectory(dir=top) as directory:
            try:
                return play(case, far_end, Path(directory), slots)
            except Exception as error:  # noqa: BLE001  # the other cases go on
                fault = ("no case", f"{type(error).__name__}: {error}")
                return Ending(case=case, faults=[fault])

    with (
        tempfile.TemporaryDirectory(prefix="storm-") as top,
        closing(FarEnd()) as far_end,
        ThreadPoolExecutor(jobs * BESIDE_PER_JOB) as pool,
    ):
        try:
            for future in as_completed([pool.submit(played, case) for case in cases]):
                yield future.result()
        finally:
            IS_OVER.set()
            end_all(Path(top))
            pool.shutdown(cancel_futures=True)


# --- what is printed -----------------------------------------------------------------------------


def _marks(ending: Ending) -> set[str]:
    marks = {"stops", *(kind if kind in COLUMNS else "other" for kind, _ in ending.faults)}
    if ending.before:
        marks.add("deed before")
    if ending.held:
        marks.add("held" if ending.held == "held_back" else "asked")
    if not ending.was_stopped:
        marks.add("no stop")
    elif ending.has_ended_well:
        marks.add("ended well")
    if not ending.has_ended_well and not ending.held and ending.count == 1:
        marks.add("did it once")
    return marks


def _line(ending: Ending, n: int, total: int) -> str:
    marks = " ".join(each for each in COLUMNS[1:] if each in _marks(ending))
    ended = f"{ending.count} counted, {ending.seconds:.0f} s"
    worst = "FAULT" if ending.faults else "ok"
    return f"{n}/{total} {ending.case.number}: {ending.case}: {marks}; {ended}; {worst}"


def _print_end(endings: list[Ending], again: str, wall_s: float) -> None:
    print(f"{'':8}", *(f"{name:>11}" for name in COLUMNS))
    for stop in (*STOPS, "all"):
        played = [each for each in endings if stop in {each.case.stop, "all"}]
        counts = Counter(mark for each in played for mark in _marks(each))
        print(f"{stop:8}", *(f"{counts[name]:11}" for name in COLUMNS))
    print(f"{len(endings)} stops in {wall_s:.0f} s: {wall_s / max(1, len(endings)):.1f} s each")
    for ending in sorted(endings, key=lambda each: each.case.number):
        for kind, what in ending.faults:
            case = ending.case
            print(f"\nFAULT {kind}: {case}\n  again: {again}{case.number}")
            print(f"  first {case.first!r}\n  then  {case.second!r}\n  {what}")
            print(*(f"  {each}" for each in ending.seen), sep="\n", flush=True)


# --- the deeds themselves ------------------------------------------------------------------------


def _do_all_by_hand() -> int:
    faults = 0
    with (
        closing(FarEnd()) as far_end,
        RehearsalModel() as model,
        tempfile.TemporaryDirectory(prefix="storm-") as top,
    ):
        every = [(kind, each) for kind, spellings in KINDS.items() for each in spellings]
        for number, (kind, spelling) in enumerate(every):
            directory = Path(top, str(number))
            place = Place(number, port=far_end.port, is_named=number % 2 == 0, directory=directory)
            shell = make_shell(AGENTS["codex"], place, far_end, model, directory)
            words = ["/bin/bash", "-lc", place.fill(spelling)]
            done = subprocess.run(
                words,
                cwd=shell.project,
                env=shell.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            count = far_end.deeds[number].count
            if count != 1:
                faults += 1
                print(f"{kind}: {spelling!r} arrived {count} times: {done.stderr}{done.stdout}")
        print(f"{len(every)} spellings of {len(KINDS)} kinds of deeds, {faults} not counted once")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
