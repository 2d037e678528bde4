"""What the rehearsal agent answers to a prompt without directives."""

import pytest
from tests.agents.rehearsal.conftest import rehearse

from upthread.core.roles.reports import MalformedReportError, read_report


def test_free_talk_lists_earlier_prompts_oldest_first_and_short(agent):
    session_id = agent.new()
    for prompt in ("a" * 50, "two\nlines", "three"):
        agent.prompt(session_id, prompt)
    assert agent.reply == (f'I remember 2 earlier prompts: "{"a" * 40}"; "two lines" (rehearsal)')


def test_a_role_nobody_scripted_talks_freely(agent):
    agent.prompt(agent.new(), '<role name="reviewer">\nReview.\n</role>\n\nhello')
    assert "I remember 0 earlier prompts" in agent.reply


def test_a_directive_takes_the_place_of_the_role(agent):
    agent.prompt(agent.new(), f'<role name="planner">\nPlan.\n</role>\n\n{rehearse("say no")}')
    assert agent.reply.endswith("\n\nno")
    assert "```upthread" not in agent.reply


@pytest.mark.parametrize("word", ["no_report", "bad_report"])
def test_a_report_can_be_left_out_or_broken_once_and_given_when_asked_again(agent, word):
    session_id = agent.new()
    role = '<role name="clarifier">\nAsk.\n</role>'
    agent.prompt(session_id, f"{role}\n\n{rehearse(word)}\n# Specification\n- R1 `a.py`: x")
    with pytest.raises(MalformedReportError):
        read_report(agent.reply)
    assert "I read nothing new." in agent.reply
    agent.prompt(session_id, "# Task\nYour report could not be used. Give it again.")
    assert read_report(agent.reply).status == "done"
