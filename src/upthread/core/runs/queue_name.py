"""The queue's name: where a transition may run, and when it is no longer due.

Workers take transitions from the queues of what they have: a project's directory, an agent, and the
host they are on, where an upstream session lives. A name is short, since it is part of the name of
a PostgreSQL channel, which has 63 bytes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from upthread.core.events import AnswerSuggested, RunEvent, StepStarted
from upthread.core.types import ProjectId

ANY_QUEUE: Final = "upthread"
"""Of transitions whose place nobody named. Every worker looks there, and passes on what it must."""

_PLACE_DIGITS: Final = 18
_HOST_DIGITS: Final = 8


def queue_of(project_id: ProjectId, *, agent: str = "", host: str = "") -> str:
    """Return the queue of a project's transitions for an agent on a host.

    Empty: whatever agent, wherever it runs. Without its last piece the queue of a host is that of
    all of them: so jobs go on elsewhere when their host is gone (store/postgres/workers.py).
    """
    queue = f"{ANY_QUEUE}.{_digest(project_id, agent)[:_PLACE_DIGITS]}"
    return f"{queue}.{_digest(host)[:_HOST_DIGITS]}" if host else queue


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def settles(event: RunEvent) -> bool:
    """Return whether an event settles the transitions before it.

    The start of a step does not: whoever takes the run over goes on with that very transition. Nor
    does what a model would answer: nothing comes of it.
    """
    return not isinstance(event, StepStarted | AnswerSuggested)
