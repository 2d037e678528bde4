"""Handing over, where a person has asked for it: an earlier sub-agent's transcript, copied.

Claude Code finds a sub-agent only within the main session it was started in. A copy of its
transcript in the new main session's folder makes it known there; the call is denied once, with the
words that lead to it. A model that calls again all the same is let through, with the briefing.
"""

from __future__ import annotations

import os

from upthread.boundary.files import direct
from upthread.core.decision_words import address_in_words
from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import number_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.delegation import Call, workstream_of

TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024
SUFFIXES = (".jsonl", ".meta.json")


def hand_over(place: Place, call: Call, main_transcript: str) -> str:
    """Return why a call is denied, empty when it is not: there is nothing to hand over."""
    workstream, _ = workstream_of(place, call.agent, call.session)
    if workstream is None or call.is_fresh_asked or not main_transcript.endswith(".jsonl"):
        return ""
    with place.lock():
        path = place.binding_path(workstream, call.role, 1)
        binding = files.read(path) or {}
        if not _is_due(binding, call):
            return ""
        child, source = text_in(binding, "session"), text_in(binding, "transcript")
        folder = os.path.join(main_transcript.removesuffix(".jsonl"), "subagents")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        stem = os.path.basename(source).removesuffix(".jsonl")
        for suffix in SUFFIXES:
            _copy(source.removesuffix(".jsonl") + suffix, os.path.join(folder, stem + suffix))
        copied = os.path.join(folder, stem + ".jsonl")
        moved = {"main_session": call.session, "transcript": copied, "handed_to": call.session}
        files.replace(path, {**binding, **moved})
    where = address_in_words(workstream, call.role, number_in(binding, "slot"))
    return (
        f"{where} has worked before and has its history here: call SendMessage with to: {child!r} "
        "and your prompt as message"
    )


def _is_due(binding: dict[str, object], call: Call) -> bool:
    """Return whether a transcript of another main session is there, not handed to this one yet."""
    source = text_in(binding, "transcript")
    is_other = text_in(binding, "main_session") != call.session
    is_new = text_in(binding, "handed_to") != call.session
    is_idle = not binding.get("claim")
    return bool(source) and is_other and is_new and is_idle and _is_small(source)


def _is_small(path: str) -> bool:
    try:
        return os.stat(path).st_size <= TRANSCRIPT_BYTES_MAX
    except OSError:
        return False


def _copy(source: str, target: str) -> None:
    """Copy a file to a place where there is none yet; a missing one is left out."""
    try:
        reading = direct(source)
    except FileNotFoundError:
        return
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        os.close(reading)
        return
    try:
        left_bytes = TRANSCRIPT_BYTES_MAX
        while piece := os.read(reading, min(left_bytes, 1024 * 1024)):
            left_bytes -= len(piece)
            left = piece
            while left:
                left = left[os.write(writing, left) :]
    finally:
        os.close(reading)
        os.close(writing)
