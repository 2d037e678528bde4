"""Which remotes of a repository are one, by its configuration."""

from __future__ import annotations

from upthread.core.outward.remotes import same_as

TEXT = """
[core]
    url = https://example.org/a
[remote "a"]
    url = https://me@example.org/x/y.git
[remote "b"]
    url = git@example.org:x/y
[remote "c"]
    fetch = +refs/heads/*
    pushurl = "ssh://git@example.org/x/y/"
[remote "d"]
    url = https://example.org/z
[remote "e"]
    url = /srv/x.git
[remote "f"]
    url = file:///srv/x
"""


def test_remotes_at_one_address_are_one_however_it_is_spelled():
    assert same_as({"a"}, TEXT) == {"b", "c"}
    assert same_as({"e"}, TEXT) == {"f"}
    assert same_as({"d"}, TEXT) == same_as({"none"}, TEXT) == same_as(set(), "") == set()
