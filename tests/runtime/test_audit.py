"""The audit holds every conversation, child and refusal; a record that was changed is named."""

from __future__ import annotations

import os

import anyio
import apsw
import pytest

from upthread import TellOptions, open_project
from upthread.errors import NotFoundError, RefusedError

REHEARSAL = TellOptions(agent="rehearsal")


def test_audit_holds_children_closed_generations_and_refusals(tmp_path):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UPTHREAD_HOME": str(tmp_path / "home"),
        "UPTHREAD_REHEARSAL_HOME": str(tmp_path / "sessions"),
    }

    async def play():
        async with open_project(tmp_path, environment=environment) as up:
            with pytest.raises(NotFoundError):
                await up.audit("w")
            prompt = "[[rehearse: child explorer look around]] [[rehearse: unstamped whose]]"
            told = await up.tell("w/planner", prompt, REHEARSAL)
        inside = {**environment, "UPTHREAD_CALLERS": told.conversation.conversation_id}
        async with open_project(tmp_path, environment=inside) as up:
            with pytest.raises(RefusedError):
                await up.tell("w/planner", "from inside", REHEARSAL)
        async with open_project(tmp_path, environment=environment) as up:
            await up.reset("w/planner")
            before = await up.audit("w")
            database = apsw.Connection(up.settings.database)
            database.execute("UPDATE part SET content = x'41' WHERE kind = 'text'")
            database.close()
            return before, await up.audit("w")

    audit, changed = anyio.run(play)
    first, child, second = audit.conversations

    assert [turn.number for turn in first.turns] == [1]
    assert first.messages == sum(len(turn.messages) for turn in first.turns)
    assert [each.reason for each in first.turns[0].quarantined] == ["no session id"]
    assert [refusal.reasons[0] for refusal in first.refusals] == ["own_or_ancestor"]
    assert child.conversation.parent_conversation_id == first.conversation.conversation_id
    assert child.turns == ()
    assert "look around" in child.child_messages[0].text
    assert (second.conversation.generation, second.turns, second.chain) == (2, (), ())
    assert audit.faults == ()
    assert [(each.conversation_id, seq) for each, seq in changed.faults] == [
        (first.conversation.conversation_id, 1),
        (child.conversation.conversation_id, 1),
    ]
