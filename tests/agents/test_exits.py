"""Only a command that ran and failed by itself is told from one that nobody allowed."""

import pytest

from upthread.agents._outcomes import did_run, exit_code_in


@pytest.mark.parametrize(
    ("exit_code", "ran"),
    [(1, True), (127, True), (0, False), (-1, False), (137, False), (None, False), (True, False)],
)
def test_what_failed_by_itself_did_run(exit_code, ran):
    assert did_run(exit_code) is ran


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("Exit code 1\n2 failed", 1),
        ("Exit code 137", 137),
        ("Claude requested permissions to use Bash, but you haven't granted it yet.", None),
        ("it said: Exit code 1", None),
        ("Exit code 12345", None),
    ],
)
def test_a_failed_commands_text_begins_with_its_exit_code(text, exit_code):
    assert exit_code_in(text) == exit_code
