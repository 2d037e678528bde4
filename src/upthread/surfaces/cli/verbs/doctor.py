"""`doctor`: what there is, and the stored histories diagnosed, ours and the agents'.

One line each with its cure.
It reads, and changes nothing. A history that is sound is counted and not listed. It ends with 1
where our own record is damaged.
"""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

import anyio
import anyio.to_thread
import click
from msgspec import Struct, field

from upthread import __version__
from upthread.agent_stores.base import VendorHistory
from upthread.agents._connection import RENAME, UNUSABLE, unusable_names
from upthread.agents.registry import (
    AGENTS_AND_REHEARSAL,
    REHEARSAL,
    InstalledAgent,
    find_program,
    installed_agents,
    version_warning,
)
from upthread.agents.stored import stored_histories
from upthread.client.database_files import diagnose
from upthread.client.project import Project
from upthread.core.agents import WITH_A_STORE, name_of, one_of
from upthread.core.events import TurnEnded
from upthread.core.history.model import faults, history_of, results_without_calls
from upthread.core.names import did_you_mean
from upthread.core.types import Conversation, Outcome
from upthread.errors import StoreError, UsageError
from upthread.runtime.record.turn_views import turn_events
from upthread.store.base import Store
from upthread.store.kinds import ConversationState
from upthread.store.sqlite.files import CURE_OF_DAMAGE
from upthread.store.streams import CURE_OF_DAMAGE as SEE_DOCTOR
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.failures import EXIT_ERROR
from upthread.surfaces.cli.findings import (
    Finding,
    Holdings,
    HookState,
    counts_of,
    finding_of,
    holdings,
    hook_findings,
    hook_states,
    probe,
)
from upthread.surfaces.cli.findings import show as show_holdings
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import (
    command,
    conversation_name,
    counted,
    one_line,
    standing_in_words,
)
from upthread.surfaces.cli.terminal.state_lines import Row, write_table
from upthread.surfaces.cli.verbs.setup import TARGETS

OURS = "upthread"
OPENCODE = "opencode"
FAULTS_SHOWN_MAX = 5
"""How many faults of our own file are shown."""


class _Diagnosis(Struct):
    sound: int
    findings: list[Finding]
    unsound: int = 0
    """How many histories have a finding; the others are of files, of hooks and of set-up."""

    holdings: Holdings | None = None
    hooks: tuple[HookState, ...] = ()
    other_versions: Counter[str] = field(default_factory=Counter[str])
    """The number of sound histories of untested agent versions, by agent."""

    is_open: bool = True
    is_whole: bool = True
    """Whether our own record has no damaged page and no damaged message."""


@options.verb
@click.argument(
    "store",
    metavar="[STORE]",
    required=False,
    help=f"upthread, {one_of(WITH_A_STORE)}.",
    shell_complete=options.stores,
)
@click.option(
    "--probe",
    "probed",
    metavar="AGENT",
    help="Try what an agent does about sessions.",
    shell_complete=options.agents,
)
@click.option(
    "--rate-limit-prompt",
    metavar="TEXT",
    help="With --probe: what makes a scripted model answer with a rate limit.",
)
@options.flag("--agents", "lists_agents", "Only list the agents, and how each is driven.")
@options.yes
def main(
    call: Call,
    *,
    store: str | None,
    probed: str | None,
    rate_limit_prompt: str | None,
    lists_agents: bool,
) -> int:
    """Check the stored histories, ours and the agents', and name each cure.

    The exit code is 1 where our own record is damaged.
    """
    if lists_agents:
        return list_agents(call)
    if probed is not None:
        if store is not None:
            raise UsageError(
                "--probe takes no store", hint=command("upthread", "doctor", "--probe", probed)
            )
        probe(call, probed, rate_limit_prompt=rate_limit_prompt)
        return 0
    return _diagnose(call, store)


def _diagnose(call: Call, store: str | None) -> int:
    stores = (OURS, *WITH_A_STORE)
    agent = None if store is None else name_of(store)
    if agent not in {None, *stores}:
        like = did_you_mean(str(agent), stores)
        raise UsageError(f"there is no store {agent!r}{like}", hint=f"one of: {', '.join(stores)}")
    diagnosis = _Diagnosis(0, [])
    if agent in {None, OURS}:
        _diagnose_own(call, diagnosis)
    # Hooks are checked with an open project, and a damaged file cannot be opened.
    if agent is None and diagnosis.is_open:
        try:
            diagnosis.hooks, of_hooks = call.with_project(_of_hooks)
            diagnosis.findings += of_hooks
        except StoreError:
            if diagnosis.is_whole:  # else the damage is among the findings
                raise
    if agent in {None, OPENCODE}:
        directory = call.settings().working_directory
        diagnosis.findings += [
            Finding(store=OPENCODE, history=where, what=UNUSABLE, cure=RENAME)
            for where in unusable_names(directory, os.environ)
        ]
    if agent != OURS:
        for stored in stored_histories(os.environ, agent=agent):
            finding = finding_of(stored)
            _add(diagnosis, finding)
            if finding is None and isinstance(stored, VendorHistory):
                diagnosis.other_versions[stored.agent] += not stored.is_version_known
    _show(call, diagnosis)
    return 0 if diagnosis.is_whole else EXIT_ERROR


