"""A hook decides what `core.decision.handshake.decide` decides, on all its inputs, or loads it to ask."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.decision.test_handshake import INPUTS
from tests.support.thoroughness import EXAMPLES
from upthread.runtime.bindings.places import Place
from upthread.runtime.hooked.publication import beforehand, grounds
from upthread.surfaces.hook.call import SubAgentCall
from upthread.surfaces.hook.decision import take_decision

from upthread.core.decision.examined import ExaminedFile
from upthread.core.decision.freshness import Surroundings, freshness
from upthread.core.decision.handshake import because, decide
from upthread.core.decision.model import AgentLimit, HandshakeInputs, Limits
from upthread.core.decision.price import Price, Spending, Tokens, cache_state
from upthread.core.decision.rules import RULES
from upthread.core.types import ConversationId, Outcome
from upthread.core.workstreams import CALLERS_VARIABLE
from upthread.runtime.turns.examination import examine, look_again

AGENTS = ("opencode", "claude-code", "codex")
SESSION = "ses_1"
COMMITS = ("a" * 40, "b" * 40)
NAMES = tuple(f"file-{number}.txt" for number in range(7))
IDLE_S = (10, 1_000, 1_000_000)
SETTLED_AT_NS = 1_700_000_000 * 1_000_000_000
"""Old enough that a later change is told by it: what was decided beforehand is used then."""


def published(**changes) -> HandshakeInputs:
    """The inputs of a conversation as the record has them: nothing of a call, nothing moved."""
    usual = HandshakeInputs(
        conversation_id=ConversationId("con_1"),
        agent="opencode",
        continuity="auto",
        turns=3,
        current_agent="opencode",
    )
    return replace(usual, **changes)


class World:
    """A directory with files, what a session knew of it, and a call that comes now."""

    def __init__(self, root, inputs, **facts) -> None:
        self.root = root
        self.inputs = inputs
        self.facts = facts
        self.was = None
        if not facts.get("is_unrecorded"):
            self.was = Surroundings(
                working_directory=str(facts.get("was_in", root)),
                agent=inputs.current_agent or "",
                configuration="c1",
                repository=str(root),
                branch="main",
                commit=COMMITS[0],
                at_ms=time.time_ns() // 1_000_000 - facts.get("idle_s", 10) * 1_000,
            )
        for name in NAMES:
            (root / name).write_text("one")
            if facts.get("is_settled"):
                os.utime(root / name, ns=(SETTLED_AT_NS, SETTLED_AT_NS))
        self.known = [examine(str(root), name, how="read") for name in NAMES]
        for name in NAMES[: facts.get("changed", 0)]:
            (root / name).write_text("two words")

    @property
    def place(self) -> Place:
        place = Place(str(self.root / "home"), str(self.root))
        place.root = place.repository = str(self.root)
        place.is_repository = True
        place.branch = self.facts.get("branch", "main")
        return Here(place, self.facts.get("commit", COMMITS[0]))

    @property
    def role(self):
        first = published(conversation_id=ConversationId(""), turns=0, current_agent=None, agent="")
        return {
            "configuration": self.facts.get("configuration", "c1"),
            "critical": ["file-0.txt"] if self.facts.get("is_critical") else [],
            **beforehand(first),
        }

    @property
    def binding(self):
        inputs = self.inputs
        found = [
            {"path": each.path, "how": each.how, "state": each.state, "digest": each.digest}
            | {"size_bytes": each.size_bytes, "mtime_ns": each.mtime_ns}
            for each in self.known
        ]
        return {
            "turns": inputs.turns,
            "agent": inputs.current_agent or "",
            "session": SESSION if inputs.current_agent else "",
            "files": found if inputs.current_agent else [],
            **grounds(inputs, self.was),
        }

    @property
    def call(self) -> SubAgentCall:
        facts = self.facts
        lost = facts.get("lost")
        return SubAgentCall(
            facts.get("agent", "opencode"),
            {
                "prompt": "fresh: Go on." if facts.get("is_fresh_asked") else "Go on.",
                "unusable": {SESSION: str(lost)} if lost else {},
                "can_resume": not facts.get("takes_no_session"),
            },
        )

    def said_by_the_hook(self, monkeypatch):
        monkeypatch.setenv(CALLERS_VARIABLE, ",".join(self.facts.get("callers", ())))
        taken = take_decision(self.place, self.call, self.role, self.binding, is_left=False)
        return taken.decision, tuple(taken.reasons), taken.because

    def said_by_the_handshake(self):
        """What `why` and `tell` would be told, put together here anew."""
        facts, was = self.facts, self.was
        has_session = self.inputs.current_agent is not None
        here = Surroundings(
            working_directory=str(self.root),
            agent=facts.get("agent", "opencode"),
            configuration=facts.get("configuration", "c1"),
            repository=str(self.root),
            branch=facts.get("branch", "main"),
            commit=facts.get("commit", COMMITS[0]),
        )
        known: list[ExaminedFile] = self.known if has_session else []
        found = freshness(
            known=known,
            now=look_again(str(self.root), known),
            was=was if has_session else None,
            here=here,
            critical=["file-0.txt"] if facts.get("is_critical") else [],
            places_gone=frozenset(
                {was.working_directory} if was and not Path(was.working_directory).is_dir() else ()
            ),
        )
        cache = cache_state(
            self.inputs.current_agent or "",
            idle_s=facts.get("idle_s", 10) if was else None,
            is_same_prefix=not found.is_configuration_changed,
        )
        price = replace(self.inputs.price, cache=cache) if has_session else self.inputs.price
        lost = facts.get("lost") if has_session else None
        limit, agent = self.inputs.agent_limit, facts.get("agent", "opencode")
        is_limited = (
            limit and limit.lasts(time.time_ns() // 10**6) and agent == self.inputs.current_agent
        )
        decision = decide(
            replace(
                self.inputs,
                agent_limit=limit if is_limited else None,
                agent=facts.get("agent", "opencode"),
                is_fresh_asked=bool(facts.get("is_fresh_asked")),
                session_lost=lost,
                takes_no_session=bool(facts.get("takes_no_session")),
                callers=tuple(ConversationId(each) for each in facts.get("callers", ())),
                freshness=found,
                price=price,
            )
        )
        return decision.decision, decision.reasons, because(decision.reasons, found)


class Here(Place):
    """A place whose commit is given: none is made for each example."""

    def __init__(self, place: Place, commit: str) -> None:
        self.__dict__.update(place.__dict__)
        self._given = commit

    @property
    def commit(self) -> str:
        return self._given


FACTS = st.fixed_dictionaries(
    {},
    optional={
        "agent": st.sampled_from(AGENTS),
        "is_fresh_asked": st.booleans(),
        "takes_no_session": st.booleans(),
        "lost": st.sampled_from([Outcome.MISSING, Outcome.EXPIRED, Outcome.CORRUPTED]),
        "callers": st.lists(st.sampled_from(["con_own", "con_other", "con_x"]), max_size=4),
        "branch": st.sampled_from(["main", "other"]),
        "commit": st.sampled_from(COMMITS),
        "configuration": st.sampled_from(["c1", "c2"]),
        "was_in": st.sampled_from(["/nowhere/at/all"]),
        "is_unrecorded": st.booleans(),
        "is_critical": st.booleans(),
        "changed": st.integers(0, len(NAMES)),
        "is_settled": st.booleans(),
        "idle_s": st.sampled_from(IDLE_S),
    },
)


@pytest.mark.extended
@settings(
    max_examples=3 * EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(inputs=INPUTS, facts=FACTS)
def test_whatever_the_inputs_a_hook_decides_what_the_handshake_decides(
    inputs, facts, tmp_path, monkeypatch
):
    still = replace(
        inputs,
        agent=inputs.current_agent or "",  # what is published is decided for the session's own
        is_fresh_asked=False,
        session_lost=None,
        takes_no_session=False,
        opens_only_within=False,
        callers=(),
        freshness=HandshakeInputs(
            conversation_id=inputs.conversation_id, agent="", continuity="auto"
        ).freshness,
        surroundings=None,
    )
    world = World(tmp_path, still, **facts)
    assert world.said_by_the_hook(monkeypatch) == world.said_by_the_handshake()


@pytest.mark.parametrize("continuity", ["fresh", "auto"])
def test_a_tool_that_takes_no_session_is_among_the_reasons_of_a_fresh_start(
    continuity, tmp_path, monkeypatch
):
    inputs = published(continuity=continuity)
    world = World(tmp_path, inputs, is_settled=True, takes_no_session=True)
    decision, reasons, _ = world.said_by_the_hook(monkeypatch)
    assert (decision, reasons[-1]) == ("start_fresh_with_briefing", "no_resume_argument")
    assert world.said_by_the_hook(monkeypatch) == world.said_by_the_handshake()


def _tokens(count):
    return Tokens(count=count, is_estimate=False)


REACHED = {
    "own_or_ancestor": ({}, {"callers": ["con_1"]}),
    "depth": ({}, {"callers": ["con_2", "con_3", "con_4"]}),
    "busy": ({"holder": "pid 1"}, {}),
    "tree_busy": ({"tree_holder": "pid 1"}, {}),
    "tokens_max": ({"spending": Spending(tokens_max=5, spent=_tokens(9))}, {}),
    "none_yet": ({"turns": 0, "current_agent": None}, {}),
    "asked": ({}, {"is_fresh_asked": True}),
    "policy": ({"continuity": "fresh"}, {}),
    "input_changed": ({"condition_before": "d1", "condition_now": "d2"}, {}),
    "missing": ({}, {"lost": Outcome.MISSING}),
    "expired": ({}, {"lost": Outcome.EXPIRED}),
    "corrupted": ({}, {"lost": Outcome.CORRUPTED}),
    "context_full": ({}, {"lost": Outcome.CONTEXT_FULL}),
    "poisoned": ({}, {"lost": Outcome.POISONED}),
    "workspace_changed": ({}, {"lost": Outcome.WORKSPACE_CHANGED}),
    "other_agent": ({}, {"agent": "codex"}),
    "other_host": ({"other_host": "elsewhere"}, {}),
    "other_profile": ({"other_profile": "CODEX_HOME=/x"}, {}),
    "no_session": ({"current_agent": None}, {}),
    "directory_missing": ({}, {"was_in": "/nowhere/at/all"}),
    "critical_changed": ({}, {"changed": 1, "is_critical": True}),
    "many_changed": ({}, {"changed": 6}),
    "relays_used_up": ({"price": Price(resume=_tokens(95), window_tokens=100), "relays": 3}, {}),
    "nearly_full": ({"price": Price(resume=_tokens(95_000), window_tokens=100_000)}, {}),
    "too_big": (
        {"price": Price(resume=_tokens(9)), "limits": Limits(resume_tokens_max=5)},
        {},
    ),
    "briefing_cheaper": (
        {
            "price": Price(resume=_tokens(9_000), briefing=_tokens(10), fixed=_tokens(5)),
            "limits": Limits(brief_if_times_cheaper=10.0),
        },
        {"idle_s": 1_000_000},
    ),
    "cut_off_elsewhere": ({"was_interrupted": True}, {"takes_no_session": True}),
    "no_resume_argument": ({}, {"takes_no_session": True}),
    "files_changed": ({}, {"changed": 1}),
    "configuration_changed": ({}, {"configuration": "c2"}),
    "branch_changed": ({}, {"branch": "other"}),
    "directory_changed": ({}, {"was_in": "/"}),
    "agent_limited": ({"agent_limit": AgentLimit(reason=Outcome.RATE_LIMITED)}, {}),
    "unheard": ({"was_interrupted": True, "was_unheard": True}, {}),
    "interrupted": ({"was_interrupted": True}, {}),
    "commit_changed": ({}, {"commit": COMMITS[1]}),
    "unchanged": ({}, {}),
}
"""For each rule inputs of a conversation, and what a call brings or has moved, that lead to it."""

NOT_SEEN_BY_HOOKS = {
    "sub_agent_session": "a call comes from inside the agent, through its own tool",
    "agent_changed": "a hook never learns the version of the agent that it runs in",
    "git_unknown": "a hook takes what it cannot read in git for nothing known",
    "older_record": "a hook does not read the agent's own session",
    "not_compared": "a hook does not read the agent's own session",
    "older_session": "a hook does not read the agent's own session",
    "cannot_resume": "only an agent that upthread starts says what it can open",
    "session_empty": "a hook does not read the agent's own session",
}


def test_every_rule_of_the_handshake_is_looked_at_here():
    assert {rule.reason for rule in RULES} == {*REACHED, *NOT_SEEN_BY_HOOKS}


@pytest.mark.parametrize("is_settled", [False, True], ids=["looked at anew", "as published"])
@pytest.mark.parametrize("reason", REACHED)
def test_each_rule_decides_in_a_hook_too(reason, is_settled, tmp_path, monkeypatch):
    """Also where nothing was written since: then what was decided with the last commit is taken."""
    changes, facts = REACHED[reason]
    world = World(tmp_path, published(**changes), **{**facts, "is_settled": is_settled})
    decision, reasons, _ = world.said_by_the_hook(monkeypatch)
    assert reasons[0] == reason
    assert decision == next(rule.decision for rule in RULES if rule.reason == reason)
