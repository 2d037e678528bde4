"""The real agents, each driven in two ways, through the cases of the continuity suite.

What is seen must be what docs/agents/measured/ holds. `UPTHREAD_WRITE_MEASURED=1` measures again.
`make test-all` runs a case with an agent where the adapter, or the version of the agent, is most
likely to change what is seen; `make soak` runs all.
"""

from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.support.continuity import CASES, MeasuredAgent, hold_to_measured
from tests.support.sets import EXTENDED, SOAK

from upthread.agents.acp import AcpAdapter
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.agents.codex.adapter import CodexAdapter
from upthread.agents.opencode.adapter import OpenCodeAdapter

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(300)]

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "agents" / "measured"
EVERY_CASE = {case.name for case in CASES}
FIRST = {"claude-code-acp": {"deleted"}, "codex-acp": {"sub_agent"}}
LATER = {
    "claude-code": {"killed_in_tool_call", "killed_in_sub_agent", "cancelled", "rate_limit"},
    "codex": {"killed_in_tool_call", "sub_agent", "cancelled", "unknown_id", "second_writer"},
}
"""The cases of each way that `make test-all` adds to those of `make test`."""


def claude(name, request):
    """Claude Code natively, and below `claude-agent-acp`."""
    binary = str(request.getfixturevalue("claude_binary"))
    if name == "claude-code":
        driven_by, more = "`claude -p` with JSON lines both ways", {}
        adapter = ClaudeCodeAdapter(command=[binary])
    else:
        driven_by = "`claude-agent-acp`, with the same Claude Code below"
        more = {"CLAUDE_CODE_EXECUTABLE": binary}
        adapter = AcpAdapter(agent="claude-code", command=request.getfixturevalue("claude_acp"))

    def environment(place, model):
        if more:
            claude_code.allow(place / "home")
        return {**claude_code.claude_environment(place / "home", model), **more}

    return MeasuredAgent(
        name=name,
        driven_by=driven_by,
        adapter=adapter,
        environment=environment,
        command=claude_code.command,
        delegation=claude_code.delegation,
        delete_session=lambda place, session: claude_code.delete_session(place / "home", session),
        unknown_session="00000000-0000-4000-8000-000000000000",
    )


def codex_(name, request):
    """Codex natively, and below `codex-acp`."""
    binary = str(request.getfixturevalue("codex_binary"))
    if name == "codex":
        driven_by, more = "`codex app-server`", {}
        adapter = CodexAdapter(command=[binary, "app-server"])
    else:
        driven_by = "`codex-acp`, with the same Codex below"
        more = {"CODEX_PATH": binary, **codex.FULL_ACCESS}
        adapter = AcpAdapter(agent="codex", command=request.getfixturevalue("codex_acp"))
    return MeasuredAgent(
        name=name,
        driven_by=driven_by,
        adapter=adapter,
        environment=lambda place, model: {
            **codex.codex_environment(place / "home", model, tries_again=True),
            **more,
        },
        command=codex.command,
        delegation=codex.delegation,
        delete_session=lambda place, session: codex.delete_session(place / "home", session),
        unknown_session="00000000-0000-4000-8000-000000000000",
    )


def opencode_(name, request):
    """OpenCode natively, and as any agent that speaks ACP."""
    binary = str(request.getfixturevalue("opencode_binary"))
    make, word = (OpenCodeAdapter, "serve") if name == "opencode" else (AcpAdapter, "acp")

    return MeasuredAgent(
        name=name,
        driven_by=f"`opencode {word}`",
        adapter=make(agent="opencode", command=[binary, word]),
        environment=lambda place, model: opencode.opencode_environment(place / "home", model),
        command=opencode.command,
        delegation=opencode.delegation,
        delete_session=lambda place, session: opencode.delete_session(place / "home", session),
        unknown_session="ses_0000000000000000000000abcd",
    )


WAYS = {
    "claude-code": claude,
    "claude-code-acp": claude,
    "codex": codex_,
    "codex-acp": codex_,
    "opencode": opencode_,
    "opencode-acp": opencode_,
}


def cases():
    for way in WAYS:
        for case in CASES:
            is_first, is_later = case.name in FIRST.get(way, ()), case.name in LATER.get(way, ())
            marks = () if is_first else EXTENDED if is_later else SOAK
            yield pytest.param(way, case, marks=marks, id=f"{way}-{case.name}")


@pytest.mark.parametrize(("way", "case"), list(cases()))
async def test_a_real_agent_is_as_measured(way, case, request, model, tmp_path):
    agent = WAYS[way](way, request)
    await hold_to_measured(case, agent, place=tmp_path, model=model, directory=MEASURED)


def test_each_case_that_is_named_here_is_a_case_of_the_suite():
    named = {name for table in (FIRST, LATER) for names in table.values() for name in names}
    assert named <= EVERY_CASE
