"""A call of a sub-agent, as a hook is told of it, and where upthread keeps what it knows of it.

And the end of its transcript, which its own agent is still writing to.
"""

from __future__ import annotations

import os

from upthread.boundary.files import read_end
from upthread.core.workstreams import WORKSTREAM_VARIABLE, choose_workstream, named_workstream
from upthread.runtime.bindings import files
from upthread.runtime.bindings.claims import claim, is_of_call
from upthread.runtime.bindings.files import FILE_BYTES_MAX
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FRESH_PREFIX = "fresh:"
"""As `core.turns.prompt.FRESH_PREFIX`."""

PROMPT_CHARACTERS_MAX = 1_000_000
ELSEWHERE = "elsewhere"


class SubAgentCall:
    """A call of a sub-agent, as the agent's plug-in tells it.

    `session` is the main session it is made in, `pid` the agent's process. `unusable` are sessions
    the agent has been asked for: what it said of each, an outcome's word, `busy`, or `ELSEWHERE` of
    one that only another main session can go on with. `can_resume` is whether the agent's tool
    takes a session to go on in. `named` is a session that the model named and the agent does not
    have, empty for none; with `only_own` it goes on with its own main session's alone.
    """

    def __init__(self, agent: str, fields: dict[str, Any]) -> None:
        self.agent = agent
        self.session = text_in(fields, "session")
        self.call_id = text_in(fields, "call_id")
        # Models write a role's name in any case; roles are configured in lower case.
        self.role = text_in(fields, "role").lower()
        self.prompt = text_in(fields, "prompt")
        # A claim lasts as long as this process. Who does not tell it has started us itself.
        self.pid = number_in(fields, "pid") or os.getppid()
        self.is_background = fields.get("is_background") is True
        self.unusable = object_in(fields, "unusable")
        # Left out by OpenCode's plug-in, whose tool takes a session.
        self.can_resume = fields.get("can_resume") is not False
        self.named = text_in(fields, "named")
        self.only_own = fields.get("only_own") is True

    @property
    def is_fresh_asked(self) -> bool:
        """Whether the prompt asks for a fresh session by its first word."""
        return self.prompt.lstrip().lower().startswith(FRESH_PREFIX)

    @property
    def text(self) -> str:
        """The prompt without its `fresh:`."""
        if not self.is_fresh_asked:
            return self.prompt
        return self.prompt.lstrip()[len(FRESH_PREFIX) :].lstrip()


def workstream_of(place: Place, agent: str, session: str) -> tuple[str | None, str]:
    """Return the workstream an agent's session works on, None for none, and the reason's code."""
    known = place.known or {}
    bound = files.read(place.session_path(agent, session)) if session else None
    used = object_in(known, "used").get(place.root)
    return choose_workstream(
        environment=os.environ.get(WORKSTREAM_VARIABLE),
        named=text_in(bound or {}, "workstream"),
        used=used if isinstance(used, str) else None,
        branch=place.branch,
        default_branch=text_in(known, "default_branch") or None,
    )


def hear_prompt(place: Place, agent: str, session: str, prompt: str) -> str | None:
    """Bind a main session to the workstream its person's prompt names; returns the name, if any."""
    known = [text_in(each, "name") for each in list_in(place.known or {}, "workstreams")]
    # Only names that are known: a prompt must not make a workstream by mentioning something.
    name = named_workstream(prompt[:PROMPT_CHARACTERS_MAX], [each for each in known if each])
    if name:
        files.replace(place.session_path(agent, session), {"workstream": name})
    return name


def role_of(place: Place, name: str) -> dict[str, Any]:
    """Return what is known of a role, empty for one that nobody configured."""
    return object_in(object_in(place.known or {}, "roles"), name)


def of_call(place: Place, call: SubAgentCall) -> tuple[str, dict[str, Any]] | None:
    """Return the binding that a call claims, with its path; None where it claims none."""
    return next(iter(bindings(place, lambda each: is_of_call(each, call.call_id))), None)


def claim_of(call: SubAgentCall) -> dict[str, Any]:
    """Return what a call claims its conversation by."""
    return claim(
        agent=call.agent,
        session=call.session,
        call_id=call.call_id,
        pid=call.pid,
        is_background=call.is_background,
    )


def where_of(binding: dict[str, Any]) -> dict[str, Any]:
    """Return which conversation a binding is of."""
    return {name: binding[name] for name in ("workstream", "role", "slot")}


def end_of(transcript: str) -> bytes:
    """Return the end of a file, `FILE_BYTES_MAX` at most; nothing of what cannot be read."""
    try:
        return read_end(transcript, FILE_BYTES_MAX)
    except (OSError, ValueError):  # ValueError: a path that is none, told by a request
        return b""
