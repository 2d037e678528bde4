"""Reports of upthread on a stored session: listed, diagnosed, kept, and repaired in a copy."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from tools.shapes import marks_in

from upthread.agent_stores.base import VendorHistory, look, newest_of
from upthread.agents.registry import reader_of
from upthread.core.types import UpstreamSessionId
from upthread.errors import StoreError
from upthread.surfaces.cli.findings import finding_of

SOUND = "sound"
NOT_THERE = "not there"


def reports(agent: str, home: Path, session: str) -> dict[str, str]:
    """Return what upthread reports of a session below an agent's home, as fields of a row."""
    found_there = newest_of(reader_of(agent).outlines(home, look()))
    outlines = [each for each in found_there if not each.is_foreign]
    found = diagnosed(agent, home, session)
    sent = [each.history for each in found if isinstance(each, VendorHistory)]
    doctor = _doctor(found).replace(str(home), "HOME")
    return {
        "listed": " ".join(each.ending for each in outlines if each.session_id == session),
        "doctor": doctor,
        "sent": _marks(sent),
        "kept": _kept(agent, home, session).replace(str(home), "HOME"),
    }


def repaired(agent: str, home: Path, session: str, into: Path) -> tuple[Path, Path] | None:
    """Return the file that is to be repaired and its repaired copy, None where no copy is made."""
    for each in diagnosed(agent, home, session):
        if isinstance(each, VendorHistory) and finding_of(each) and each.is_version_known:
            repair = reader_of(agent).repair
            copy = repair(each.path, into, session_id=session, sessions=[session])
            return None if copy.left else (each.path, copy.after)
    return None


def diagnosed(agent: str, home: Path, session: str) -> list[VendorHistory | StoreError]:
    """Return the histories of a session as `doctor` reads them, and the stores it cannot read."""
    reader, found = reader_of(agent), list[VendorHistory | StoreError]()
    for path in reader.find_histories(home):
        try:
            found += [each for each in reader.read_histories(path) if each.session_id == session]
        except StoreError as error:
            found.append(error)
    return found


def _doctor(found: list[VendorHistory | StoreError]) -> str:
    if not found:
        return NOT_THERE
    findings = [finding for each in found if (finding := finding_of(each))]
    return findings[0].what if findings else SOUND


def _kept(agent: str, home: Path, session: str) -> str:
    try:
        stored = reader_of(agent).read_session(home, UpstreamSessionId(session))
    except StoreError as error:
        return f"refused: {error.message}"
    return _marks(stored.events) if stored else ""


def _marks(value: object) -> str:
    return " ".join(marks_in(json.dumps(msgspec.to_builtins(value), default=str)))
