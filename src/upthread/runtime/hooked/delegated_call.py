"""A call of a sub-agent that hooks have seen: what its events say, before it is a turn.

Whoever only looks whether something is to be taken in reads no more than this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from upthread.core.turns.hooked_call import CutOffCall, Sought
from upthread.core.types import (
    ConversationKey,
    ErasedPart,
    Outcome,
    Part,
    ProjectId,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.bindings.claims import is_claimed_by_another, lives
from upthread.runtime.bindings.light_json import number_in, object_in, text_in

_TELLING: Final = ("ended", "launched", "started")
_WORDS_OF: Final = (("launched", "asked"), ("ended", "said"))
"""Which event's words come by which other."""


class Delegated(Struct, frozen=True):
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
        return part_of(object_in(asked, "prompt"), context=text_in(self.decided, "context"))

    @property
    def reply(self) -> str:
        """What it ended with, as it is to be recorded; empty where that was not kept."""
        said = part_of(object_in(self.events.get("said", {}), "reply"))
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


def part_of(kept: dict[str, Any], *, context: str = "") -> Part | None:
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
