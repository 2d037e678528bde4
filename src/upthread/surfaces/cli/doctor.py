"""`doctor`: what there is, and the stored histories diagnosed, ours and the agents'.

One line each with its cure.
It reads, and changes nothing. A history that is sound is counted and not listed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread

from upthread.client import Project
from upthread.core.events import TurnEnded
from upthread.core.history.model import HistoryMessage, history_of
from upthread.core.history.soundness import CURES, Fault, faults, is_sound
from upthread.core.types import Conversation, ProjectId
from upthread.errors import StoreError, UsageError
from upthread.store.base import Store
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.finding import Finding
from upthread.surfaces.cli.holdings import Holdings, holdings
from upthread.surfaces.cli.holdings import show as show_holdings
from upthread.surfaces.cli.hook_findings import hook_findings, state_findings
from upthread.surfaces.cli.hook_states import HookState, hook_states
from upthread.surfaces.cli.neutral import command, one_line
from upthread.surfaces.cli.words import conversation_name, counted
from upthread.vendors.base import VendorHistory
from upthread.vendors.finding import AGENTS, stored_histories

OURS: Final = "upthread"
_IN_WORDS: Final = {
    "every_call_has_a_result": "call without a result",
    "every_result_has_a_call": "result without a call",
    "one_result_for_a_call": "second result",
    "call_ids_differ": "call id used twice",
    "results_stand_after_their_calls": "late result",
    "text_is_unicode": "half of a character",
}


@dataclass(slots=True)
class _Diagnosis:
    sound: int
    findings: list[Finding]
    holdings: Holdings | None = None
    hooks: tuple[HookState, ...] = ()


def doctor(call: Call, agent: str | None) -> int:
    """Diagnose every stored history, or those of one store."""
    if agent is not None and agent not in {OURS, *AGENTS}:
        raise UsageError(
            f"there is no store {agent!r}", hint=f"one of: {', '.join((OURS, *AGENTS))}"
        )
    diagnosis = _Diagnosis(0, [])
    if agent in {None, OURS}:
        diagnosis.holdings, found = call.with_project(_own)
        for finding in found:
            _add(diagnosis, finding)
    if agent is None:
        diagnosis.hooks, of_hooks = call.with_project(_of_hooks)
        diagnosis.findings += of_hooks
    if agent != OURS:
        for stored in stored_histories(os.environ, agent=agent):
            _add(diagnosis, finding_of(stored))
    _show(call, diagnosis)
    return 0


def _add(diagnosis: _Diagnosis, finding: Finding | None) -> None:
    if finding is None:
        diagnosis.sound += 1
    else:
        diagnosis.findings.append(finding)


def _show(call: Call, diagnosis: _Diagnosis) -> None:
    output = call.output
    if output.is_json:
        output.json(
            {
                "sound": diagnosis.sound,
                "findings": [asdict(each) for each in diagnosis.findings],
                "holdings": diagnosis.holdings,
                "hooks": [asdict(each) for each in diagnosis.hooks],
            }
        )
        return
    if diagnosis.holdings is not None:
        show_holdings(output, diagnosis.holdings)
    for state in diagnosis.hooks:
        is_here = "" if state.is_installed else "not installed, "
        output.row((f"hooks {state.agent}: ", "bold"), (f"{is_here}{state.words}", ""))
    for each in diagnosis.findings:
        output.row((f"{each.store} {one_line(each.history)}: ", "bold"), (one_line(each.what), ""))
        output.command("  ", each.cure)
    wrong = len(diagnosis.findings)
    style = "yellow" if wrong else "green"
    histories = "1 history" if diagnosis.sound == 1 else f"{diagnosis.sound} histories"
    output.line(f"{histories} sound, {wrong} not", style)


# --- the agents' -------------------------------------------------------------------------------


def finding_of(stored: VendorHistory | StoreError) -> Finding | None:
    """Return what is wrong with an agent's history, None when it is sound."""
    if isinstance(stored, StoreError):
        return Finding(
            store="?",
            history="",
            path=None,
            version="",
            faults={},
            unreadable=1,
            what=stored.message,
            cure=stored.hint,
        )
    found = faults_of(stored.history.messages)
    if not found and not stored.unreadable and stored.is_version_known:
        return None
    return Finding(
        store=stored.agent,
        history=stored.session_id,
        path=str(stored.path),
        version=stored.version,
        faults=_counts(found),
        unreadable=len(stored.unreadable),
        what="; ".join(_words(stored, found)),
        cure=_cure(stored, found),
    )


