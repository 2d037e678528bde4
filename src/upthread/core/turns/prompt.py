"""The prompt: what is sent for a turn, put together from the role, the context and the task.

A new upstream session is told who it is and where things stand; a resumed one only hears what is
new: with the decision `resume_with_update`, what has changed since it last worked, said once.
Everything is prose and Markdown headings; nothing imitates a provider's roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from upthread.core.decision.freshness import NEW_INSTRUCTIONS_HOLD, Freshness, render_changes
from upthread.core.decision.words import FIRST, RESUME_WITH_REPLAY, START_FRESH
from upthread.core.roles.role import Role
from upthread.core.text import item, quoted, unicode_text, without_mentions

FRESH_PREFIX = "fresh:"

INTERRUPTED: Final = " was interrupted before its end was recorded. Its prompt was:\n\n"

WHICH_TURN: Final = ("An earlier turn of yours", "Your last turn")
"""How a continuation names a turn that others came after, and the newest one."""

CONTINUATION = """\
{prompt}

Go on from where you stopped. Do not do again what is already done; if your reply was complete, \
give it again in full."""

UNATTENDED = """\
Nobody was there any more to allow anything. Try again first what failed for that; a reply that \
rests on it is not complete."""

EFFECTS_HEADING = "These actions of the interrupted turn are known:"

EFFECTS_DONE_HEADING = "These actions were done, or may have been; do not repeat them:"

NEW_SESSION_DECISIONS = frozenset({FIRST, START_FRESH, RESUME_WITH_REPLAY})


class Task(Struct, frozen=True, kw_only=True):
    """What is asked of a role.

    `news` is told to a session that heard the rest before, `everything` to a new one.
    """

    text: str
    news: str = ""
    everything: str = ""


UNVERIFIED: Final = """\
This directory has a file {name}. The person has not trusted the directory, so the file is only \
quoted here:

{text}"""


def with_unverified(task: Task, name: str, text: str) -> Task:
    """Return a task that quotes a directory's instructions to a new session, if there are any."""
    instructions = UNVERIFIED.format(name=name, text=quoted(text)) if text else ""
    told = (instructions, task.everything or task.news)
    return structs.replace(task, everything="\n\n".join(filter(None, told)))


def wants_fresh(text: str) -> bool:
    """Return whether the prompt asks for a fresh session by its first word."""
    return text.lstrip().lower().startswith(FRESH_PREFIX)


def without_fresh(text: str) -> str:
    """Return the prompt without its `fresh:` prefix."""
    return text.lstrip()[len(FRESH_PREFIX) :].lstrip() if wants_fresh(text) else text


def context_for(*, role: Role, task: Task, decision: str, past: str) -> str:
    """Return what goes before the task's text; the role block only with a new upstream session.

    It is valid Unicode, whatever was said earlier: no provider takes half of a character. It
    mentions no file, because others than the person wrote most of it.
    """
    is_new = decision in NEW_SESSION_DECISIONS
    # A resumed session is told the news alone: the rest it would read twice, and pay for twice.
    told = task.everything or task.news if is_new else task.news
    pieces = (role_block(role) if is_new else "", past, told)
    return without_mentions(unicode_text("\n\n".join(filter(None, pieces))))


def effects_block(effects: Sequence[str], heading: str = EFFECTS_DONE_HEADING) -> str:
    """Return the actions that must not be done again, in words; empty for none."""
    return "\n".join([heading, *map(item, effects)]) if effects else ""


def role_block(role: Role) -> str:
    """Return the role's instructions as a block; empty for a role without any."""
    if not role.instructions:
        return ""
    return f'<role name="{role.name}">\n{role.instructions.strip()}\n</role>'


def continuation(
    sent_text: str, effects: Sequence[str], *, was_unattended: bool = False, is_last: bool = True
) -> str:
    """Return the prompt that continues an interrupted turn, with the actions known of that turn.

    `was_unattended` is whether some of them may have failed because nobody allowed them, `is_last`
    whether the session has no later turn.
    """
    text = WHICH_TURN[is_last] + INTERRUPTED + CONTINUATION.format(prompt=quoted(sent_text))
    known = effects_block(effects, EFFECTS_HEADING)
    pieces = (text, UNATTENDED if was_unattended else "", known)
    return without_mentions("\n\n".join(filter(None, pieces)))


def is_continuation(text: str) -> bool:
    """Return whether a prompt takes an interrupted turn on."""
    return text.startswith(tuple(each + INTERRUPTED for each in WHICH_TURN))


# --- what a resumed session is told has changed ---------------------------------------------------


NEW_INSTRUCTIONS: Final = "Your instructions have changed. From now on these hold:"


def render_update(found: Freshness, *, role: Role, is_role_told: bool = False) -> str:
    """Return the block that goes before the prompt of a resumed session; empty for nothing new.

    With `is_role_told` the agent tells the role's instructions itself.
    """
    changes = render_changes(found)
    pieces = [changes] if changes else []
    if found.is_configuration_changed and is_role_told:
        pieces.append(NEW_INSTRUCTIONS_HOLD)
    elif found.is_configuration_changed and role.instructions:
        pieces += [NEW_INSTRUCTIONS, role_block(role)]
    return "\n\n".join(pieces)
