"""What the real agents do with each shape, kept as one file an agent in `docs/agents/shapes`."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
class Seen:
    """What an agent did with a shape: the marks that the model was shown, and its own words."""

    what: str
    outcome: str
    shown: str
    says: str = ""


def table_of(agent: str) -> dict[str, Seen]:
    """Return what was seen of each shape of an agent."""
    raw: dict[str, Any] = json.loads((DIRECTORY / f"{agent}.json").read_text())
    return {name: Seen(**each) for name, each in raw["shapes"].items()}


def hold(agent: str, version: str, name: str, seen: Seen) -> None:
    """Compare what was seen with the table, or write it there if the person asks for that."""
    if not os.environ.get("UPTHREAD_WRITE_MEASURED"):
        assert table_of(agent)[name] == seen
        return
    path = DIRECTORY / f"{agent}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run side by side
        table = table_of(agent) if path.stat().st_size else {}
        table[name] = seen
        rows = ",\n".join(f"  {json.dumps(each)}: {_row(table[each])}" for each in sorted(table))
        file.truncate(0)
        file.write(
            f'{{\n "agent": "{agent}",\n "version": "{version}",\n "shapes": {{\n{rows}\n }}\n}}\n'
        )


def _row(seen: Seen) -> str:
    return json.dumps(asdict(seen), ensure_ascii=False)
