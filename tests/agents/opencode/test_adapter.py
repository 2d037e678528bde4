"""How a server is started, and one that does not start as it should.

How OpenCode is given the plug-in that asks: beside whatever else its variable held.
"""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from upthread.agents._connection import unusable_names
from upthread.agents.acp import AcpAdapter
from upthread.agents.opencode.adapter import CONFIG, OpenCodeAdapter, prompt_limits, with_gate
from upthread.core.roles.limits import NO_LIMITS
from upthread.core.roles.role import limits_of_front_matter
from upthread.core.types import Outcome
from upthread.errors import ConfigError, UpstreamError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("word", "outcome", "says", "hint"),
    [
        ("exits", Outcome.PROCESS_DIED, "exited with code 7 before it listened", "cannot bind"),
        ("mute", Outcome.TIMED_OUT, "did not answer where it listens", ""),
        ("listens_to_all", Outcome.TIMED_OUT, "did not answer where it listens", ""),
        ("another_version", Outcome.UNKNOWN, "says its version is '2.0.0'", ""),
        # As the public source of 2 has it; not tried on the real OpenCode 2.
        ("version_2", Outcome.UNKNOWN, "does not speak the API of version 1", ""),
    ],
)
async def test_a_bad_start_is_an_error(scripted_opencode, request_for, word, outcome, says, hint):
    start_timeout_s = 0.5 if outcome is Outcome.TIMED_OUT else 30
    with pytest.raises(UpstreamError, match=says) as failed:
        async with scripted_opencode(word).open(request_for(start_timeout_s=start_timeout_s)):
            pass
    assert failed.value.outcome == outcome
    assert failed.value.hint
    assert hint in failed.value.hint


async def test_it_says_what_it_can_do(connection):
    can = connection.capabilities
    assert (can.agent, can.version) == ("opencode", "1.18.33")
    assert (can.can_resume, can.can_load, can.can_list, can.can_fork) == (True, True, True, True)


AGENT = '{"agent": {"valueOf": {"prompt": "//"}, /* no */}, // no\n}'
UNUSABLE = {
    **{f"p/.opencode/{kind}/valueOf.md": "" for kind in ("agent", "agents", "mode", "modes")},
    "p/.opencode/agent/deep/a.md": "---\ndescription: a\nname: 'valueOf'\n---\n",
    **dict.fromkeys(("p/sub/.opencode/agent/valueOf.md", "h/.opencode/agent/valueOf.md"), "Do it."),
    **dict.fromkeys(("x/opencode/agent/valueOf.md", "d/modes/valueOf.md"), "Do it."),
    **dict.fromkeys(("p/opencode.json", "p/sub/opencode.jsonc"), AGENT),
    "p/.opencode/opencode.json": AGENT,
    **dict.fromkeys(("x/opencode/config.json", "x/opencode/opencode.json"), AGENT),
    **dict.fromkeys(("h/.opencode/opencode.jsonc", "d/opencode.json", "named.json"), AGENT),
    "p/sub/opencode.json": '{"mode": {"valueOf": {}}}',
    "p/opencode.jsonc": '\ufeff{"provider": {"a": {"models": {"valueOf": {}}}}}',
    "d/opencode.jsonc": '{"provider": {"valueOf": {}}}',
}
USABLE = {
    "p/.opencode/agent/deep/valueOf.md": "",
    "p/.opencode/modes/deep/valueOf.md": "",
    "p/.opencode/agent/valueOf.md": "---\nname: fine\n---\n",
    "p/.opencode/agent/__proto__.md": "",
    "p/.opencode/command/valueOf.md": "",
    ".opencode/agent/valueOf.md": "",
    "h/.config/opencode/agent/valueOf.md": "",
    "p/opencode.json": '{"agent": {"valueOf": {"disable": true}}, "mcp": {"valueOf": {}}}',
    "p/opencode.jsonc": '{"agent": {"valueOf": ',
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "p" / ".git").mkdir(parents=True)
    (tmp_path / "p" / "sub").mkdir()
    given = {"HOME": "h", "XDG_CONFIG_HOME": "x", "OPENCODE_CONFIG_DIR": "d"}
    given["OPENCODE_CONFIG"] = "named.json"
    return {name: str(tmp_path / place) for name, place in given.items()}


def put(directory: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)


