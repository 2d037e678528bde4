"""What is particular to each agent that speaks ACP, as data. One row an agent.

A row says how the agent is recognised, what to start it with, what to announce to it, and what its
errors mean where the general rules of `outcomes` would not know. Rows hold what was seen, with the
version it was seen in; they never hold logic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from upthread.agents._outcomes import NO_CREDIT_OF_LIMIT
from upthread.core.types import JsonValue, Outcome

_ANY_CASE: Final = "(?i)"


class ErrorMeaning(Struct, frozen=True, kw_only=True):
    """What an error says that matches `pattern`, a regular expression.

    `is_certain` is for an agent's own fixed words, as seen in the version its row names. Any other
    words are a suspicion: a server of tools, a file's name or a test's output may hold them.
    """

    pattern: str
    outcome: Outcome
    is_certain: bool = False

    @property
    def words(self) -> str:
        """The pattern as a person reads it."""
        return self.pattern.removeprefix(_ANY_CASE)

    def matches(self, said: str) -> bool:
        """Whether an error's words are these."""
        # Compiled when first searched: most turns end well, and all of them load this.
        return re.search(self.pattern, said) is not None


class Quirk(Struct, frozen=True, kw_only=True):
    """One agent's particulars. `recognised_by` is searched in its name and its command line.

    `has_silent_children`: it sends nothing of a sub-agent, whose session it lets us load.
    `attaches_what_is_gone`: it attaches a session that was deleted, and fails with the first
    prompt; whether a session is there, its list says.
    `store` is set where it replays turns that the session's file lost: whose file that is.
    `file_of_minute`: it empties a session that it loads in the minute this file of it is named
    after, below its home, which the first of `home_variables` names; see `same_minute`.
    """

    name: str
    recognised_by: str
    versions_seen: str
    errors: tuple[ErrorMeaning, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    client_meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    has_silent_children: bool = False
    attaches_what_is_gone: bool = False
    store: str = ""
    file_of_minute: str = ""
    home_variables: tuple[str, ...] = ("HOME",)


def _says(pattern: str, outcome: Outcome) -> ErrorMeaning:
    return ErrorMeaning(pattern=pattern, outcome=outcome, is_certain=True)


def _sounds_like(pattern: str, outcome: Outcome) -> ErrorMeaning:
    return ErrorMeaning(pattern=_ANY_CASE + pattern, outcome=outcome)


NO_QUIRK: Final = Quirk(name="", recognised_by=r"(?!)", versions_seen="")

QUIRKS: Final = (
    Quirk(
        name="rehearsal",
        recognised_by=r"rehearsal",
        versions_seen="our own",
    ),
    Quirk(
        name="opencode",
        recognised_by=r"(?i)\bopencode\b",
        versions_seen="1.18.33",
        errors=(
            _says(r"ContextOverflowError", Outcome.CONTEXT_FULL),
            # An unknown id and any other fault of its service share these words.
            _sounds_like(r"OpenCode service failure", Outcome.UNKNOWN),
        ),
        # A sub-agent that goes on in the background would answer after its turn: it is waited for.
        environment={"OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS": "false"},
        has_silent_children=True,
    ),
    Quirk(
        name="codex",
        recognised_by=r"(?i)\bcodex\b",
        versions_seen="codex-acp 2.6.0",
        errors=(
            _sounds_like(r"no rollout found for thread id|thread not found", Outcome.MISSING),
            _says(r"already has an active writer", Outcome.BUSY),
            # How it ends a turn in which the provider refused it to the last; see `systemError`.
            _says(r"^exceeded retry limit, last status: 429\b", Outcome.RATE_LIMITED),
        ),
        # Without it, failures and warnings come as the agent's own words, and a rate limit ends as
        # `end_turn`; with it, nothing is told of a sub-agent, whatever else is announced.
        client_meta={"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}},
        # It attaches a deleted session and fails only at the first prompt, so its list is asked.
        attaches_what_is_gone=True,
        store="codex",
    ),
    Quirk(
        name="claude-code",
        recognised_by=r"(?i)\bclaude\b",
        versions_seen="claude-agent-acp 0.101.0",
        # No words of its errors: it passes Claude Code's own kinds on, in `data.errorKind`.
        # A sub-agent that goes on in the background would answer after its turn.
        environment={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"},
    ),
    Quirk(
        name="gemini",
        recognised_by=r"(?i)\bgemini\b",
        versions_seen="0.61.0",
        errors=(_says(r"No previous sessions found", Outcome.MISSING),),
        # It starts itself again as a child, which a signal to the first process does not reach.
        environment={"GEMINI_CLI_NO_RELAUNCH": "true"},
        home_variables=("GEMINI_CLI_HOME", "HOME"),
        file_of_minute=".gemini/tmp/*/chats/session-{minute}-{head}.json*",
    ),
)

GENERAL_ERRORS: Final = (
    _sounds_like(f"{NO_CREDIT_OF_LIMIT}|credit balance is too low", Outcome.CREDIT_EXHAUSTED),
    _sounds_like(r"rate.?limit|too many requests|usage limit|quota exceeded", Outcome.RATE_LIMITED),
    _sounds_like(
        r"context.?(window|length|overflow)|prompt is too long|too many tokens",
        Outcome.CONTEXT_FULL,
    ),
    _sounds_like(r"overloaded|service unavailable|bad gateway|gateway timeout", Outcome.TRANSIENT),
    _sounds_like(
        r"(session|thread|transcript|rollout)[^.]{0,80}(corrupt|malformed|cannot be parsed)",
        Outcome.CORRUPTED,
    ),
    _sounds_like(r"(session|thread|conversation)[^.]{0,40}expired", Outcome.EXPIRED),
    _sounds_like(r"(session|thread|conversation)[^.]{0,40}(is busy|in use)", Outcome.BUSY),
    _sounds_like(r"unauthori[sz]ed|authentication|not logged in|invalid api key", Outcome.AUTH),
    _sounds_like(
        r"(session|thread|conversation)[^.]{0,80}(not found|does not exist)", Outcome.MISSING
    ),
)
"""What words sound like where an agent has no row, or its row does not know them. First wins."""


def quirk_for(*names: str) -> Quirk:
    """Return the row of the agent that any of `names` belongs to, NO_QUIRK for an unknown one."""
    for quirk in QUIRKS:
        if any(re.search(quirk.recognised_by, name) for name in names):
            return quirk
    return NO_QUIRK
