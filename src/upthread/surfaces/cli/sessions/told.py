"""What became of chosen sessions, for people and for programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from upthread.client.surroundings import Surroundings
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.sessions.candidates import Candidate, shape
from upthread.surfaces.cli.terminal.neutral import one_line

NOT_ALL = 1
"""The exit code where one of the sessions could not be taken."""


class Done(Struct, frozen=True, kw_only=True):
    """What became of one session: `fault` is empty where it is done, or would be."""

    candidate: Candidate
    fault: str = ""


async def done_to(
    candidate: Candidate, act: Callable[[Candidate], Awaitable[object]], *, is_named: bool = False
) -> Done:
    """Do it to one session. What its agent or its file lacks is told with the others.

    Raises UsageError where a person has named the address, and named it wrongly; one that was
    suggested may have been taken by another process meanwhile.
    """
    try:
        await act(candidate)
    except UpthreadError as error:  # one must not cost the rest
        is_wrong = isinstance(error, UsageError) and not isinstance(error, NotFoundError)
        if is_named and is_wrong:
            raise
        return Done(candidate=candidate, fault=error.message)
    return Done(candidate=candidate)


def tell(
    call: Call, around: Surroundings, done: Sequence[Done], *, word: str, is_done: bool, held: int
) -> int:
    """Tell of each and return the exit code. `word` is what was done: KEPT.

    `held` is how many of those meant were on record already.
    """
    output = call.output
    if output.is_json:
        sessions = [_shape(each, around) for each in done]
        output.json({"is_done": is_done, "on_record_already": held, "sessions": sessions})
    else:
        for each in done:
            address, outline = one_line(each.candidate.address), each.candidate.outline
            if each.fault:
                said = f": NOT {word}: {one_line(each.fault)}"
                output.row((address, "cyan"), (said, "red"))
                continue
            what = word if is_done else f"would be {word.lower()}"
            name = f"{one_line(outline.session_id)} of {outline.agent}"
            output.row((address, "cyan"), (f": {what} {name}", ""))
        if held:
            said = "on record already; what was forgotten of them stays so"
            output.note(f"{held} of them {said}: upthread ls", "dim")
    return NOT_ALL if any(each.fault for each in done) else 0


def _shape(done: Done, around: Surroundings) -> dict[str, Any]:
    told = shape(done.candidate, around.redactor.redact)
    return {**told, "fault": around.redactor.redact(done.fault) or None}