def test_each_name_that_opencode_takes_for_javascripts_own_is_listed(tmp_path, environment):
    put(tmp_path, UNUSABLE)
    content = {"OPENCODE_CONFIG_CONTENT": '{"agent": {"toString": {}}}'}
    found = list(unusable_names(str(tmp_path / "p" / "sub"), {**environment, **content}))
    files = {f"{tmp_path}/{name}" for name in UNUSABLE}
    assert {where.rpartition(" ")[2] for where in found} == files | {"OPENCODE_CONFIG_CONTENT"}
    assert len(found) == len(UNUSABLE) + 1
    assert f"the key provider.a.models.valueOf in {tmp_path}/p/opencode.jsonc" in found


def test_names_that_opencode_can_have_are_left_alone(tmp_path, environment):
    put(tmp_path, USABLE)
    assert list(unusable_names(str(tmp_path / "p" / "sub"), environment)) == []
    put(tmp_path, {"p/opencode.json": AGENT})
    environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    assert list(unusable_names(str(tmp_path / "p"), environment)) == []


@pytest.mark.parametrize("kind", [OpenCodeAdapter, AcpAdapter])
async def test_a_name_that_opencode_cannot_have_is_told_before_it_starts(
    tmp_path, environment, request_for, kind
):
    put(tmp_path, {"x/opencode/opencode.json": AGENT})
    adapter = kind(agent="opencode", command=("no-such-opencode",))
    with pytest.raises(ConfigError, match=r"key agent.valueOf in .*JavaScript's own"):
        async with adapter.open(request_for(environment=environment)):
            pass


def plugins(given: str | None) -> list[str]:
    added = with_gate({} if given is None else {CONFIG: given})
    assert added is not None
    return json.loads(added[CONFIG])["plugin"]


@pytest.mark.parametrize("given", [None, "", "{}"])
def test_where_nothing_was_given_it_is_the_only_one(given):
    (gate,) = plugins(given)
    assert urlsplit(gate).scheme == "file"
    assert Path(urlsplit(gate).path).is_file()


def test_what_was_given_stays_and_ours_comes_last():
    given = {"model": "a/b", "plugin": ["one", "two"], "permission": {"edit": "deny"}}
    added = with_gate({CONFIG: json.dumps(given), "PATH": "/bin"})
    assert added is not None
    assert list(added) == [CONFIG]
    configuration = json.loads(added[CONFIG])
    assert configuration.pop("plugin")[:2] == given.pop("plugin")
    assert configuration == given


@pytest.mark.parametrize("given", ["{", "// a comment\n{}", "[]", "7", '{"plugin": "one"}'])
def test_what_cannot_be_read_is_left_as_it_is(given):
    assert with_gate({CONFIG: given}) is None


# --- A role's limits as OpenCode takes them with a prompt: tools that are off, none that is on ----


def body(**fields: object) -> dict[str, object]:
    return dict(prompt_limits(limits_of_front_matter(fields, "a"), agent="opencode"))


def test_without_limits_a_prompt_is_as_it_was():
    assert prompt_limits(NO_LIMITS, agent="opencode") == {}


def test_what_is_denied_wholly_is_off():
    denied = {"bash": "deny", "edit": "deny", "github_*": "deny", "external_directory": "deny"}
    assert body(permission=denied) == {
        "tools": dict.fromkeys(("bash", "external_directory", "edit", "github_*"), False)
    }
    assert body(mode="subagent") == {
        "tools": {"task": False, "todoread": False, "todowrite": False}
    }


def test_what_is_denied_for_some_arguments_or_asked_about_is_left_to_the_gate():
    assert body(permission={"bash": {"*": "deny", "git *": "allow"}, "edit": "ask"}) == {}
    assert body(disallowedTools="Write") == {}


def test_nothing_is_ever_switched_on():
    off = body(tools="Read, Grep")["tools"]
    assert isinstance(off, dict)
    assert set(off.values()) == {False}
    assert off.keys().isdisjoint({"read", "grep"})
    assert {"bash", "edit", "task", "question", "webfetch"} <= off.keys()
    assert body(permission="allow") == {}


def test_its_model_is_named_and_no_other_agents():
    assert body(model="a/b/c") == {"model": {"providerID": "a", "modelID": "b/c"}}
    assert body(model="haiku") == {}
