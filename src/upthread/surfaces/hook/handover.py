"""Handing over, where a person has asked for it: earlier sub-agents' transcripts, copied.

Claude Code finds a sub-agent only within the main session that started it. A copy of the
sub-agent's transcript in the folder of another main session makes it known there. So the
transcripts of a workstream's sub-agents are placed when a session starts and with each prompt of a
person, before the model does anything: it is told whom it can continue. A conversation moves to the
other session only when that session really writes to the sub-agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from upthread.agents.claude_code.entries import SUBAGENTS, file_of
from upthread.boundary.files import direct

TRANSCRIPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger one cannot be copied while an agent waits: it starts from its briefing instead."""

PIECE_BYTES: Final = 1024 * 1024
TRANSCRIPT: Final = ".jsonl"
META: Final = ".meta.json"


def hand_over(main: str, earlier: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Place earlier sub-agents' transcripts beside a main session's; returns those whole there.

    `main` is the path of its transcript, `earlier` each main session and its sub-agent's id.
    """
    if not main.endswith(TRANSCRIPT):
        return frozenset()
    folder = Path(main.removesuffix(TRANSCRIPT)) / SUBAGENTS
    beside = Path(main).parent
    return frozenset(
        child
        for session, child in earlier
        if _is_name(session)
        and _is_name(child)
        and _is_placed(beside / session / SUBAGENTS / file_of(child), folder)
    )


def _is_name(word: str) -> bool:
    # An id is a model's word where it comes from `SendMessage`: "../" must lead nowhere.
    return bool(word) and word.replace("-", "").replace("_", "").isalnum()


def _is_placed(source: Path, folder: Path) -> bool:
    """Bring a transcript into a folder, or up to date there; returns whether it is whole."""
    try:
        reading = direct(str(source))
    except OSError:
        return False  # Claude Code deletes them after some weeks
    try:
        if os.fstat(reading).st_size > TRANSCRIPT_BYTES_MAX:
            return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the transcript, for that is what makes the sub-agent known there.
        _copy_meta(source.with_suffix(META), folder / source.with_suffix(META).name)
        return _continue(reading, folder / source.name)
    finally:
        os.close(reading)


def _continue(reading: int, target: Path) -> bool:
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


def _copy_meta(source: Path, target: Path) -> None:
    """Copy the small file beside a transcript to where there is none yet; it may be missing."""
    try:
        reading = direct(str(source))
    except FileNotFoundError:
        return
    try:
        # What stands there may be Claude Code's own by now.
        if not target.exists():
            _continue(reading, target)
    finally:
        os.close(reading)
