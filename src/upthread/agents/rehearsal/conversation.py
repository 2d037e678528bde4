"""What the agent does with a prompt: directives first, else its role, else free talk."""

from __future__ import annotations

from typing import Final

from upthread.agents.rehearsal.directives import (
    BAD_REPORT,
    NO_REPORT,
    REPORT_WORDS,
    carry_out,
    directives_of,
)
from upthread.agents.rehearsal.roles import BROKEN_BLOCK, ROLES, block_of, play, prose_of
from upthread.agents.rehearsal.turn import Turn

REMEMBERED_CHARACTERS: Final = 40


def respond(turn: Turn) -> None:
    """Do all there is to do in a turn. Returning is the end of the turn, with `end_turn`."""
    directives = directives_of(turn)
    report_words = {one.word for one in directives} & REPORT_WORDS
    actions = [one for one in directives if one.word not in REPORT_WORDS]
    for directive in actions:
        carry_out(turn, directive)
    if actions:
        return
    if turn.role in ROLES:
        _play_role(turn, report_words=report_words)
        return
    turn.say(_free_talk(turn))
    if BAD_REPORT in report_words:
        turn.say(f"\n\n{BROKEN_BLOCK}")


def _play_role(turn: Turn, *, report_words: set[str]) -> None:
    report = play(turn)
    turn.say(prose_of(report))
    if NO_REPORT in report_words:
        return
    turn.say(f"\n\n{BROKEN_BLOCK if BAD_REPORT in report_words else block_of(report)}")


def _free_talk(turn: Turn) -> str:
    """Say what this session holds, so that a reader can count what was lost."""
    earlier = turn.history.prompts[:-1]
    heads = "; ".join(f'"{" ".join(prompt.split())[:REMEMBERED_CHARACTERS]}"' for prompt in earlier)
    told = f": {heads}" if heads else ""
    return f"I remember {len(earlier)} earlier prompts{told} (rehearsal)"
