"""Claude Code's tools in ACP's words."""

import pytest

from upthread.agents.claude_code.translation import kind_of, locations_of, plan_of, title_of


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        *(("Read", "read"), ("Write", "edit"), ("Bash", "execute"), ("Grep", "search")),
        *(("WebFetch", "fetch"), ("Task", "think"), ("mcp__x__y", "other"), ("", "other")),
    ],
)
def test_a_tool_has_the_kind_that_permissions_are_set_for(tool, kind):
    assert kind_of(tool) == kind


def test_a_command_is_its_own_title_and_a_file_stands_with_the_tool():
    assert title_of("Bash", {"command": "git  push\nnow", "description": "d"}) == "git push now"
    assert title_of("Write", {"file_path": "/a/b", "content": "x"}) == "Write /a/b"
    assert title_of("Task", {"description": "sub"}) == "Task sub"
    assert title_of("Odd", {"n": 1}) == "Odd"
    assert title_of("Odd", None) == "Odd"
    assert len(title_of("Bash", {"command": "x" * 1000})) == 200


def test_the_paths_of_a_call_are_told_as_given():
    assert locations_of({"file_path": "a.txt"}) == ("a.txt",)
    assert locations_of({"pattern": "*", "path": "src"}) == ("src",)
    assert locations_of({"file_path": 3}) == ()


def test_only_a_to_do_list_is_a_plan():
    todos = {"todos": [{"content": "a", "status": "completed"}, {"content": "b"}, 3]}
    assert plan_of("TodoWrite", todos) == (("a", "completed"), ("b", "pending"))
    assert plan_of("Bash", todos) is None
