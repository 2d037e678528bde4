"""The plan: whom to kill and when, drawn from a seed and from nothing else.

A moment is a place in the oracle's journal and a time after it, so that a seed means about the same
on a fast and on a busy machine. Short times are likelier than long ones, and some places are sought
out: the windows in which most can go wrong are short. Some kills are due soon after the one before:
they hit the recovery.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

KILLS = 4
AGENT_LINES = 54
"""A kill is due after this many lines of the agents at the latest; an undisturbed passage of the
greeter with its release has 75."""

IN_RECOVERY_SHARE = 0.4
RECOVERY_LINES = 5
"""A kill that is to hit the recovery is due within so many lines of the one before."""

DELAY_S = 0.2
EVENTS = {"": 4, "prompt": 1, "permission": 2, "reply": 1}
"""After what the agents wrote a kill is due, each so many times as likely; empty is anything."""

SHORT_DELAYS = 4
"""The power that a chance between 0 and 1 is raised to."""

ANSWER_DELAY_S = 0.05
ANSWER_SHARE = 0.25
CONTINUE_SHARE = 0.3

NO_LOAD = "no_load"
AGENTS = {"": 4, "no_resume": 1, "outlives": 3, NO_LOAD: 2}
"""What the rehearsal agent can or cannot do, each so many times as likely."""


class Victim(StrEnum):
    """Whom a kill hits."""

    UPTHREAD = "upthread"
    AGENT = "agent"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Due `delay_s` after the agents have written `agent_lines` and then `event`.

    Without an event the lines are enough. `takes_group` is whether the agent's tools are killed
    with it.
    """

    victim: Victim
    agent_lines: int
    event: str
    delay_s: float
    takes_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is left to chance in one passage.

    `kills` are in the order they are due; `answer_kill_s` is how long after its start the first
    answer is killed, None when it is spared; `continues` is whether an interrupted turn is gone on
    with by `tell --continue`, time after time, and not by `run`; `agent` is what the rehearsal
    agent can or cannot do.
    """

    seed: int
    kills: tuple[Kill, ...]
    answer_kill_s: float | None
    continues: tuple[bool, ...]
    agent: str = ""

    def continues_by_tell(self, number: int) -> bool:
        return self.continues[number % len(self.continues)]


UNDISTURBED = Plan(seed=0, kills=(), answer_kill_s=None, continues=(False,))
"""The plan of a passage that nobody disturbs."""


def draw(seed: int, *, kills: int = KILLS) -> Plan:
    """Return the plan of a seed."""
    chance = random.Random(seed)
    places = sorted(chance.randrange(AGENT_LINES) for _ in range(kills))
    for index in range(1, kills):
        if chance.random() < IN_RECOVERY_SHARE:
            places[index] = places[index - 1] + chance.randrange(RECOVERY_LINES)
    places.sort()
    return Plan(
        seed=seed,
        kills=tuple(
            Kill(
                victim=chance.choice(tuple(Victim)),
                agent_lines=place,
                event=_weighed(chance, EVENTS),
                delay_s=DELAY_S * chance.random() ** SHORT_DELAYS,
                takes_group=chance.random() < 0.5,
            )
            for place in places
        ),
        answer_kill_s=(
            chance.uniform(0, ANSWER_DELAY_S) if chance.random() < ANSWER_SHARE else None
        ),
        continues=tuple(chance.random() < CONTINUE_SHARE for _ in range(8)),
        agent=_weighed(chance, AGENTS),
    )


def _weighed(chance: random.Random, weights: Mapping[str, int]) -> str:
    return chance.choices(tuple(weights), tuple(weights.values()))[0]
