"""Codex, driven in both ways, through every case of the continuity suite.

What is seen must be what docs/agents/measured/ holds; `UPTHREAD_WRITE_MEASURED=1` measures anew.
"""

from __future__ import annotations

import pytest
from tests.live.codex import FULL_ACCESS, codex_environment, command, delegation, rollouts
from tests.live.measuring import CASES_OVER_ACP, MEASURED
from tests.support.continuity import CASES, MeasuredAgent, hold_to_measured

from upthread.agents.acp import AcpAdapter
from upthread.agents.codex.adapter import CodexAdapter

pytestmark = [
    pytest.mark.live,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("measured-codex"),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


def delete_session(place, session):
    (rollout,) = rollouts(place / "home", session)
    rollout.unlink()


def measured_agent(name, *, driven_by, adapter, more):
    def environment(place, model):
        return {**codex_environment(place / "home", model, tries_again=True), **more}

    return MeasuredAgent(
        name=name,
        driven_by=driven_by,
        adapter=adapter,
        environment=environment,
        command=command,
        delegation=delegation,
        delete_session=delete_session,
        unknown_session="00000000-0000-4000-8000-000000000000",
    )


@pytest.fixture
def natively(codex_binary):
    return measured_agent(
        "codex",
        driven_by="`codex app-server`",
        adapter=CodexAdapter(command=[str(codex_binary), "app-server"]),
        more={},
    )


@pytest.fixture
def over_acp(codex_binary, codex_acp):
    return measured_agent(
        "codex-acp",
        driven_by="`codex-acp`, with the same Codex below",
        adapter=AcpAdapter(agent="codex", command=["node", str(codex_acp)]),
        more={"CODEX_PATH": str(codex_binary), **FULL_ACCESS},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_codex_is_as_measured(case, natively, model, tmp_path):
    await hold_to_measured(case, natively, place=tmp_path, model=model, directory=MEASURED)


@pytest.mark.parametrize("case", CASES_OVER_ACP)
async def test_codex_over_acp_is_as_measured(case, over_acp, model, tmp_path):
    await hold_to_measured(case, over_acp, place=tmp_path, model=model, directory=MEASURED)
