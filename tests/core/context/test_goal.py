"""The goal: what is asked, whatever conversation was pasted before, after or instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.context.goal import ASKED_CHARACTERS_MAX, GOAL_CHARACTERS_MAX, goal_of

ASK = "Mend what they found. Never touch main."


def pasted(*forms: str, lines: int = 50) -> str:
    return "\n".join(forms[at % len(forms)].format(at) for at in range(lines))


FORMS = {
    "labels": ("User: line {}", "Assistant: line {}"),
    "marked labels": ("**User:** line {}", "some more {}", "**Assistant:** line {}"),
    "headings": ("### Human: line {}", "### Claude: line {}"),
    "sites": ("You said: line {}", "ChatGPT said: line {}"),
    "names and times": ("[10:30:01] Ada: line {}", "[10:31] Bob Miller: line {}"),
    "dates": ("2026-11-23 10:30 Ada: line {}", "2026-11-23 10:31 Bob: line {}"),
    "names": ("Ada: line {}", "Bob: line {}", "and line {}"),
    "quoted": ("> Ada: line {}", "> Bob: line {}"),
    "an agent's interface": ("> line {}", "⏺ line {}", "  ⎿ line {}"),
    "another agent's": ("\u203a line {}", "• line {}"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_of_a_pasted_conversation_what_stands_around_it_is_the_goal(form):
    conversation = pasted(*form)
    left_out = "[… 50 lines of a conversation that was pasted here]"
    assert goal_of(f"{conversation}\n\n{ASK}") == f"{left_out}\n\n{ASK}"
    assert goal_of(f"{ASK}\n\n{conversation}\n") == f"{ASK}\n\n{left_out}"
    assert goal_of(f"See:\n\n{conversation}\n\n{ASK}") == f"See:\n\n{left_out}\n\n{ASK}"


def test_a_fence_goes_with_what_it_holds():
    prompt = f"See:\n```text\n{pasted('User: {}', 'Assistant: {}')}\n```\n{ASK}"
    left_out = "[… 52 lines of a conversation that was pasted here]"
    assert goal_of(prompt) == f"See:\n\n{left_out}\n\n{ASK}"


def test_with_nothing_around_it_the_goal_is_what_was_asked_in_it():
    talk = ["User: Write the export.", *["Assistant: Which?", "User: CSV."] * 6, "Assistant: Yes."]
    goal = goal_of("\n".join(talk))
    assert goal.startswith("[… 14 lines of a conversation that was pasted here]\n\nUser: Write the")
    assert goal.endswith("User: CSV.")
    assert "Assistant" not in goal
    names = goal_of(pasted("Ada: ask {}", "Bob: reply {}"))
    assert "Ada: ask 0" in names
    assert "Bob" not in names
    long = goal_of(pasted("User: " + "x" * 300, "Assistant: {}"))
    assert len(long) < ASKED_CHARACTERS_MAX + 100


WHOLE = {
    "a short one": pasted("User: line {}", "Assistant: line {}", lines=10),
    "a form": "Title: export\nOwner: Ada\nAs a user: I want CSV\nDone when: tests pass\n" * 2,
    "a specification": pasted("Rule {}: amounts stay in cents", "it holds for line {}"),
    "settings": pasted("name: value {}", "kind: value {}"),
    "one label": pasted("Note: line {}", "and line {}"),
    "a list": "Todo: a\n" * 15 + "Done: b\n" * 15,
    "many headings": pasted(*(f"Part{letter}: line {{}}" for letter in "ABCDEF")),
    "quotations": pasted("> line {}", "and line {}"),
    "quotations and points": pasted("> line {}", "• point {}"),
}


@pytest.mark.parametrize("prompt", WHOLE.values(), ids=WHOLE)
def test_what_is_no_conversation_for_certain_is_left_in(prompt):
    assert goal_of(prompt) == prompt.strip()


def test_a_blank_prompt_has_no_goal():
    assert goal_of(" \n ") == ""


@given(
    st.lists(
        st.sampled_from(["User: a", "Assistant: b", "Ada: c", "", "```", "x" * 900, "> Bob: d"]),
        max_size=40,
    )
)
def test_it_is_bounded_and_never_empty_for_what_says_something(lines):
    prompt = "\n".join(lines)
    goal = goal_of(prompt)
    assert len(goal) <= GOAL_CHARACTERS_MAX
    assert bool(goal) == bool(prompt.strip())
