"""Files and terminals are not ours to give: not announced, and refused to an agent (ADR 97)."""

import json

import pytest
from tests.agents.acp.conftest import SESSION
from tests.agents.conftest import Recorded

from upthread.core.types import Outcome

pytestmark = pytest.mark.anyio
SECRET = "the-secret-of-the-test"
METHODS = (
    *("fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output"),
    *("terminal/wait_for_exit", "terminal/kill", "terminal/release"),
)


async def test_neither_is_announced(connection, recorded):
    await connection.prompt(SESSION, "[[announced]]", on_event=recorded)
    announced = json.loads(recorded.text)
    assert announced["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert announced["terminal"] is False


async def test_an_agent_that_asks_all_the_same_is_refused_and_nothing_is_done(connection, tmp_path):
    """Inside of the working directory too; what the agent says of the refusal is its own affair."""
    (tmp_path / "secret.txt").write_text(SECRET)
    for method in METHODS:
        path = str(tmp_path / ("secret.txt" if method == "fs/read_text_file" else "new.txt"))
        asked = {"path": path, "content": "x", "command": "touch", "args": [path], "terminalId": 1}
        recorded = Recorded()
        prompt = f"[[foreign {method} {json.dumps(asked)}]]"
        result = await connection.prompt(SESSION, prompt, on_event=recorded)
        assert result.outcome is Outcome.OK
        assert json.loads(recorded.text)["code"] == -32601, method
        assert SECRET not in recorded.text
        assert not (tmp_path / "new.txt").exists()
