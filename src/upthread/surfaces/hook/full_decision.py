"""The whole table of rules, for the calls that are not plain: slower to load, and rarely needed."""

from __future__ import annotations

import os

from upthread.core.decisions import HandshakeInputs, Limits
from upthread.core.examined import ExaminedFile
from upthread.core.freshness import Freshness, Surroundings, freshness
from upthread.core.handshake import decide, in_words
from upthread.core.types import ConversationId, Outcome
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.looking import examined, has_moved
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def decide_fully(
    place: Place, agent: str, role: dict[str, Any], binding: dict[str, Any], failed: object
) -> tuple[str, list[str], str, list[dict[str, Any]], list[str]]:
    """Return the decision, its reasons, them in words, the files that changed, and what moved.

    `failed` is what the agent said of the session when it was asked for, None before that.
    """
    found = _freshness(place, agent, role, binding)
    conversation_id = text_in(binding, "conversation_id") or "unknown"
    decision = decide(
        HandshakeInputs(
            conversation_id=ConversationId(conversation_id),
            agent=agent,
            continuity=_continuity(role),
            turns=number_in(binding, "turns"),
            current_agent=text_in(binding, "agent") or None,
            was_interrupted=binding.get("was_interrupted") is True,
            session_lost=None if failed is None else _outcome(failed),
            condition_before=text_in(binding, "condition_before") or None,
            condition_now=text_in(binding, "condition_now") or None,
            freshness=found,
            limits=_limits(role),
        )
    )
    told = () if decision.reasons == ("unchanged",) else decision.reasons
    says = "; ".join(in_words(reason) for reason in told)
    changed = [{"path": each.path, "how": each.how} for each in found.changed]
    if changed:
        says += f" ({_listed(found)})"
    return decision.decision, list(decision.reasons), says, changed, list(_shifts(found))


def _continuity(role: dict[str, Any]) -> Any:
    said = text_in(role, "continuity")
    return said if said in {"resume", "fresh", "auto"} else "auto"


def _outcome(failed: object) -> Outcome:
    known = isinstance(failed, str) and failed in set(Outcome)
    return Outcome(str(failed)) if known else Outcome.MISSING


def _limits(role: dict[str, Any]) -> Limits:
    most = number_in(role, "files_changed_max")
    return Limits(files_changed_max=most) if most else Limits()


def _freshness(
    place: Place, agent: str, role: dict[str, Any], binding: dict[str, Any]
) -> Freshness:
    known = [_file(each) for each in list_in(binding, "files")]
    now = [_now(place.root, each) for each in list_in(binding, "files")]
    was = object_in(binding, "surroundings")
    directory = text_in(was, "working_directory")
    here = Surroundings(
        working_directory=place.root,
        agent=agent,
        configuration=text_in(role, "configuration"),
        repository=place.repository,
        branch=place.branch,
    )
    before = Surroundings(
        working_directory=directory,
        agent=agent,
        configuration=text_in(was, "configuration"),
        repository=text_in(was, "repository") or None,
        branch=text_in(was, "branch") or None,
    )
    return freshness(
        known=known,
        now=now,
        was=before if was else None,
        here=here,
        critical=[glob for glob in list_in(role, "critical") if isinstance(glob, str)],
        places_gone=frozenset() if os.path.isdir(directory) else frozenset({directory}),
    )


def _now(root: str, known: dict[str, Any]) -> ExaminedFile:
    if not has_moved(root, known):
        return _file(known)
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


def _shifts(found: Freshness) -> list[str]:
    told: list[str] = []
    if found.branch is not None:
        told.append(
            f"The branch is {_name(found.branch.now)} now; it was {_name(found.branch.was)}."
        )
    if found.directory is not None:
        told.append(f"The working directory is {_name(found.directory.now)} now.")
    if found.is_configuration_changed:
        told.append("Your role's instructions have changed.")
    return told


def _name(text: str | None) -> str:
    return ascii(text) if text else "none"


def _listed(found: Freshness) -> str:
    names = ", ".join(ascii(each.path).strip("'") for each in found.changed[:3])
    more = found.changed_count - len(found.changed[:3])
    return names + (f" and {more} more" if more > 0 else "")
