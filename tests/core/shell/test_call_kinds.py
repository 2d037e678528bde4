"""The kinds of calls, and which rule on them is the stricter."""

from __future__ import annotations

from typing import get_args

from upthread.core.shell.call_kinds import CHANGING, EXECUTE, KINDS, OTHER, STRICTNESS, Rule


def test_to_deny_is_stricter_than_to_ask_and_that_than_to_allow():
    assert sorted(STRICTNESS, key=lambda rule: STRICTNESS[rule]) == ["allow", "ask", "deny"]
    assert set(STRICTNESS) == set(get_args(Rule))


def test_what_changes_files_and_what_runs_is_said_by_its_kind_and_other_says_nothing():
    assert CHANGING | {EXECUTE} <= KINDS
    assert OTHER not in KINDS
