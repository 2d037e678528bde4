"""A call of a sub-agent that hooks have seen, as a turn of the record.

What its events tell becomes a turn, its link, its messages and the files it examined. Where no
words came, since its agent was killed, the agent's own store has them: runtime/hooked/retrieval.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from upthread.core.decision.model import FIRST
from upthread.core.decision.price import Tokens, fixed_part
from upthread.core.decision.words import NOT_FOLLOWED
from upthread.core.events import (
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    UsageReported,
)
from upthread.core.turns.hooked_call import CutOffCall, Sought
from upthread.core.types import (
    ContextPart,
    Conversation,
    ConversationKey,
    ErasedPart,
    JsonValue,
    Link,
    Outcome,
    Part,
    ProjectId,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.bindings.claims import is_claimed_by_another, lives
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.hooked.retrieval import Destination, Retrieval, Retrieved
from upthread.runtime.turns.conversation import DECIDED_BY, HOOK, READ_BACK
from upthread.store.base import Store

NO_WORDS: Final = "What was said here was not kept: the agent's own session may have it."
"""Stands where a call's words never came: its agent, or what was to keep them, was killed."""


DETAIL_CHARACTERS_MAX: Final = 500

CUT_OFF: Final = "the agent ended before its sub-agent did"


@dataclass(frozen=True, slots=True)
class Delegated:
    """The events of one call by kind, and the files they lie in."""

    events: Mapping[str, dict[str, Any]]
    paths: tuple[str, ...]

    @property
    def decided(self) -> dict[str, Any]:
        """How the call was decided; empty if that was never kept."""
        return self.events.get("decided", {})

    @property
    def any(self) -> dict[str, Any]:
        """An event that says which conversation the call belongs to."""
        return self.decided or next(iter(self.events.values()))

    def key(self, project_id: ProjectId) -> ConversationKey:
        """Return the conversation the call belongs to."""
        workstream, role, slot = self.whose
        return ConversationKey(project_id=project_id, workstream=workstream, role=role, slot=slot)

    @property
    def child(self) -> str:
        """The session the sub-agent worked in, empty if it got none."""
        said = (text_in(self.events.get(kind, {}), "upstream_session_id") for kind in _TELLING)
        return next(filter(None, said), "")

    @property
    def has_words(self) -> bool:
        """Whether what was said at its end was kept."""
        return "said" in self.events

    @property
    def asked(self) -> Part | None:
        """The prompt as it is to be recorded, None where it was not kept."""
        said = self.events.get("said", {})
        # A call in the background hands its prompt over
        # at its begin, and at its end the reply alone.
        asked = self.events.get("asked", {} if "launched" in self.events else said)
        return _part(object_in(asked, "prompt"), context=text_in(self.decided, "context"))

    @property
    def reply(self) -> str:
        """What it ended with, as it is to be recorded; empty where that was not kept."""
        said = _part(object_in(self.events.get("said", {}), "reply"))
        return said.text if isinstance(said, TextPart) else ""

    def sought(self, session: UpstreamSessionId, after: Sequence[Delegated]) -> Sought:
        """Return what is looked for in its session. `after` are the calls since, in any session."""
        after = [each for each in after if each.cut_off.session == session]
        return Sought(
            asked=self.asked,
            context=text_in(self.decided, "context"),
            later=len(after),
            is_first="decided" in self.events and not text_in(self.decided, "upstream_session_id"),
            answered=sum(each.is_answered for each in after),
        )

    @property
    def is_answered(self) -> bool:
        """Whether it ended as it should."""
        return text_in(self.events.get("ended", {}), "outcome") == Outcome.OK

    @property
    def cut_off(self) -> CutOffCall:
        """The call as its agent's store knows it.

        Nobody saw which session a call goes on in that was decided to resume one: it is that one.
        """
        return CutOffCall(
            agent=text_in(self.any, "agent"),
            main_session=text_in(self.any, "session"),
            call_id=text_in(self.any, "call_id"),
            session=self.child or text_in(self.decided, "upstream_session_id"),
        )

    @property
    def whose(self) -> tuple[str, str, int]:
        """The conversation the call belongs to, within its project."""
        event = self.any
        return text_in(event, "workstream"), text_in(event, "role"), number_in(event, "slot")

    @property
    def has_stopped(self) -> bool:
        """Whether it has ended, or its agent is dead; its words may still be to come."""
        # An event has the claim in it that it was made
        # under, and with it the process that may be dead.
        is_freed = any(kind in self.events for kind in ("ended", "released", "refused"))
        return is_freed or not is_claimed_by_another({"claim": self.any}, "")

    @property
    def is_over(self) -> bool:
        """Whether nothing more is coming: it has stopped, and its words are here.

        Of a call that has ended they come from a process of their own.
        """
        return self.has_stopped and not ("ended" in self.events and self._untold)

    @property
    def takers(self) -> tuple[int, ...]:
        """The processes that words are still to come from."""
        return tuple(number_in(object_in(event, "drain"), "pid") for event in self._untold)

    @property
    def _untold(self) -> list[dict[str, Any]]:
        """The events whose words are not here, and somebody is left to bring them."""
        events = (
            self.events[kind]
            for kind, words in _WORDS_OF
            if kind in self.events and words not in self.events
        )
        return [event for event in events if lives(object_in(event, "drain"))]


_TELLING: Final = ("ended", "launched", "started")
_WORDS_OF: Final = (("launched", "asked"), ("ended", "said"))
"""Which event's words come by which other."""


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
        reply = _part(object_in(self._call.events.get("said", {}), "reply"))
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
                yield PromptSent(prompt_seq=self._prompt_seq, prompts_before=0)
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
        told = (each.tokens_read for each in turn.events if isinstance(each, UsageReported))
        first_read = next((read for read in told if read is not None), None)
        return fixed_part(first_read=first_read, held=None, characters=len(turn.prompt))

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


def _part(kept: dict[str, Any], *, context: str = "") -> Part | None:
    """Return a text as it was kept, or its outline; None where there was none.

    An agent may tell a prompt with the context that was put before it, which is kept by itself.
    """
    if "digest" in kept:
        digest = bytes.fromhex(text_in(kept, "digest"))
        return ErasedPart(kind="text", digest=digest, size_bytes=number_in(kept, "size_bytes"))
    text = text_in(kept, "text").removeprefix(f"{context}\n\n" if context else "")
    return TextPart(text=text) if text else None


def turn_id_of(event: dict[str, Any]) -> TurnId:
    """Return the id a call's turn has, whoever takes it in."""
    said = "\0".join(text_in(event, name) for name in ("agent", "session", "call_id"))
    return TurnId(f"trn_{digest_of(said)}")


def digest_of(text: str) -> str:
    """Return what an id is made of that is to be the same whoever makes it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:26]
