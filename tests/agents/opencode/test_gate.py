"""How OpenCode is given the plug-in that asks: beside whatever else its variable held."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from upthread.agents.opencode.adapter import CONFIG, with_gate


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
