"""OpenCode, driven in both ways, through every case of the continuity suite.

What is seen must be what docs/agents/measured/ holds; `UPTHREAD_WRITE_MEASURED=1` measures anew.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.live.opencode import isolated_environment, opencode_environment
from tests.support.continuity import CASES, MeasuredAgent, hold_to_measured

from upthread.agents.acp import AcpAdapter
from upthread.agents.opencode.adapter import OpenCodeAdapter

pytestmark = [
    pytest.mark.live,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("measured-opencode"),
]

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "agents" / "measured"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def command(line):
    return f"[[CALL bash {json.dumps({'command': line, 'description': 'run it'})}]]"


def delegation(prompt):
    arguments = {"description": "sub", "prompt": prompt, "subagent_type": "general"}
    return f"[[CALL task {json.dumps(arguments)}]]"


def measured_agent(name, *, driven_by, adapter, binary):
    def environment(place, model):
        return opencode_environment(place / "home", model)

    def delete_session(place, session):
        subprocess.run(
            [binary, "session", "delete", session],
            cwd=place / "work",
            env=isolated_environment(place / "home"),
            check=True,
        )

    return MeasuredAgent(
        name=name,
        driven_by=driven_by,
        adapter=adapter,
        environment=environment,
        command=command,
        delegation=delegation,
        delete_session=delete_session,
        unknown_session="ses_0000000000000000000000abcd",
    )


@pytest.fixture(params=[("opencode", "serve"), ("opencode-acp", "acp")], ids=lambda way: way[0])
def agent(request, opencode_binary):
    name, word = request.param
    make = OpenCodeAdapter if word == "serve" else AcpAdapter
    return measured_agent(
        name,
        driven_by=f"`opencode {word}`",
        adapter=make(agent="opencode", command=[str(opencode_binary), word]),
        binary=opencode_binary,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_opencode_is_as_measured(case, agent, model, tmp_path):
    await hold_to_measured(case, agent, place=tmp_path, model=model, directory=MEASURED)
