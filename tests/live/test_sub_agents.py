"""The sub-agents of the real agents: what we keep of each is what the agent's own store holds."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.live.agents import ADDRESS, AGENTS, RealAgent, shell_of
from tests.live.kept import Said, assert_valid, messages_of, ours, words
from tests.live.shell import Shell, agents_left, kill_tree, wait_until
from tests.support.sets import spread

from upthread.agent_stores import base
from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.homes import home_of
from upthread.agents.claude_code.adapter import OPENING_WORDS
from upthread.agents.registry import reader_of
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

OVER_ACP = "opencode over ACP"
NAMES = ("claude-code", "opencode", OVER_ACP)


@pytest.fixture(autouse=True)
def _texts_are_whole(monkeypatch):
    """A diagnosis keeps the beginning of each text; what is compared here is all of it."""
    monkeypatch.setattr(base, "OUTLINE_CHARACTERS", sys.maxsize)


@dataclass(frozen=True)
class Desk:
    """upthread with one agent, and what the agent's own store holds beside our record."""

    name: str
    agent: RealAgent
    shell: Shell

    def theirs(self) -> dict[str, VendorHistory]:
        """Return the agent's own histories by the session ids that we know."""
        reader = reader_of(self.agent.name)
        home = home_of(self.agent.name, {"HOME": str(self.shell.home)})
        read = map(reader.read_histories, reader.find_histories(home))
        return {_known_as(each): each for histories in read for each in histories}

    def children(self) -> list[Any]:
        """Return the conversations of sub-agents in our record."""
        return [each for each in ours(self.shell).values() if each["parent_conversation_id"]]

    def assert_same(self) -> None:
        """Every session of theirs has its conversation here, with the same words and no others."""
        stored, kept = self.theirs(), ours(self.shell)
        assert kept.keys() == stored.keys()
        for session, history in stored.items():
            said = [each for each in words(history.history) if OPENING_WORDS not in each[1]]
            assert words(messages_of(kept[session])) == said, session
            parent = kept[session]["parent_conversation_id"]
            above = kept[history.parent_session_id]["conversation_id"] if parent else None
            assert parent == above
            assert_valid(messages_of(kept[session]))


def _known_as(history: VendorHistory) -> str:
    if history.parent_session_id is None or history.agent == "opencode":
        return history.session_id
    return f"{history.parent_session_id}:subagent:{history.session_id.removeprefix('agent-')}"


@pytest.fixture
def desk(name: str, request, model: RehearsalModel, tmp_path: Path) -> Iterator[Desk]:
    agent = AGENTS["claude-code" if name == "claude-code" else "opencode"]
    binary = request.getfixturevalue(agent.fixture)
    shell = shell_of(agent, binary, model, tmp_path)
    if name == OVER_ACP:
        command = json.dumps([str(binary), "acp"])
        shell.configure(f'agent = "oc"\n[agents.oc]\ncommand = {command}\n')
    yield Desk(name, agent, shell)
    assert agents_left(tmp_path) == []


def said_by(conversation: Any, speaker: str) -> list[str]:
    said: Said = words(messages_of(conversation))
    return [text for who, text in said if who == speaker]


@pytest.mark.parametrize("name", spread(NAMES, first=0, extended=["claude-code"]))
def test_sub_agents_are_kept_whole_and_apart_in_conversations_of_their_own(desk):
    look = desk.agent.command("pwd")
    first, second = f"One. {look} [[SAY one says]]", "Two. [[SAY two says]]"
    steps = [desk.agent.delegation(each) for each in (first, second)]
    desk.shell.tell(f"{' '.join(steps)} {look} [[SAY both are done]]")
    desk.assert_same()
    parent, one, two = ours(desk.shell).values()
    assert parent["turns"][0]["quarantined"] == []
    assert (one["role"], two["role"]) == (desk.agent.sub_agent, desk.agent.sub_agent)
    prompts = {said_by(each, "user")[0]: said_by(each, "assistant") for each in (one, two)}
    assert prompts == {first: ["one says"], second: ["two says"]}


@pytest.mark.parametrize("name", spread(NAMES, first=0, extended=["claude-code"]))
def test_a_sub_agent_that_fails_is_kept_with_its_earlier_steps(desk):
    failing = f"Try. {desk.agent.command('pwd')} [[FAIL 400 broken]]"
    desk.shell.tell(f"{desk.agent.delegation(failing)} [[SAY it failed]]")
    (kept,) = desk.children()
    assert said_by(kept, "user") == [failing]
    assert said_by(kept, "call")
    for each in ours(desk.shell).values():
        assert_valid(messages_of(each))


@pytest.mark.parametrize("name", spread(NAMES, first=0, extended=["claude-code"]))
def test_sigkill_inside_a_sub_agent_leaves_every_conversation_valid_and_apart(desk, model):
    """Over ACP a result names the sub-agent, so nothing of an interrupted sub-agent is known."""
    asked = f"Look long. {desk.agent.command('pwd')} [[HANG]]"
    running = desk.shell.start("tell", ADDRESS, desk.agent.delegation(asked))
    is_stored = partial(_is_waiting, desk, model)
    wait_until(is_stored, "sub-agent that waits for its model")
    kill_tree(running)
    assert desk.shell.tell("[[SAY I am back]]")["outcome"] == "ok"
    kept = ours(desk.shell)
    (stored,) = (each for each in desk.theirs().values() if each.parent_session_id)
    assert [text for who, text in words(stored.history) if who == "user"] == [asked]
    for each in kept.values():
        assert_valid(messages_of(each))
    assert [said_by(each, "user") for each in desk.children()] == (
        [] if desk.name == OVER_ACP else [[asked]]
    )
    (parent,) = (each for each in kept.values() if not each["parent_conversation_id"])
    assert said_by(parent, "assistant") == ["I am back"]


def _is_waiting(desk: Desk, model: RehearsalModel) -> bool:
    """Whether the sub-agent's command has run, its model hangs, and both are on record."""
    if not model.requests or model.model_requests[-1].status is not None:
        return False
    if desk.name == OVER_ACP:
        return "Look long." in json.dumps(model.model_requests[-1].body)
    return any(said_by(each, "result") for each in desk.children())
