"""A turn's account: what its prompts take while they run, beside what may be spent."""

from __future__ import annotations

from typing import TypedDict

from upthread.agents.base import PromptResult
from upthread.core.decision.price import Spending, Tokens, fixed_part
from upthread.core.decision.words import TOKENS_MAX
from upthread.core.events import TurnParked, Usage
from upthread.core.turns.recorder import Recorder
from upthread.core.turns.spent_tokens import (
    NOTHING_COUNTED,
    Counted,
    Reported,
    added,
    passes,
    spent_on_prompt,
    stopped_in_words,
)
from upthread.core.turns.usage import together, unfinished, usage_of_prompt


class Spent(TypedDict):
    """What a turn's last event tells of its tokens."""

    tokens_spent: int | None
    is_spent_estimated: bool
    usage: Usage | None


class Fixed(TypedDict):
    """What a turn's end tells of what its agent reads before our words."""

    tokens_fixed: int | None
    is_fixed_estimated: bool


class Account:
    """Of one turn in this process.

    `spent` is what its prompts took that are over, None before the first; `usage` what of it its
    agent counted. `allowed` is what may be
    spent in all, and was before this process took the turn up; None where nothing limits it.
    `stopped` says why the running prompt was cancelled that would have passed that.
    """

    def __init__(self) -> None:
        self.spent: Tokens | None = None
        self.usage: Usage | None = None
        self.allowed: Spending | None = None
        self.stopped: TurnParked | None = None
        self._recorder: Recorder | None = None
        self._prompt_characters = 0
        self._is_noted = False
        self._in_flight: Tokens | None = None

    def begin(self, recorder: Recorder) -> None:
        """Count what the next prompt takes, as its recorder hears it."""
        self._recorder, self.stopped, self._is_noted = recorder, None, False
        self._in_flight = None

    def note(self, result: PromptResult, *, prompt_characters: int, reply_characters: int) -> None:
        """Add what a prompt took, as its agent told it."""
        reported = Reported(
            read=result.tokens_in, written=result.tokens_out, held=result.tokens_used
        )
        characters = prompt_characters + reply_characters
        self._add(spent_on_prompt(reported, characters=characters, counted=self._counted))
        told = usage_of_prompt(
            self._counted.usage, read=result.tokens_in, written=result.tokens_out
        )
        self._use(told)
        self._add_in_flight()
        self._prompt_characters, self._is_noted = prompt_characters, True

    def note_cut_off(self) -> None:
        """Add what a prompt took that was left without an answer, as far as it was told."""
        # Not once more what an answer has told already.
        if self._counted.requests and not self._is_noted:
            self._add(Tokens(count=self._counted.tokens, is_estimate=True))
            # The request that was cut off is in no figure: what it took nobody has told.
            self._use(unfinished(self._counted.usage))
            self._add_in_flight()

    def _add_in_flight(self) -> None:
        """Add the request that had left when the prompt was stopped: no agent tells of it."""
        if self._in_flight is not None:
            self._add(self._in_flight)
            self._in_flight = None

    def _add(self, took: Tokens) -> None:
        self.spent = added((self.spent, took)) if self.spent else took

    def _use(self, usage: Usage | None) -> None:
        self.usage = together(self.usage, usage)

    @property
    def _counted(self) -> Counted:
        return self._recorder.counted if self._recorder else NOTHING_COUNTED

    def is_passing(self) -> bool:
        """Whether the running prompt would pass what may be spent; `stopped` then says so. Once."""
        recorder, allowed = self._recorder, self.allowed
        if recorder is None or allowed is None or self.stopped is not None:
            return False
        taken = recorder.counted.tokens + (self.spent.count if self.spent else 0)
        next_read = recorder.next_read
        if next_read is None or not passes(allowed, taken=taken, next_read=next_read):
            return False
        detail = stopped_in_words(allowed, taken=taken, next_read=next_read)
        self.stopped = TurnParked(reason=TOKENS_MAX, detail=detail)
        self._in_flight = Tokens(count=next_read, is_estimate=True)
        return True

    def told(self) -> Spent:
        """Return what the turn's last event tells of its tokens."""
        if self.spent is None:
            return {"tokens_spent": None, "is_spent_estimated": False, "usage": None}
        return {
            "tokens_spent": self.spent.count,
            "is_spent_estimated": self.spent.is_estimate,
            "usage": self.usage,
        }

    def fixed(self, *, known: Tokens | None, is_new: bool, reply_characters: int) -> Fixed:
        """Return what the agent reads before our words.

        It is seen in a session that `is_new`, and as it was `known` in one that is not.
        """
        recorder, first_read = self._recorder, self._counted.first_read
        if is_new and recorder is not None:
            # What a session holds has its reply in it; what its first request read has not.
            reply = 0 if first_read is not None else reply_characters
            known = fixed_part(
                first_read=first_read,
                # A summary is shorter than what was read at first, and tells nothing of it.
                held=None if recorder.was_compacted else recorder.tokens_used,
                characters=self._prompt_characters + reply,
            )
        return {
            "tokens_fixed": known.count if known else None,
            "is_fixed_estimated": known.is_estimate if known else False,
        }
