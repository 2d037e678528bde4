"""A call that hooks saw: what of it the agent's own store has and the record does not.

A hook sees a sub-agent begin and end, and not what it does; when the agent is killed, nobody sees
it end. What it was asked and did lies in the agent's own store, as a session that may hold earlier
turns, and later ones, as well. Pure: the store is read by agents/stored.py, and what is found is
recorded by runtime/hooked/retrieval.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import Struct, structs

from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.text import one_line
from upthread.core.types import (
    ErasedPart,
    Message,
    Part,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)

PROMPT_CHARACTERS_MAX: Final = 300
"""How much of a prompt one line tells."""

_ENDS: Final = frozenset({"completed", "failed"})


class CutOffCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent, by what hooks saw of it. `session` is empty where nobody saw it."""

    agent: str
    main_session: str
    call_id: str
    session: str = ""


class StoredSession(Struct, frozen=True, kw_only=True):
    """A sub-agent's session as its agent's store holds it, oldest first.

    `written_at_ns` is when the store last wrote to it, in epoch nanoseconds: what was touched later
    was not touched under its eyes. `refusal` is what the agent answered in place of a sub-agent,
    which there is none of then: the session has no id, and no more than the prompt.
    """

    upstream_session_id: UpstreamSessionId
    events: tuple[AgentEvent, ...]
    written_at_ns: int
    refusal: str = ""


class CutOffTurn(Struct, frozen=True, kw_only=True):
    """A turn that stopped before its end, for a person and for whoever goes on.

    `actions` are what it did to the world, and how that ended, in words; `detail` is why it
    stopped, empty where nobody ended it yet. `prompt` is empty where it was not kept.
    """

    turn_id: TurnId
    prompt: str
    actions: tuple[str, ...]
    detail: str

    @property
    def lines(self) -> tuple[str, str]:
        """One line for the interruption, one for the prompt; `actions` are lines as they are."""
        return self._lines("the last turn")

    @property
    def lines_of_earlier(self) -> tuple[str, str]:
        """As `lines`, of a turn that others have come after."""
        return self._lines("an earlier turn")

    def _lines(self, which: str) -> tuple[str, str]:
        asked = one_line(self.prompt)[:PROMPT_CHARACTERS_MAX] or "not kept"
        why = f": {self.detail}" if self.detail else ""
        return f"{which} was cut off{why}", f"it was asked: {asked}"


ReadStored: TypeAlias = Callable[[CutOffCall], StoredSession | None]
"""Reads a session from its agent's store, None where it holds none. Blocking.

Raises StoreError for what is there and cannot be read.
"""


ReadAsked: TypeAlias = Callable[[CutOffCall], str]
"""Reads what a call asked for from its main session, which has it before there is a sub-agent.

Empty where nothing has it. Blocking. Raises StoreError as above.
"""


UNANSWERED: Final = " unanswered"
"""The end of a session's stamp while its store has no reply to the newest prompt."""


class StoredTurn(Struct, frozen=True, kw_only=True):
    """One prompt of a stored session, and what came after it, up to the next prompt."""

    upstream_session_id: UpstreamSessionId | None
    prompt: str
    events: tuple[AgentEvent, ...]

    @property
    def usage(self) -> UsageReported | None:
        """What the session held at the turn's end, None where its store does not tell."""
        told = [event for event in self.events if isinstance(event, UsageReported)]
        return told[-1] if told else None

    def ended_with(
        self, reply: str, redact: Callable[[str], str], *, is_answered: bool
    ) -> StoredTurn:
        """Return the turn with `reply` as its last text, itself where its store has that already.

        `reply` is what a hook was told at the end, empty for nothing; `redact` takes the secrets
        out of a text. Where the turn was answered (`is_answered`) and the store lacks the reply, it
        is behind: calls without an end are left out, since they have ended. Where it was not, the
        reply is an error's text, and such calls stay open.
        """
        pieces = (event.text for event in self.events if isinstance(event, TextReceived))
        stored = "".join(pieces)
        # Either way: a reply comes as it was said, or as it is to be recorded.
        if not reply or reply in stored or reply in redact(stored):
            return self
        ended = {
            event.call_id
            for event in self.events
            if isinstance(event, ToolCallUpdated) and event.status in _ENDS
        }
        told = (
            event
            for event in self.events
            # Kept, a call would be recorded as open that was over before the answer.
            if not (is_answered and isinstance(event, ToolCallAnnounced | ToolCallUpdated))
            or event.call_id in ended
        )
        said = TextReceived(upstream_session_id=self.upstream_session_id, text=reply)
        return structs.replace(self, events=(*told, said))


