"""The handshake in a hook, for calls that a decision taken beforehand does not fit.

Slower to load, and rarely needed. The inputs are those that were published with the conversation,
with what the call brings, what hooks have seen since, and what has moved around the session.
"""

from __future__ import annotations

import os
import time

from upthread.core.decision.examined import ExaminedFile
from upthread.core.decision.freshness import (
    Freshness,
    Surroundings,
    change_lines,
    freshness,
    render_native_update,
)
from upthread.core.decision.handshake import because, decide
from upthread.core.decision.model import AgentLimit, HandshakeInputs, inputs_from, worth_keeping
from upthread.core.decision.price import Price, Tokens, cache_state
from upthread.core.decision.words import cost_in_words
from upthread.core.lazy_dataclass import replace
from upthread.core.types import ConversationId, Outcome
from upthread.core.workstreams import callers_in
from upthread.runtime.bindings import spool
from upthread.runtime.bindings.examined_files import examined, has_moved
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.call import ELSEWHERE
from upthread.surfaces.hook.hook_decision import HookDecision, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from upthread.surfaces.hook.call import SubAgentCall


class EarlierVersionError(Exception):
    """What was published does not say what a decision rests on."""


def decide_fully(
    place: Place,
    call: SubAgentCall,
    role: dict[str, Any],
    binding: dict[str, Any],
    *,
    is_left: bool,
) -> HookDecision:
    """Return what `core.decision.handshake.decide` says to a call."""
    inputs = inputs_now(place, call, role, binding, is_left=is_left)
    decision = decide(inputs)
    said = {
        "decision": decision.decision,
        "reasons": list(decision.reasons),
        "because": because(decision.reasons, inputs.freshness),
        "cost": cost_in_words(inputs.price),
        "hint": decision.hint,
    }
    return HookDecision(
        said,
        dict(worth_keeping(inputs)),
        update=render_native_update(inputs.freshness),
        changes=change_lines(inputs.freshness),
    )


def inputs_now(
    place: Place,
    call: SubAgentCall,
    role: dict[str, Any],
    binding: dict[str, Any],
    *,
    is_left: bool,
) -> HandshakeInputs:
    """Return all that a decision on a call rests on.

    A role that never worked has the inputs of its first turn. Nobody holds what a call gets: one
    that is in use was passed over for a sibling.
    """
    stored = object_in(binding, "inputs") or object_in(role, "inputs")
    if not stored:
        # Never guessed: a decision on half of its inputs may start fresh where it would resume.
        spool.start_drain(place)
        raise EarlierVersionError("what hooks read is of an earlier version; it is written again")
    published = inputs_from(stored)
    session = text_in(binding, "session")
    failed = call.unusable.get(session) if session else None
    # What moves a conversation on clears the one or sets the other: the last turn is another now.
    is_as_published = bool(object_in(binding, "decided")) and not object_in(binding, "claim")
    was, here = _was(binding), _here(place, call, role, binding)
    found = _freshness(place, role, binding, was, here) if session else Freshness()
    return replace(
        published,
        agent=call.agent,
        turns=number_in(binding, "turns"),
        current_agent=text_in(binding, "agent") or None,
        was_interrupted=binding.get("was_interrupted") is True or is_left,
        was_unheard=published.was_unheard and is_as_published,
        is_fresh_asked=call.is_fresh_asked,
        callers=tuple(ConversationId(each) for each in callers_in(os.environ)),
        session_lost=None if failed is None or failed == ELSEWHERE else _outcome(failed),
        takes_no_session=not call.can_resume,
        # True only where the agent refused the session as another main session's: any other call
        # comes from within the main session that it belongs to.
        opens_only_within=failed == ELSEWHERE,
        condition_before=text_in(binding, "condition_before") or None,
        condition_now=text_in(binding, "condition_now") or None,
        relays=number_in(binding, "relays"),
        freshness=found,
        surroundings=here if session else None,
        price=_price(published.price, binding, was, found) if session else published.price,
        agent_limit=_limit(published.agent_limit, call, binding),
    )


