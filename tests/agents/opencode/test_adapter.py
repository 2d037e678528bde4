"""How a server is started, and one that does not start as it should.

How OpenCode is given the plug-in that asks: beside whatever else its variable held.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from upthread.agents.opencode.adapter import CONFIG, with_gate
from upthread.core.types import Outcome
from upthread.errors import UpstreamError

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