def faults_of(messages: Sequence[HistoryMessage]) -> tuple[Fault, ...]:
    """Return the faults of a history, quickly for a sound one."""
    return () if is_sound(messages) else faults(messages)


def _words(stored: VendorHistory, found: Sequence[Fault]) -> Iterator[str]:
    for rule, number in _counts(found).items():
        yield (
            counted(number, _IN_WORDS[rule])
            .replace("call without a results", "calls without a result")
            .replace("result without a calls", "results without a call")
            .replace("call id used twices", "call ids used twice")
            .replace("half of a characters", "halves of characters")
        )
    if stored.unreadable:
        first = stored.unreadable[0]
        yield f"{counted(len(stored.unreadable), 'place')} unreadable, first {first.place}: " + (
            one_line(first.why)
        )
    if not stored.is_version_known:
        version = one_line(stored.version) or "unknown"
        yield f"written by version {version}, which this upthread does not know"


def _cure(stored: VendorHistory, found: Sequence[Fault]) -> str:
    if not stored.is_version_known:
        return "read as far as it goes and left alone; a newer upthread may know it"
    if found or stored.agent != "opencode":
        return command("upthread", "repair", stored.agent, stored.session_id)
    return "left as it is; the agent has its own reading of it"


def _counts(found: Sequence[Fault]) -> dict[str, int]:
    counts = Counter(fault.rule for fault in found)
    return {rule: counts[rule] for rule in CURES if rule in counts}


# --- ours --------------------------------------------------------------------------------------


async def _own(project: Project) -> tuple[Holdings, list[Finding | None]]:
    found = await anyio.to_thread.run_sync(
        lambda: list(_own_findings(project.store, project.project_id))
    )
    return await holdings(project), found


async def _of_hooks(project: Project) -> tuple[tuple[HookState, ...], list[Finding]]:
    found = await anyio.to_thread.run_sync(lambda: list(hook_findings(project)))
    settings = project.settings
    states = await hook_states(Path(settings.home), settings.working_directory)
    return states, [*found, *state_findings(states)]


def _own_findings(store: Store, project_id: ProjectId) -> Iterator[Finding | None]:
    for workstream in store.workstreams(project_id):
        for conversation in store.conversations(project_id, workstream.workstream):
            yield _own_finding(store, conversation)


def _own_finding(store: Store, conversation: Conversation) -> Finding | None:
    damaged = store.verify(conversation.conversation_id)
    if damaged is not None:
        what = f"message {damaged} is not what was recorded"
        return _own_words(conversation, {}, what, "restore the database from a backup")
    found = faults_of(history_of(store.messages(conversation.conversation_id)).messages)
    if _is_running(store, conversation):
        found = tuple(fault for fault in found if fault.rule != "every_call_has_a_result")
    if not found:
        return None
    what = "; ".join(f"{fault.place}: {fault.what}" for fault in found[:3])
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    cure = f"what would be mended: {command('upthread', 'repair', conversation.key.address)}"
    return _own_words(conversation, _counts(found), what + more, cure)


def _is_running(store: Store, conversation: Conversation) -> bool:
    for turn in store.turns(conversation.conversation_id, newest=1):
        events = store.turn_events(turn.turn_id)
        return not any(isinstance(event, TurnEnded) for event in events)
    return False


def _own_words(
    conversation: Conversation, counts: Mapping[str, int], what: str, cure: str
) -> Finding:
    return Finding(
        store=OURS,
        history=conversation_name(conversation),
        path=None,
        version="",
        faults=counts,
        unreadable=0,
        what=what,
        cure=cure,
    )
