"""A call of a sub-agent that hooks have seen, as a turn of the record.

What its events tell becomes a turn, its link, its messages and the files it examined. Where no
words came, since its agent was killed, the agent's own store has them: runtime/hooked/retrieval.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from upthread.core.commands import (
    EndLink,
    OpenLink,
    OpenTurn,
    RecordExamined,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.decision.examined import ExaminedFile
from upthread.core.decision.price import Tokens, fixed_part
from upthread.core.decision.words import FIRST, NOT_FOLLOWED
from upthread.core.events import (
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    UsageReported,
)
from upthread.core.turns.usage import first_request
from upthread.core.types import (
    ContextPart,
    Conversation,
    JsonValue,
    Link,
    Outcome,
    Part,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.hooked.delegated_call import Delegated, part_of
from upthread.runtime.hooked.retrieval import Destination, Retrieval, Retrieved
from upthread.runtime.record.turn_views import DECIDED_BY, HOOK, READ_BACK
from upthread.store.base import Store

NO_WORDS: Final = "What was said here was not kept: the agent's own session may have it."
"""Stands where a call's words never came: its agent, or what was to keep them, was killed."""


DETAIL_CHARACTERS_MAX: Final = 500

CUT_OFF: Final = "the agent ended before its sub-agent did"


class DelegatedTurn:
    """One call as the store keeps it: a turn, its link, its messages, the files it examined."""

    def __init__(
        self,
        *,
        store: Store,
        call: Delegated,
        conversation: Conversation,
        turn_id: TurnId,
        now_ms: int,
        found: Retrieved,
        retrieval: Retrieval,
    ) -> None:
        self._store = store
        self._found = found
        self._retrieval = retrieval
        self._call = call
        self._conversation = conversation
        self._id = conversation.conversation_id
        self._turn_id = turn_id
        self._now_ms = now_ms
        self._is_unheard = found.is_unheard and "ended" not in call.events
        self._child = self._worked_in()
        self._prompt_seq = store.message_count(self._id) + 1

    def writes(self) -> list[Write]:
        """Return everything, for one commit."""
        opened = OpenTurn(
            turn_id=self._turn_id,
            conversation_id=self._id,
            opened_at_ms=number_in(self._call.any, "at_ms") or self._now_ms,
        )
        said = [*self._said()]
        links = [*self._links()]
        done = self._retrieved(links)
        return [opened, *links, *said, *self._examined(), *done, *self._events()]

    def later_writes(self) -> list[Write]:
        """Return what was found of a turn that was recorded when its store could not be read."""
        prompt = self._found.turn.prompt if self._found.turn else self._found.asked
        said: list[Write] = []
        if prompt and not self._has_prompt():
            said.append(self._parts(self._prompt_seq, Speaker.USER, (TextPart(text=prompt),)))
        else:
            self._prompt_seq -= 1  # what was done follows what is on record
        links = [*self._links()]
        return [*links, *said, *self._retrieved(links)]

    def _has_prompt(self) -> bool:
        """Whether the turn's prompt is on record, in whatever form."""
        return any(
            not isinstance(part, ContextPart)
            for message in self._store.messages(self._id)
            if message.turn_id == self._turn_id and message.speaker is Speaker.USER
            for part in message.parts
        )

    def _worked_in(self) -> UpstreamSessionId:
        """Return the sub-agent's session: none where one was begun and never got its prompt.

        Whoever goes on in such a one would know nothing of what was asked.
        """
        child = UpstreamSessionId(self._call.child or self._found.session or "")
        is_known = child == text_in(self._call.decided, "upstream_session_id")
        return UpstreamSessionId("") if self._is_unheard and not is_known else child

    def _said(self) -> Iterator[Write]:
        context, found = text_in(self._call.decided, "context"), self._found.turn
        stored = found.prompt if found else self._found.asked
        prompt = (
            self._call.asked
            or (TextPart(text=stored) if stored else None)
            or ContextPart(text=NO_WORDS)
        )
        parts = (ContextPart(text=context), prompt) if context else (prompt,)
        yield self._parts(self._prompt_seq, Speaker.USER, parts)
        reply = part_of(object_in(self._call.events.get("said", {}), "reply"))
        if reply is not None and found is None:  # else it is among what was found
            yield self._parts(self._prompt_seq + 1, Speaker.ASSISTANT, (reply,))

    def _retrieved(self, links: Sequence[Write]) -> tuple[Write, ...]:
        """Return what the agent's own store has of the call, after its prompt."""
        opened = [each.link for each in links if isinstance(each, OpenLink)]
        known = opened or self._store.links(self._id)
        if self._found.turn is None or not known:
            return ()
        destination = Destination(
            conversation=self._conversation,
            turn_id=self._turn_id,
            link=known[-1],
            next_seq=self._prompt_seq + 1,
            at_ms=self._now_ms,
        )
        return self._retrieval.writes(self._found, destination, seen=self._listed)

    def _parts(self, seq: int, speaker: Speaker, parts: tuple[Part, ...]) -> RecordParts:
        return RecordParts(
            conversation_id=self._id,
            seq=seq,
            first_ordinal=0,
            speaker=speaker,
            turn_id=self._turn_id,
            upstream_session_id=self._child or None,
            recorded_at_ms=self._now_ms,
            parts=parts,
        )

    def _links(self) -> Iterator[Write]:
        links = self._store.links(self._id)
        open_link = links[-1] if links and links[-1].ended_because is None else None
        if not self._child or (open_link and open_link.upstream_session_id == self._child):
            return
        reasons = self._reasons()
        if open_link is not None:
            yield EndLink(
                conversation_id=self._id,
                seq=open_link.seq,
                ended_because=reasons[0],
                ended_at_ms=self._now_ms,
            )
        yield OpenLink(
            link=Link(
                conversation_id=self._id,
                seq=len(links) + 1,
                upstream_session_id=self._child,
                agent=text_in(self._call.any, "agent"),
                agent_version="",
                working_directory=text_in(self._call.any, "root"),
                opened_because=reasons[0],
                opened_at_ms=self._now_ms,
            )
        )

    @property
    def _listed(self) -> tuple[ExaminedFile, ...]:
        """The files that its tools for them named, as its hook saw them when it ended."""
        listed = list_in(self._call.events.get("ended", {}), "files")
        return tuple(msgspec.convert(each, ExaminedFile) for each in listed)

    def _examined(self) -> Iterator[Write]:
        if self._child and self._listed:
            yield RecordExamined(
                conversation_id=self._id,
                turn_id=self._turn_id,
                first_ordinal=0,
                upstream_session_id=self._child,
                files=self._listed,
                recorded_at_ms=self._now_ms,
            )

    def _events(self) -> Iterator[Write]:
        for seq, event in enumerate(self._life(), start=1):
            yield RecordTurnEvent(
                turn_id=self._turn_id, seq=seq, event=event, recorded_at_ms=self._now_ms
            )

    def _life(self) -> Iterator[TurnEvent]:
        decided, ended = self._call.decided, self._call.events.get("ended")
        yield TurnIntended(
            decision=self._decision,
            reasons=self._reasons(),
            prompt_seq=self._prompt_seq,
            inputs=self._inputs(),
            condition=text_in(decided, "condition") or None,
        )
        if self._child:
            resumed = text_in(decided, "upstream_session_id") == self._child
            yield SessionAttached(
                upstream_session_id=self._child,
                how="resumed" if resumed else "new",
                agent=text_in(self._call.any, "agent"),
            )
            # Without it the turn counts as one whose session has never got its prompt.
            if not self._is_unheard:
                # Nobody counted: what is asked for is how many there are for certain.
                yield PromptSent(prompt_seq=self._prompt_seq)
        if ended is None and self._found.refusal:
            detail = f"the agent began no sub-agent: {self._found.refusal}"
            yield TurnEnded(outcome=Outcome.UNKNOWN, detail=detail[:DETAIL_CHARACTERS_MAX])
        elif ended is None:
            yield TurnEnded(outcome=Outcome.PROCESS_DIED, detail=self._with_fault(CUT_OFF))
        else:
            lost = "" if self._found.turn else self._with_fault(NO_WORDS)
            end = _end(ended, self._call.events.get("said", {"detail": lost}))
            usage = self._found.turn.usage if self._found.turn else None
            window = number_in(ended, "tokens_window") or (usage.tokens_window if usage else None)
            yield structs.replace(
                end,
                surroundings=self._surroundings(ended),
                tokens_used=usage.tokens_used if usage else None,
                tokens_window=window,
                tokens_fixed=fixed.count if (fixed := self._fixed) else None,
                is_fixed_estimated=fixed.is_estimate if fixed else False,
                usage=first_request(self._told),
            )

    @property
    def _fixed(self) -> Tokens | None:
        """What the sub-agent read before our words: as its session tells, or did when it began."""
        if text_in(self._call.decided, "upstream_session_id") == self._child:
            known = object_in(object_in(object_in(self._call.decided, "inputs"), "price"), "fixed")
            if "count" not in known:
                return None
            is_estimate = known.get("is_estimate") is True
            return Tokens(count=number_in(known, "count"), is_estimate=is_estimate)
        turn = self._found.turn
        if turn is None:
            return None
        first = first_request(self._told)
        first_read = first.first_read if first else None
        return fixed_part(first_read=first_read, held=None, characters=len(turn.prompt))

    @property
    def _told(self) -> Iterator[UsageReported]:
        """What the sub-agent's store tells of its requests."""
        turn = self._found.turn
        return (each for each in (turn.events if turn else ()) if isinstance(each, UsageReported))

    def _with_fault(self, detail: str) -> str:
        """Return what a turn's end says, with why nothing of it could be read back."""
        return f"{detail}; {self._found.fault}" if self._found.fault else detail

    @property
    def _has_followed(self) -> bool:
        """Whether the agent went on with the session it was told of, as far as anybody saw."""
        told = text_in(self._call.decided, "upstream_session_id")
        return not told or not self._child or told == self._child

    @property
    def _decision(self) -> str:
        return (text_in(self._call.decided, "decision") if self._has_followed else "") or FIRST

    def _reasons(self) -> tuple[str, ...]:
        if not self._has_followed:
            return (NOT_FOLLOWED,)
        said = list_in(self._call.decided, "reasons")
        return tuple(each for each in said if isinstance(each, str)) or ("unknown",)

    def _surroundings(self, ended: dict[str, Any]) -> JsonValue:
        """Return what the call worked in, as our turns record it; None where it was not told."""
        told = object_in(ended, "surroundings")
        agent, at_ms = text_in(self._call.any, "agent"), number_in(ended, "at_ms")
        return {**told, "agent": agent, "at_ms": at_ms} if told else None

    def _inputs(self) -> JsonValue:
        event, found = self._call.any, self._found
        is_read = found.turn is not None or self._is_unheard
        read = {READ_BACK: True} if is_read else {}
        return {
            **read,
            **object_in(self._call.decided, "inputs"),
            DECIDED_BY: HOOK,
            "agent": text_in(event, "agent"),
            "main_session": text_in(event, "session"),
            "call_id": text_in(event, "call_id"),
            "workstream_because": text_in(self._call.decided, "because"),
        }


def _end(ended: dict[str, Any], said: dict[str, Any]) -> TurnEnded:
    outcome = text_in(ended, "outcome")
    report: JsonValue = object_in(said, "report") or None
    return TurnEnded(
        outcome=Outcome(outcome) if outcome in set(Outcome) else Outcome.UNKNOWN,
        report=report,
        detail=text_in(said, "detail"),
    )
