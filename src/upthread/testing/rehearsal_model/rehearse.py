"""What the model answers: a side request, a script's step, a role's part, or what it was shown."""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from upthread.testing.rehearsal_model.answers import Answer, Failure, Reply
from upthread.testing.rehearsal_model.conversation import Conversation
from upthread.testing.rehearsal_model.role_play import play, role_of
from upthread.testing.rehearsal_model.script import ScriptError, script_of, step_for

SEEN_CHARACTERS: Final = 60
TITLE: Final = "Rehearsal"
SUMMARY: Final = "## Summary\nA rehearsal; nothing of the conversation is kept in this summary."

SIDE_REQUESTS: Final = (
    ("title generator", TITLE),  # OpenCode 1.18
    ("context summarization agent", SUMMARY),  # OpenCode 1.18, compaction
    ("tasked with summarizing conversations", SUMMARY),  # OpenCode before 1.18, Claude Code
    ("sentence-case title", TITLE),  # Claude Code 2.1
    ("write a 5-10 word title", TITLE),  # Claude Code 2.1
    ("naming a coding session", TITLE),  # claude-agent-acp 0.100
)
"""Words of a system prompt, and what answers it: requests an agent makes for itself."""

SIDE_PROMPTS: Final = (
    ("your task is to generate a very short title", json.dumps({"title": TITLE})),  # codex-acp 2.6
)
"""Words a prompt begins with that an agent makes for itself, and what answers it."""


class Decision(Struct, frozen=True, kw_only=True):
    """The answer, and whether the agent asked for itself and not for its user."""

    answer: Answer
    is_side_request: bool = False


def decide(conversation: Conversation, *, failures_of_turn: int) -> Decision:
    """Return the answer; `failures_of_turn` counts the failures this turn has already met."""
    side_answer = side_answer_for(conversation)
    if side_answer is not None:
        return Decision(answer=side_answer, is_side_request=True)
    done = conversation.model_calls_of_turn + failures_of_turn
    try:
        script = script_of(conversation)
    except ScriptError as error:
        return Decision(answer=Failure(status=400, message=f"rehearsal script: {error}"))
    step = step_for(script, done=done)
    if step is not None:
        return Decision(answer=step)
    role = role_of(conversation)
    if role is not None and not script:
        return Decision(answer=play(role, conversation))
    return Decision(answer=what_was_shown(conversation))


def side_answer_for(conversation: Conversation) -> Reply | None:
    """Return the fixed answer to an agent's request for itself, None for any other."""
    system = conversation.system.lower()
    for words, text in SIDE_REQUESTS:
        if words in system:
            return Reply(text=text)
    prompt = "".join(conversation.user_texts[-1:]).lower()
    for words, text in SIDE_PROMPTS:
        if prompt.startswith(words):
            return Reply(text=text)
    return None


def what_was_shown(conversation: Conversation) -> Reply:
    """Return how many user messages there are, and how each begins, as a JSON list."""
    seen = [text[:SEEN_CHARACTERS] for text in conversation.user_texts]
    return Reply(text=f"HIST n_user={len(seen)} seen={json.dumps(seen)}")
