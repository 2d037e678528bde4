"""The table of shapes: one file an agent in `docs/agents/shapes`.

A row has what the real agent did with a shape (`tests/live/test_shapes.py`), and what upthread
reports of it (`tests/agents/test_shapes.py`). With UPTHREAD_WRITE_MEASURED both tests write their
part of each row.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "agents" / "shapes"
RECORDED = Path(__file__).with_name("recorded")

ALL = "all"
"""The model was shown all that the files hold."""

PART = "part"
NOTHING = "nothing"
"""The agent took the prompt and showed the model nothing of the session."""

BROKEN = "broken"
"""The agent sent a history that a provider refuses."""

REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """One shape: what it is, the agent, upthread, and the agent with the repaired copy.

    `shown` are the marks that the model was shown, `says` the agent's own words if it refused.
    `listed` is how the session ended as the overview lists it, empty if it is not listed. `doctor`
    is `sound`, `not there` or what is wrong, `sent` are the marks that the agent would send as our
    reader has it, `kept` those that `keep` and `adopt` record. `repaired` is the agent's outcome
    with the repaired copy in the place of the session, empty without a copy.
    """

    what: str = ""
    outcome: str = ""
    shown: str = ""
    says: str = ""
    listed: str = ""
    doctor: str = ""
    sent: str = ""
    kept: str = ""
    repaired: str = ""


def table_of(agent: str) -> dict[str, Row]:
    """Return the rows of an agent by the shape."""
    raw = json.loads((DIRECTORY / f"{agent}.json").read_text())
    return {name: Row(**each) for name, each in raw["shapes"].items()}


def version_of(agent: str) -> str:
    """Return the version of an agent that was measured."""
    return str(json.loads((DIRECTORY / f"{agent}.json").read_text())["version"])


def hold(agent: str, version: str, name: str, part: Mapping[str, str]) -> None:
    """Compare a part of a row with the table, or write it there if the person asks for that.

    `version` is empty where the part is not of the agent.
    """
    if not os.environ.get("UPTHREAD_WRITE_MEASURED"):
        row = asdict(table_of(agent)[name])
        assert {field: row[field] for field in part} == part
        return
    path = DIRECTORY / f"{agent}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run side by side
        is_new = not path.stat().st_size
        table = {} if is_new else {key: asdict(row) for key, row in table_of(agent).items()}
        table[name] = {**asdict(Row()), **table.get(name, {}), **part}
        known = {"agent": agent, "version": version or version_of(agent), "shapes": table}
        file.truncate(0)
        file.write(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
