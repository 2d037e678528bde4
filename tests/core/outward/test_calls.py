"""The outward actions of a call, whatever the agent says it with."""

import pytest

from upthread.core.outward.calls import actions_of_call, command_of, commands_of

PUSH = actions_of_call("", {"command": "git push origin main"})


@pytest.mark.parametrize(
    ("title", "arguments"),
    [
        ("git push origin main", None),
        ("`git push origin main`", {}),
        ("Bash", {"command": "git push origin main", "description": "Push"}),
        ("", {"command": ["git", "push", "origin", "main"]}),
        ("", {"command": ["bash", "-lc", "git push origin main"]}),
        ("", {"cmd": "git push origin main"}),
        ("", {"shell_command": "git push origin main"}),
        ("", {"argv": ["git", "push", "origin", "main"]}),
        ("shell", {"commands": ["git", "push", "origin", "main"], "cwd": "/a"}),
    ],
)
def test_a_push_is_the_same_under_any_name(title, arguments):
    assert actions_of_call(title, arguments) == PUSH


def test_a_tool_whose_name_says_that_it_changes_something_is_outward():
    def one(title, arguments=None):
        return actions_of_call(title, arguments)

    assert one("mcp__github__create_issue", {"title": "a"})
    assert one("mcp__slack__postMessage x", {"text": "a"})
    assert one("mcp__a__create", {"t": 1, "description": "x"}) == one("mcp__a__create", {"t": 1})
    (first,), (second,) = one("mcp__a__create", {"t": 1}), one("mcp__a__create", {"t": 2})
    assert not first.may_be(second)
    assert first.may_be(one("mcp__a__create")[0])
    assert one("mcp__github__list_issues") == one("mcp__x__read") == one("Write a.txt") == ()


def test_a_pattern_makes_outward_what_it_matches_and_its_words_the_action():
    patterns = ("*ship it*", "notify*")
    assert actions_of_call("", {"command": "./ship it"}, ()) == ()
    (one,) = actions_of_call("", {"command": "./ship it now -q"}, patterns)
    (same,) = actions_of_call("", {"command": "./ship it  'now'"}, patterns)
    (other,) = actions_of_call("", {"command": "./ship it later"}, patterns)
    (unknown,) = actions_of_call("", {"command": "./ship it $x"}, patterns)
    assert one == same
    assert one != other
    assert unknown.in_words == "configured ./ship it ?"
    (titled,) = actions_of_call("notify", None, patterns)
    assert titled.words == ("notify",)
    (told,) = actions_of_call("notify", {"to": "a"}, patterns)
    assert told != actions_of_call("notify", {"to": "b"}, patterns)[0]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "git push"}, "git push"),
        ({"command": ["git", "push"]}, "git push"),
        ({"command": ["sh", "-c", "a b"]}, "sh -c 'a b'"),
        ({"command": 3}, ""),
        ({"command": ""}, ""),
        ({}, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_the_command_is_found_where_there_is_one(arguments, command):
    assert command_of(arguments) == command
    assert commands_of(arguments) == ((command,) if command else ())
