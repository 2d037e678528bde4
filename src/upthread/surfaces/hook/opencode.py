"""What the OpenCode plug-in asks: one object in, one out. The plug-in is `opencode.js`."""

from __future__ import annotations

from upthread.core.decision.words import NOT_RESUMED
from upthread.runtime.bindings import spool
from upthread.runtime.bindings.light_json import list_in, number_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.call import SubAgentCall, hear_prompt, role_of
from upthread.surfaces.hook.delegation import before, before_message
from upthread.surfaces.hook.progress import ended, release, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "opencode"
REPLACED = (
    "the session that was named is not the one OpenCode used: does another plug-in replace `args` "
    "of `task`?"
)


class UnknownEventError(Exception):
    """The plug-in asked for something that this program does not know."""


def answer(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; an empty answer changes nothing."""
    call = SubAgentCall(AGENT, request)
    match text_in(request, "event"):
        case "before":
            decided = before(place, call)
            told = {
                "line": decided.line,
                "prompt": decided.prompt,
                "task_id": decided.session,
                "is_traced": bool(role_of(place, call.role)) or bool(call.named),
            }
            return {**told, "refused": decided.refusal} if decided.refusal else told
        case "named":  # the model has filled in `task_id` itself, as OpenCode's results offer it
            decided = before_message(place, call, text_in(request, "child"))
            return {"line": decided.line, "is_traced": True}
        case "started":
            started(place, call, text_in(request, "child"))
        case "ended":
            ended(
                place,
                call,
                text_in(request, "child"),
                outcome=text_in(request, "outcome"),
                reply=text_in(request, "reply"),
                examinations=list_in(request, "files"),
                tokens_window=number_in(request, "window"),
            )
        case "prompt":
            release(place, AGENT, call.session)
            hear_prompt(place, AGENT, call.session, call.prompt)
        case "replaced":
            # The child has begun in another session by now: that can be told and not be mended.
            spool.put(place, "undecided", {"agent": AGENT, "why": REPLACED})
            return {"line": f"upthread: {NOT_RESUMED.format(why=REPLACED)}"}
        case _:
            raise UnknownEventError("the plug-in is of another version: upthread setup opencode")
    return {}
