"""Files and terminals are not ours to give: not announced, and refused to whoever asks (ADR 50)."""

from __future__ import annotations

import json

import pytest
from tests.agents.conftest import Recorded

from upthread.core.types import Outcome

pytestmark = pytest.mark.anyio
SESSION = "ses_scripted"
SECRET = "the-secret-of-the-test"


async def test_neither_is_announced(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, "[[announced]]", on_event=recorded)
    announced = json.loads(recorded.text)
    assert announced["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert announced["terminal"] is False


@pytest.mark.parametrize(
    "method",
    [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
    ],
)
async def test_whoever_asks_all_the_same_is_refused_and_nothing_is_done(
    scripted, request_for, tmp_path, method
):
    """Inside of the working directory too; what it says of the refusal is its own affair."""
    (tmp_path / "secret.txt").write_text(SECRET)
    path = str(tmp_path / ("secret.txt" if method == "fs/read_text_file" else "new.txt"))
    asked = {"path": path, "content": "x", "command": "touch", "args": [path], "terminalId": "t"}
    recorded = Recorded()
    async with scripted().open(request_for()) as connection:
        prompt = f"[[foreign {method} {json.dumps(asked)}]]"
        result = await connection.prompt(SESSION, prompt, on_event=recorded)
    assert result.outcome is Outcome.OK
    assert json.loads(recorded.text)["code"] == -32601
    assert SECRET not in recorded.text
    assert not (tmp_path / "new.txt").exists()