def _diagnose_own(call: Call, diagnosis: _Diagnosis) -> None:
    """Check the file first, because a file that cannot be opened has no histories to check."""
    of_file = diagnose(call.settings())
    if of_file is not None and not of_file.is_sound:
        diagnosis.findings.append(
            Finding(
                store=OURS,
                history=str(of_file.path),
                path=str(of_file.path),
                unreadable=len(of_file.faults),
                what=_some_of(of_file.faults, FAULTS_SHOWN_MAX),
                cure=of_file.cure,
            )
        )
        diagnosis.is_whole = False
    try:
        diagnosis.holdings, found = call.with_project(_own)
    except StoreError as error:
        # The file's own finding explains this better.
        if diagnosis.is_whole:
            diagnosis.findings.append(
                Finding(
                    store=OURS,
                    history="",
                    what=error.message,
                    cure=error.hint.replace(SEE_DOCTOR, CURE_OF_DAMAGE),
                )
            )
        diagnosis.is_open = diagnosis.is_whole = False
        return
    for finding in found:
        _add(diagnosis, finding)
        diagnosis.is_whole &= finding is None or not finding.unreadable


def _add(diagnosis: _Diagnosis, finding: Finding | None) -> None:
    if finding is None:
        diagnosis.sound += 1
    else:
        diagnosis.unsound += 1
        diagnosis.findings.append(finding)


def _show(call: Call, diagnosis: _Diagnosis) -> None:
    output = call.output
    output.json(
        {
            **members(diagnosis, "sound findings holdings hooks"),
            "other_versions": +diagnosis.other_versions,
        }
    )
    if diagnosis.holdings is not None:
        show_holdings(output, diagnosis.holdings)
    for state in diagnosis.hooks:
        is_here = "" if state.is_installed else "not installed, "
        output.row((f"hooks {state.agent}: ", "bold"), f"{is_here}{state.words}")
    for each in diagnosis.findings:
        output.row((f"{each.store} {one_line(each.history)}: ", "bold"), one_line(each.what))
        output.command("  ", each.cure)
    for agent, number in (+diagnosis.other_versions).items():
        histories = counted(number, "history", "histories")
        output.line(f"{agent}: {histories} of versions nobody has looked at, read as they are")
    histories = counted(diagnosis.sound, "history", "histories")
    others = len(diagnosis.findings) - diagnosis.unsound
    more = f"; {counted(others, 'other finding')}" if others else ""
    style = "yellow" if diagnosis.findings else "green"
    output.line(f"{histories} sound, {diagnosis.unsound} not{more}", style)


# --- ours --------------------------------------------------------------------------------------


def _some_of(faults: Sequence[str], most: int) -> str:
    more = [f"and {len(faults) - most} more"] if len(faults) > most else []
    return "; ".join([*faults[:most], *more])


async def _own(project: Project) -> tuple[Holdings | None, list[Finding | None]]:
    found = await anyio.to_thread.run_sync(lambda: list(_own_findings(project)))
    try:
        return await holdings(project), found
    except StoreError as error:
        return None, [*found, _unreadable("", error)]


async def _of_hooks(project: Project) -> tuple[tuple[HookState, ...], list[Finding]]:
    states = await hook_states(project.settings)
    found = await anyio.to_thread.run_sync(lambda: list(hook_findings(project, states)))
    refused = [
        Finding(
            store=OURS,
            history=conversation_name(role.conversation),
            what=standing_in_words(role.standing),
            cure=role.standing.command,
        )
        for view in await project.workstreams()
        for role in view.roles
        if (last := role.last_turn)
        and last.was_refused
        and last.stopped_by[0] not in {Outcome.OK, Outcome.CANCELLED}
    ]
    return states, [*found, *refused]


def _own_findings(project: Project) -> Iterator[Finding | None]:
    """Yield what is damaged in the whole store, and a finding or None for each conversation."""
    for proof in project.store.proofs():
        state = None if proof.head is None else proof.head.state
        talk = state.conversation if isinstance(state, ConversationState) else None
        name = proof.name if talk is None else conversation_name(talk)
        try:
            if proof.damage is not None:
                yield _unreadable(name, proof.damage)
            elif talk is not None and talk.key.project_id == project.project_id:
                yield _own_finding(project.store, talk)
        except StoreError as error:
            yield _unreadable(name, error)


