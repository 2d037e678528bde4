"""The conformance suite on a stand-in for an agent's own program, which is provoked by words."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.sets import spread

from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Promise

LARGE = "many words, " * 20_000 + "the end"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CANNOT = frozenset({"opaque", "pieces", "child", "child_words", "permission", "leaves", "usage"})
"""What only the real agent can be brought to, and does in tests/live."""

FIRST = frozenset({"A4", "A5", "A9", "A10", "A16", "A18"})
"""The promises that an adapter keeps by code of its own; the others run with all adapters later."""


def scripted_agent(
    adapter: Any,
    script: Path,
    *,
    no_version: str,
    outcomes: Mapping[Outcome, str],
    odd_text: str,
) -> AgentUnderTest:
    """Return the stand-in as an agent under test; `no_version` is a program that names none."""

    def program(text: str) -> Any:
        return adapter(command=[sys.executable, "-c", text])

    return AgentUnderTest(
        name=script.stem,
        adapter=adapter(command=[sys.executable, str(script)]),
        environment=lambda place: {"HOME": str(place)},
        unknown_session=UNKNOWN,
        bad_starts={
            "dies": program("raise SystemExit(3)"),
            "prints garbage": program("print('hello')"),
            "hangs": program("import time; time.sleep(60)"),
            "says no version": program(no_version),
        },
        outcomes=outcomes,
        odd_text=(odd_text, odd_text),
        hang="hang",
        deaf="deaf",
        late="late",
        late_words="too late",
        resets="limited",
        large=(LARGE, LARGE),
        unstamped="unstamped",
        unknown_update="news",
        garbage="garbage",
    )


def spread_promises(leaving_out: Iterable[str] = ()) -> list[Any]:
    """Return the promises as parameters, those that an adapter keeps itself in the first set."""
    promises = [each for each in PROMISES if each.name not in set(leaving_out)]
    first = [each for each in promises if each.number in FIRST and each.needs not in CANNOT]
    return spread(promises, first=first, name=_name)


def _name(promise: Promise) -> str:
    return promise.name
