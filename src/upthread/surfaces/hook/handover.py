"""Handing over, where a person has asked for it: earlier sub-agents' transcripts, copied.

Claude Code finds a sub-agent only within the main session it was started in. A copy of its
transcript in the folder of another main session makes it known there. So the transcripts of a
workstream's sub-agents are placed when a session starts and with each prompt of a person, before
the model does anything: it is told whom it can go on with, and nothing has to be denied. A
conversation moves to the other session only when that one really writes to the sub-agent.
"""

from __future__ import annotations

import os

from upthread.boundary.files import direct
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import number_in, object_in, text_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A larger one cannot be copied while an agent waits: it starts from its briefing instead.
TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
TRANSCRIPT, META = ".jsonl", ".meta.json"


def hand_over(place: Place, workstream: str, agent: str, fields: dict[str, Any]) -> frozenset[str]:
    """Place what other main sessions' sub-agents know; returns those that are whole here now."""
    session, main = text_in(fields, "session_id"), text_in(fields, "transcript_path")
    if not main.endswith(TRANSCRIPT):
        return frozenset()
    folder = os.path.join(main.removesuffix(TRANSCRIPT), "subagents")
    return frozenset(
        text_in(binding, "session")
        for _, binding in bindings(place, lambda b: text_in(b, "workstream") == workstream)
        if text_in(binding, "agent") == agent
        and text_in(binding, "main_session") != session
        and number_in(binding, "slot")
        # Of one at work half a turn would be copied, and the two would go on differently.
        and not object_in(binding, "claim")
        and _is_placed(text_in(binding, "transcript"), folder)
    )


def _is_placed(source: str, folder: str) -> bool:
    """Bring a transcript into a folder, or up to date there; returns whether it is whole."""
    try:
        reading = direct(source) if source.endswith(TRANSCRIPT) else -1
    except OSError:
        return False  # Claude Code deletes them after some weeks
    if reading < 0:
        return False
    try:
        if os.fstat(reading).st_size > TRANSCRIPT_BYTES_MAX:
            return False
        os.makedirs(folder, mode=0o700, exist_ok=True)
        stem = os.path.basename(source).removesuffix(TRANSCRIPT)
        target = os.path.join(folder, stem)
        # Before the transcript, for that is what makes the sub-agent known there.
        _copy_meta(source.removesuffix(TRANSCRIPT) + META, target + META)
        return _continue(reading, target + TRANSCRIPT)
    finally:
        os.close(reading)


def _continue(reading: int, target: str) -> bool:
    """Write what a copy lacks of its source; returns whether it then is the same.

    One that goes on otherwise than its source is left: each has work in it that the other has not.
    What is written stands where it belongs, so two hooks at once write the same.
    """
    # Opened as it is, never emptied: the other session may have written to its copy already.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    writing = os.open(target, flags, 0o600)
    try:
        offset, size = 0, os.fstat(writing).st_size
        while piece := os.read(reading, PIECE_BYTES):
            # Compared whole, not by size: two sessions that both went on have the same beginning.
            there = os.pread(writing, len(piece), offset) if offset < size else b""
            if there != piece[: len(there)]:
                return False
            left = piece[len(there) :]
            while left:
                left = left[os.pwrite(writing, left, offset + len(piece) - len(left)) :]
            offset += len(piece)
        return offset >= size
    finally:
        os.close(writing)


def _copy_meta(source: str, target: str) -> None:
    """Copy the small file beside a transcript to where there is none yet; it may be missing."""
    try:
        reading = direct(source)
    except FileNotFoundError:
        return
    try:
        # What stands there may be Claude Code's own by now.
        if not os.path.exists(target):
            _continue(reading, target)
    finally:
        os.close(reading)
