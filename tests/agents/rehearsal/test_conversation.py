from __future__ import annotations

from typing import Any

import pytest

Agent = Any


def test_free_talk_lists_earlier_prompts_oldest_first_and_short(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "a" * 50)
    agent.prompt(session_id, "two\nlines")
    agent.prompt(session_id, "three")
    assert agent.reply == (f'I remember 2 earlier prompts: "{"a" * 40}"; "two lines" (rehearsal)')


def test_a_role_nobody_scripted_talks_freely(agent: Agent) -> None:
    agent.prompt(agent.new(), '<role name="reviewer">\nReview.\n</role>\n\nhello')
    assert "I remember 0 earlier prompts" in agent.reply


def test_a_directive_takes_the_place_of_the_role(agent: Agent) -> None:
    agent.prompt(agent.new(), '<role name="planner">\nPlan.\n</role>\n\n[[rehearse: say no]]')
    assert agent.reply.endswith("\n\nno")
    assert "```upthread" not in agent.reply


def test_a_role_without_a_specification_says_what_it_lacks(agent: Agent) -> None:
    from upthread.core.roles.reports import read_report

    agent.prompt(agent.new(), '<role name="planner">\nPlan.\n</role>\n\nplan it')
    report = read_report(agent.reply)
    assert report.status == "blocked"
    assert "# Specification" in report.summary


@pytest.mark.parametrize("word", ["no_report", "bad_report"])
def test_a_report_can_be_left_out_or_broken_once_and_given_when_asked_again(
    agent: Agent, word: str
) -> None:
    from upthread.core.roles.reports import MalformedReportError, read_report

    session_id = agent.new()
    role = '<role name="clarifier">\nAsk.\n</role>'
    agent.prompt(session_id, f"{role}\n\n[[rehearse: {word}]]\n# Specification\n- R1 `a.py`: x")
    with pytest.raises(MalformedReportError):
        read_report(agent.reply)
    assert "I read nothing new." in agent.reply
    agent.prompt(session_id, "# Task\nYour report could not be used. Give it again.")
    assert read_report(agent.reply).status == "done"
