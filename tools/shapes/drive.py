"""Asks a real agent to resume a session of a given shape, and says what the model was shown."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tools.shapes import NEXT, marks_in
from tools.shapes.measured import ALL, BROKEN, NOTHING, PART, REFUSED

from upthread.testing.rehearsal_model import RehearsalModel
from upthread.testing.rehearsal_model.protocol import Violation

PATIENCE_S = 60
SAID_CHARACTERS_MAX = 320


def resumed(
    words: Collection[str],
    *,
    project: Path,
    environment: Mapping[str, str],
    model: RehearsalModel,
    held: list[str],
) -> dict[str, str]:
    """Run an agent's command and return what it did, as fields of a row.

    `held` are the marks that its files have.
    """
    asked = len(model.requests)
    try:
        done = subprocess.run(
            [*words],
            cwd=project,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return refused(f"nothing for {PATIENCE_S} seconds", project)
    requests = [
        each
        for each in model.requests[asked:]
        if NEXT in json.dumps(each.body) and not each.is_side_request
    ]
    if not requests:
        return refused(_said(done.stderr) or _said(done.stdout), project)
    return outcome_in(json.dumps(requests[-1].body), requests[-1].violations, held)


def refused(said: str, project: Path) -> dict[str, str]:
    """Return the fields of a row for an agent that did not ask the model."""
    return {"outcome": REFUSED, "shown": "", "says": _neutral(said, project)}


def outcome_in(body: str, violations: Sequence[Violation], held: list[str]) -> dict[str, str]:
    """Return the fields of a row for an agent that sent a request to the model."""
    shown = marks_in(body)
    return {
        "outcome": BROKEN if violations else outcome_of(shown, held),
        "shown": " ".join(shown),
        "says": violations[0].rule if violations else "",
    }


def outcome_of(shown: Collection[str], held: Collection[str]) -> str:
    """Return whether the model was shown all that is held, a part, or nothing."""
    if not shown and held:
        return NOTHING
    return ALL if set(held) <= set(shown) else PART


def _said(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "No conversation" in line]
    return (errors or lines or [""])[-1]


def _neutral(said: str, project: Path) -> str:
    """Return an agent's words without paths, colours, ids and times of this run."""
    said = re.sub(r"\x1b\[[0-9;]*m", "", said).replace(str(project.parent), "…")
    said = re.sub(r"(/tmp/|…/)[\w/.-]+", "…", said)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", said)[:SAID_CHARACTERS_MAX]