def _unreadable(history: str, error: StoreError) -> Finding:
    return Finding(
        store=OURS, history=history, unreadable=1, what=error.message, cure=CURE_OF_DAMAGE
    )


def _own_finding(store: Store, conversation: Conversation) -> Finding | None:
    messages = store.messages(conversation.conversation_id)
    found = faults(history_of(messages))
    for turn in store.turns(conversation.conversation_id, newest=1):
        events = turn_events(store, turn.conversation_id, turn.turn_id)
        # Under way, a call without a result is no fault yet.
        if not any(isinstance(event, TurnEnded) for event in events):
            found = tuple(fault for fault in found if fault.rule != "every_call_has_a_result")
    cure = f"what would be mended: {command('upthread', 'repair', conversation.address)}"
    if orphans := tuple(results_without_calls(messages)):
        seen = command("upthread", "audit", conversation.key.workstream)
        found, cure = orphans, f"its model is told the result as text; see what was done: {seen}"
    if not found:
        return None
    return Finding(
        store=OURS,
        history=conversation_name(conversation),
        faults=counts_of(found),
        what=_some_of([f"{fault.place}: {fault.what}" for fault in found], 3),
        cure=cure,
    )


# --- agents -------------------------------------------------------------------------------------
# The agents that upthread knows, and how it drives each.

_OWN_CAN = ("resume", "load", "list", "fork", "sub_agents")


class ListedAgent(Struct, frozen=True, kw_only=True):
    """One agent as it is listed; the names are the JSON keys.

    `tested_with` and `can` are None for one that this release was not tested with; `notice` is set
    for another version than that. `hooks` is None for one that `setup` does not know.
    """

    agent: str
    is_installed: bool
    version: str | None = None
    path: str | None
    driven_by: str
    command: tuple[str, ...]
    how_to_install: str
    is_configured: bool = False
    tested_with: str | None = None
    can: tuple[str, ...] | None = None
    notice: str | None = None
    hooks: HookState | None


def list_agents(call: Call) -> int:
    """List the agents that upthread knows, and those that the configuration adds."""
    settings = call.trusted_settings()
    states = {TARGETS[each.agent].name: each for each in anyio.run(hook_states, settings)}
    found = {each.agent: each for each in anyio.run(installed_agents)}
    listed = [
        _known(name, found.get(name), states.get(name))
        for name in AGENTS_AND_REHEARSAL
        if name not in settings.agents
    ]
    for name, each in settings.agents.items():
        path = find_program(each.command[0]) if each.command else None
        configured = ListedAgent(
            agent=name,
            is_installed=path is not None,
            path=path,
            # A configured command always speaks ACP.
            driven_by="acp",
            command=each.command,
            how_to_install="its command is in the configuration, and not on PATH",
            is_configured=True,
            hooks=states.get(name),
        )
        listed.append(configured)
    output = call.output
    output.json({"default_agent": settings.agent, "agents": listed})
    head = ("AGENT", "HERE", "VERSION", "DRIVEN BY", "CAN", "COMMAND")
    write_table(output, head, [_row(agent) for agent in listed])
    for agent in listed:
        if agent.notice:
            output.remark(agent.notice, "yellow")
    for agent in listed:
        if agent.hooks is not None:
            output.row((f"hooks {agent.hooks.agent}: ", "bold"), agent.hooks.words)
            if agent.hooks.fault:
                output.remark(f"  {agent.hooks.fault}", "yellow")
                output.command("  ", agent.hooks.cure)
    for agent in listed:
        if not agent.is_installed:
            output.line(f"  to get {agent.agent}: {agent.how_to_install}", "dim")
    return 0


def _known(name: str, installed: InstalledAgent | None, hooks: HookState | None) -> ListedAgent:
    entry = AGENTS_AND_REHEARSAL[name]
    way = installed.way if installed else entry.ways[0]
    is_own = name == REHEARSAL
    version = __version__ if is_own else installed.version if installed else None
    return ListedAgent(
        agent=name,
        is_installed=is_own or installed is not None,
        version=version,
        path=installed.path if installed else None,
        driven_by=way.kind,
        command=way.command,
        how_to_install=entry.how_to_install,
        tested_with=way.version or None,
        can=_OWN_CAN if is_own else way.can,
        notice=version_warning(name, way, version or "") or None,
        hooks=hooks,
    )


def _row(agent: ListedAgent) -> Row:
    is_own = agent.agent == REHEARSAL
    return (
        agent.agent,
        "yes" if agent.is_installed else "no",
        agent.version or "",
        agent.driven_by.upper(),
        "?" if agent.can is None else " ".join(word.replace("_", "-") for word in agent.can),
        "built in, used only when named" if is_own else shlex.join(agent.command),
    )
