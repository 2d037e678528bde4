"""`repair` on the stores of the real agents: the agent itself opens the copy, or says why not."""

from pathlib import Path

import anyio
import apsw
import pytest
from tests.live.agents import AGENTS

from upthread.agent_stores.reader import RepairedCopy
from upthread.agents.stored import stored_histories
from upthread.surfaces.cli.verbs.repair import ask_agent

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def damage(agent: str, path: Path) -> None:
    if agent == "opencode":
        with apsw.Connection(str(path)) as database:
            database.execute(
                "UPDATE part SET data = json_set(data, '$.state.status', 'running')"
                " WHERE json_extract(data, '$.type') = 'tool'"
            )
    else:
        path.write_text(path.read_text() + '{"torn": ')


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_opens_the_copy_of_its_damaged_session_and_refuses_an_empty_one(
    name, shell, tmp_path, monkeypatch
):
    session = shell.tell(f"Do it. {AGENTS[name].command('pwd')}")["upstream_session_id"]
    (found,) = [
        h for h in stored_histories(shell.environment, agent=name) if h.session_id == session
    ]
    damage(name, found.path)
    (copy,) = shell.one("repair", name, session)["copies"]
    assert copy["edits"]
    assert (copy["left"], copy["opens"], copy["refusals"]) == ([], [session], {})

    for variable, value in shell.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(shell.project)
    empty = tmp_path / found.path.name
    empty.touch()
    lost = RepairedCopy(source=found.path, before=empty, after=empty, edits=(), left=())
    asked = anyio.run(ask_agent, name, lost, [found], shell.environment)
    assert asked.opens == ()
    assert list(asked.refusals) == [session]