def _limit(
    published: AgentLimit | None, call: SubAgentCall, binding: dict[str, Any]
) -> AgentLimit | None:
    """Return a limit that lasts still and is this agent's."""
    is_same_agent = text_in(binding, "agent") == call.agent
    lasts = published is not None and published.lasts(time.time_ns() // 1_000_000)
    return published if lasts and is_same_agent else None


def _outcome(failed: object) -> Outcome:
    known = isinstance(failed, str) and failed in set(Outcome)
    # The plug-in's word may be of a newer version; that the session cannot be used is certain.
    return Outcome(str(failed)) if known else Outcome.MISSING


def _price(
    published: Price, binding: dict[str, Any], was: Surroundings | None, found: Freshness
) -> Price:
    """Return the price now; of a call that is not in the record yet, what it told of itself."""
    idle_s = None if was is None or not was.at_ms else time.time_ns() / 1e9 - was.at_ms / 1000
    # A cache holds a prefix: other instructions or another model read it all anew, at any age.
    is_same_prefix = not found.is_configuration_changed and found.model is None
    cache = cache_state(text_in(binding, "agent"), idle_s=idle_s, is_same_prefix=is_same_prefix)
    told = binding.get("tokens_used")
    resume = Tokens(count=told, is_estimate=False) if isinstance(told, int) else published.resume
    return replace(published, resume=resume, cache=cache)


# --- what has moved ----------------------------------------------------------------------------


def _freshness(
    place: Place,
    role: dict[str, Any],
    binding: dict[str, Any],
    was: Surroundings | None,
    here: Surroundings,
) -> Freshness:
    listed = list_in(binding, "files")
    return freshness(
        known=[_file(each) for each in listed],
        now=[_now(place.root, each) for each in listed],
        was=was,
        here=here,
        critical=[glob for glob in list_in(role, "critical") if isinstance(glob, str)],
        places_gone=_places_gone(was),
    )


def _was(binding: dict[str, Any]) -> Surroundings | None:
    """Return what the session worked in, as it was recorded; None where nobody looked."""
    was = object_in(binding, "was")
    if not was:
        return None
    return Surroundings(
        working_directory=text_in(was, "working_directory"),
        agent=text_in(was, "agent"),
        agent_version=text_in(was, "agent_version"),
        model=text_in(was, "model") or None,
        configuration=text_in(was, "configuration"),
        repository=text_in(was, "repository") or None,
        branch=text_in(was, "branch") or None,
        commit=text_in(was, "commit") or None,
        git_fault=text_in(was, "git_fault"),
        at_ms=number_in(was, "at_ms"),
    )


def _here(
    place: Place, call: SubAgentCall, role: dict[str, Any], binding: dict[str, Any]
) -> Surroundings:
    # What it was, until the agent says what it is.
    version = text_in(object_in(binding, "was"), "agent_version")
    return Surroundings(agent=call.agent, agent_version=version, **surroundings(place, role))


def _places_gone(was: Surroundings | None) -> frozenset[str]:
    places = (was.working_directory, was.repository) if was else ()
    return frozenset(each for each in places if each and not os.path.exists(each))


def _now(root: str, known: dict[str, Any]) -> ExaminedFile:
    if not has_moved(root, known):
        return _file(known)
    # Its content, since a checkout or a touch moves times and changes nothing.
    return _file(examined(root, text_in(known, "path"), text_in(known, "how")))


def _file(fields: dict[str, Any]) -> ExaminedFile:
    state: Any = text_in(fields, "state") or "missing"
    how: Any = text_in(fields, "how") or "read"
    mtime_ns, size_bytes = fields.get("mtime_ns"), fields.get("size_bytes")
    return ExaminedFile(
        path=text_in(fields, "path"),
        how=how,
        state=state,
        size_bytes=size_bytes if isinstance(size_bytes, int) else None,
        mtime_ns=mtime_ns if isinstance(mtime_ns, int) else None,
        digest=text_in(fields, "digest") or None,
    )
