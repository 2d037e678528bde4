"""The overview as JSON: docs/json.md has an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from upthread.agent_stores.outline import Look, SessionOutline
from upthread.core.decision.price import cache_state
from upthread.surfaces.cli.overview.totals import Numbers, Totals
from upthread.surfaces.cli.sessions.opening import opening_of

Redact = Callable[[str], str]


def overview(
    totals: Totals, look: Look, *, here: str, redact: Redact, now_ms: int
) -> dict[str, Any]:
    """All that is told, here first."""
    return {
        "here": here,
        "agents": [
            {
                "agent": agent,
                "here": _numbers(totals.agents_here.get(agent, Numbers())),
                "everywhere": _numbers(everywhere),
            }
            for agent, everywhere in totals.agents.items()
        ],
        "sessions": _sessions(totals.sessions_here.outlines, redact, now_ms),
        "sub_agents": _sessions(totals.sub_agents_here.outlines, redact, now_ms),
        "interrupted": totals.interrupted_here.count,
        "elsewhere": [
            {"directory": redact(directory), **_numbers(numbers)}
            for directory, numbers in totals.elsewhere.items()
        ],
        "deleted_soon": [
            {
                "agent": agent,
                "sessions": soon.sessions,
                "here": soon.here,
                "first_at_ms": soon.first_at_ms,
            }
            for agent, soon in totals.soon.items()
        ],
        "passed_over": [
            {"agent": agent, "why": why, "files": number}
            for (agent, why), number in look.passed_over.items()
        ],
        "foreign": dict(totals.foreign),
        "is_cut_short": look.is_cut_short,
    }


def _numbers(numbers: Numbers) -> dict[str, int | None]:
    return {
        "sessions": numbers.sessions,
        "sub_agents": numbers.sub_agents,
        "used_at_ms": numbers.used_at_ms or None,
    }


def _sessions(
    outlines: Iterable[SessionOutline], redact: Redact, now_ms: int
) -> list[dict[str, Any]]:
    return [session(each, redact, now_ms) for each in outlines]


def session(outline: SessionOutline, redact: Redact, now_ms: int) -> dict[str, Any]:
    """One session; `resume_command` opens it in its agent's own interface, null where none does."""
    opening = opening_of(outline)
    return {
        "agent": outline.agent,
        "session_id": outline.session_id,
        "parent_session_id": outline.parent_session_id or None,
        "role": redact(outline.role) or None,
        "title": outline.title(redact),
        "directory": redact(outline.directory),
        "branch": redact(outline.branch) or None,
        "begun_at_ms": outline.begun_at_ms,
        "used_at_ms": outline.used_at_ms,
        "model": outline.model or None,
        "tokens": outline.tokens,
        "cache": cache_state(outline.agent, idle_s=(now_ms - outline.used_at_ms) / 1000),
        "version": outline.version or None,
        "ending": outline.ending,
        "is_archived": outline.is_archived,
        "deleted_at_ms": outline.deleted_at_ms,
        "resume_command": None if opening.is_by_main else opening.resume_command,
        "unarchive_command": opening.unarchive_command,
    }
