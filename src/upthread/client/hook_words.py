"""The words of a call that a hook has seen, written down as they are to be kept.

A hook may load no redactor, so it hands the words over through a pipe and writes none of them. They
lie in the spool, without their secrets or as an outline, before the store is opened: a store that
is busy costs no words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from upthread.client.consent import load_trusting
from upthread.client.file_permissions import redaction_key
from upthread.client.parts import record_policy, redactor_for
from upthread.config import Settings
from upthread.core.commands import RecordParts, RecordTurnEvent, Write
from upthread.core.events import TurnEnded
from upthread.core.record_policy import kept
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.reports import MalformedReportError, read_report
from upthread.core.types import (
    CHILD_SLOT,
    ConversationId,
    ErasedPart,
    JsonValue,
    Outcome,
    RecordMode,
    Speaker,
    TextPart,
    TurnId,
)
from upthread.runtime.bindings import spool
from upthread.runtime.bindings.light_json import loads, text_in
from upthread.runtime.bindings.places import Place
from upthread.store.address import key_path

WHOSE: Final = ("agent", "session", "call_id", "workstream", "role", "slot")
NOBODY: Final = ConversationId("")


def keep_words(
    raw: bytes, directory: Path, *, environment: Mapping[str, str], database: str | None = None
) -> None:
    """Write a call's words into the spool; nothing where nothing came.

    Raises ConfigError, StoreError and OSError; that words were lost is then in the spool, too.
    """
    if not raw:
        return
    settings = load_trusting(directory, environment=environment, database=database)
    place = Place(settings.home, str(directory))
    place.read()
    try:
        words = loads(raw.decode("utf-8"))
        policy, redactor = record_policy(settings), _redactor(settings)
        role, is_known = text_in(words, "role"), words.get("slot") != CHILD_SLOT
        # The role of one that is recorded only is the
        # model's word, and must not choose what is kept.
        mode = policy.of_role(role) if is_known else policy.strictest
        fields = _as_kept(words, mode, redactor)
        whose = {name: words.get(name) for name in WHOSE}
        kept_role = role if is_known else redactor.redact(role)
        kind = "said" if "outcome" in words else "asked"
        spool.put(place, kind, {**whose, **fields, "role": kept_role})
    # Also where the process is being ended: lost words must not be lost in silence.
    except BaseException as error:
        why = f"what was said in a call could not be kept: {type(error).__name__}"
        spool.put(place, "undecided", {"agent": "upthread", "why": why})
        raise


def _redactor(settings: Settings) -> Redactor:
    key = redaction_key(key_path(settings.database, Path(settings.home)))
    return redactor_for(settings, key)


def _as_kept(words: Mapping[str, Any], mode: RecordMode, redactor: Redactor) -> dict[str, Any]:
    """Return prompt, reply and report as they are to be kept, by the one place that knows how.

    Of a call that works on in the background there is only the prompt so far.
    """
    is_ok = words.get("outcome") == Outcome.OK

    def part(text: str) -> dict[str, Any]:
        write = RecordParts(
            conversation_id=NOBODY,
            seq=1,
            first_ordinal=0,
            speaker=Speaker.USER,
            turn_id=TurnId(""),
            upstream_session_id=None,
            recorded_at_ms=0,
            parts=(TextPart(text=text),),
        )
        (left,) = cast("RecordParts", kept(write, mode, redactor)).parts
        return part_fields(left)

    prompt, reply = text_in(dict(words), "prompt"), text_in(dict(words), "reply")
    if "outcome" not in words:
        return {"prompt": part(prompt)}
    ended = TurnEnded(
        outcome=Outcome.OK,
        report=_report(reply) if is_ok else None,
        detail="" if is_ok else reply,
    )
    left: Write = kept(
        RecordTurnEvent(turn_id=TurnId(""), seq=1, event=ended, recorded_at_ms=0), mode, redactor
    )
    event = cast("TurnEnded", cast("RecordTurnEvent", left).event)
    said = {"prompt": part(prompt), "report": event.report, "detail": event.detail}
    return {**said, "reply": part(reply)} if is_ok else said


def _report(reply: str) -> JsonValue:
    try:
        return cast("JsonValue", msgspec.to_builtins(read_report(reply)))
    except MalformedReportError:
        return None


def part_fields(part: object) -> dict[str, Any]:
    """Return a text or its outline as an event of the spool has it."""
    if isinstance(part, ErasedPart):
        digest = part.digest.hex() if part.digest else ""
        return {"digest": digest, "size_bytes": part.size_bytes}
    assert isinstance(part, TextPart), "a text is kept as a text, or as its outline"
    return {"text": part.text}