class Sought(Struct, frozen=True, kw_only=True):
    """Which turn of a stored session is looked for.

    `recorded` are the conversation's messages in that session, oldest first. `asked` is the prompt
    as it is to be recorded, None where it was not kept. `context` was put before it. `later` is how
    many calls have gone on in the session since, `answered` how many of these were answered, whose
    prompts it must then have got. `is_first` is whether the session was begun for it. `redact`
    takes the secrets out of a text, as recording does.
    """

    recorded: tuple[Message, ...] = ()
    asked: Part | None = None
    context: str = ""
    later: int = 0
    answered: int = 0
    is_first: bool = False
    redact: Callable[[str], str] = str


def turn_of(events: Sequence[AgentEvent], sought: Sought) -> StoredTurn | None:
    """Return a call's turn in a stored session, None where it never got there, or is recorded.

    What its own sub-agents said is left to their sessions.
    """
    at = _prompts(events)
    new = _new(events, at, sought)
    if sought.asked is not None and not isinstance(sought.asked, ErasedPart):
        new = [i for i in new if _is_said(sought.asked, _texts(events[i], sought))][-1:]
    # No prompt of its own in the session: what is new there belongs to calls that came after.
    elif len(new) <= sought.answered:
        return None
    if not new:
        return None
    # The oldest where later calls have added theirs, else the newest: it was the last to go in.
    begin = new[0] if sought.later or sought.is_first else new[-1]
    end = next((i for i in at if i > begin), len(events))
    found = _turn(events, begin, end)
    return structs.replace(found, prompt=own_words(found.prompt, sought))


def stored_turns(events: Sequence[AgentEvent]) -> tuple[StoredTurn, ...]:
    """Return a stored session as its turns, without what its own sub-agents heard and said."""
    # Late: a look shows what is on record, and nothing of it has to be recognised.
    from upthread.core.turns.recognition import children_of  # noqa: PLC0415

    children = children_of(events)
    own = [event for event in events if event.upstream_session_id not in children]
    at = _prompts(own)
    return tuple(_turn(own, *each) for each in pairwise((*at, len(own))))


def _turn(events: Sequence[AgentEvent], begin: int, end: int) -> StoredTurn:
    from upthread.core.turns.recognition import children_of  # noqa: PLC0415  # as above

    tail = events[begin + 1 : end]
    children = children_of(tail)
    return StoredTurn(
        upstream_session_id=events[begin].upstream_session_id,
        prompt=_text(events[begin]),
        events=tuple(
            _childless(event)
            for event in tail
            if event.upstream_session_id not in children
            and not isinstance(event, ChildStarted | ChildEnded)
        ),
    )


def is_unheard(events: Sequence[AgentEvent], sought: Sought) -> bool:
    """Return whether a stored session has got no prompt but those that are in the record."""
    return not _new(events, _prompts(events), sought)


def own_words(prompt: str, sought: Sought) -> str:
    """Return a prompt without the context that was put before it."""
    return prompt.removeprefix(f"{sought.context}\n\n" if sought.context else "")


def _prompts(events: Sequence[AgentEvent]) -> list[int]:
    return [i for i, event in enumerate(events) if isinstance(event, UserTextReplayed)]


def _new(events: Sequence[AgentEvent], at: list[int], sought: Sought) -> list[int]:
    return at[_recorded_of([_texts(events[i], sought) for i in at], sought) :]


def _recorded_of(prompts: Sequence[frozenset[str]], sought: Sought) -> int:
    """Return how many of a session's prompts, from the first, are in the record already.

    As many as were recorded, where the last of these fits; a compaction may have taken some away,
    and then it is sought from the end.
    """
    known = [message for message in sought.recorded if message.speaker is Speaker.USER]
    if not known:
        return 0
    if len(prompts) >= len(known) and _may_be(known[-1], prompts[len(known) - 1]):
        return len(known)
    fitting = (n for n in range(len(prompts), 0, -1) if _may_be(known[-1], prompts[n - 1]))
    # None fits where a compaction took them all: then the newest alone is taken for new.
    return next(fitting, len(prompts) - 1 if prompts else 0)


def _text(event: AgentEvent) -> str:
    assert isinstance(event, UserTextReplayed)
    return event.text


def _texts(event: AgentEvent, sought: Sought) -> frozenset[str]:
    """Return what a stored prompt may have been recorded as."""
    texts = {_text(event), own_words(_text(event), sought)}
    return frozenset(texts | set(map(sought.redact, texts)))


def _is_said(asked: Part, texts: frozenset[str]) -> bool:
    return isinstance(asked, TextPart) and asked.text in texts


def _may_be(recorded: Message, texts: frozenset[str]) -> bool:
    """Whether a recorded prompt may be one of these: of one that was not kept, nobody can tell."""
    is_kept = not any(isinstance(part, ErasedPart) for part in recorded.parts)
    return not is_kept or recorded.sent_text in texts or recorded.text in texts


def _childless(event: AgentEvent) -> AgentEvent:
    if isinstance(event, ToolCallUpdated):
        return structs.replace(event, child_upstream_session_id=None)
    return event
