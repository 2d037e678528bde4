"""What a session is sent: what it has not heard and may have forgotten, each once, and no more."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upthread.core.decision import words
from upthread.core.decision.freshness import ChangedFile, Freshness, Shift, change_lines
from upthread.core.roles.role import Role
from upthread.core.turns.turn import (
    EFFECTS_DONE_HEADING,
    EFFECTS_HEADING,
    Task,
    context_for,
    continuation,
    effects_block,
    is_continuation,
    render_update,
    role_block,
    wants_fresh,
    with_unverified,
    without_fresh,
)

FIRST, RESUME = words.FIRST, words.RESUME
NEW_SESSION = (FIRST, words.START_FRESH, words.RESUME_WITH_REPLAY)
PLANNER = Role(name="planner", instructions="You plan.\n")
TASK = Task(text="Plan it.", news="what is new", everything="all there is")


@pytest.mark.parametrize(
    ("text", "fresh", "rest"),
    [
        ("fresh: look again", True, "look again"),
        ("  Fresh:look", True, "look"),
        ("FRESH:\n\nlook", True, "look"),
        ("fresh:", True, ""),
        ("freshly: made", False, "freshly: made"),
        ("be fresh: now", False, "be fresh: now"),
        ("", False, ""),
    ],
)
def test_the_first_word_asks_for_a_fresh_session(text: str, fresh: bool, rest: str):
    assert wants_fresh(text) is fresh
    assert without_fresh(text) == rest


@given(st.text())
def test_a_prompt_without_the_prefix_is_left_as_it_is(text: str):
    if not wants_fresh(text):
        assert without_fresh(text) == text


@pytest.mark.parametrize("decision", NEW_SESSION)
def test_a_new_session_is_told_who_it_is_where_things_stand_and_everything(decision: str):
    context = context_for(role=PLANNER, task=TASK, decision=decision, past="a\ud83dz")
    whole = '<role name="planner">\nYou plan.\n</role>\n\na\ufffdz\n\nall there is'
    assert context == whole, "half of a character is not sent"


@pytest.mark.parametrize("decision", [RESUME, words.RESUME_WITH_UPDATE])
def test_a_resumed_session_is_told_only_what_is_new_and_what_it_may_have_forgotten(decision: str):
    assert context_for(role=PLANNER, task=TASK, decision=decision, past="") == "what is new"
    context = context_for(role=PLANNER, task=TASK, decision=decision, past="what was said")
    assert context == "what was said\n\nwhat is new"


def test_a_new_session_with_nothing_else_to_hear_hears_the_news():
    task = Task(text="t", news="new")
    assert context_for(role=Role(name="x"), task=task, decision=FIRST, past="") == "new"


def test_what_goes_before_the_persons_words_mentions_no_file():
    """Claude Code sends a mentioned file, whoever wrote the words."""
    past = 'mail a@b.c, "@x" n @/k\n@~/k \\@y'
    context = context_for(role=Role(name="x"), task=Task(text="@mine"), decision=FIRST, past=past)
    assert context == 'mail a@b.c, "\\@x" n \\@/k\n\\@~/k \\@y'
    assert "\\@mine" in continuation("@mine", ())


def test_a_bare_prompt_has_no_context():
    bare = Task(text="t")
    assert context_for(role=Role(name="x"), task=bare, decision=FIRST, past="") == ""
    assert context_for(role=PLANNER, task=bare, decision=RESUME, past="") == ""


def test_a_role_without_instructions_has_no_block():
    assert role_block(Role(name="x")) == ""


def test_a_continuation_quotes_the_prompt_line_by_line():
    text = continuation("Do {this}\n\nnow", ())
    assert is_continuation(text)
    assert "> Do {this}\n> \n> now\n" in text
    assert EFFECTS_HEADING not in text


def test_a_continuation_of_a_turn_before_the_last_says_so():
    text = continuation("Do it", ("Write a: done",), is_last=False)
    assert is_continuation(text)
    assert text.startswith("An earlier turn of yours was interrupted before its end")
    assert text.endswith("- Write a: done")
    assert not is_continuation("Your last turn was interrupted, you say?")


def test_a_continuation_says_when_nobody_was_there_to_allow_what_failed():
    text = continuation("Do it", ("git push: failed",), was_unattended=True)
    assert "Nobody was there any more to allow anything." in text
    assert text.endswith("\n- git push: failed")
    assert "Nobody" not in continuation("Do it", ("git push: failed",))


def test_a_continuation_lists_the_actions_that_are_known():
    text = continuation("Do it", ("git push: completed", "rm\n# Report of auditor: unknown"))
    assert text.endswith(
        f"\n\n{EFFECTS_HEADING}\n- git push: completed\n- rm\n  ### Report of auditor: unknown"
    )


def test_actions_that_must_not_be_done_again_are_listed_and_none_is_nothing():
    assert effects_block(()) == ""
    assert effects_block(("git push: done",)) == f"{EFFECTS_DONE_HEADING}\n- git push: done"


@pytest.mark.extended
@given(st.text(max_size=50), st.lists(st.text(max_size=20)).map(tuple))
def test_a_continuation_can_always_be_told_from_its_prompt(prompt: str, effects: tuple[str, ...]):
    assert continuation(prompt, effects) != prompt
    assert continuation(prompt, effects) == continuation(prompt, effects)


# --- what has changed, to a resumed session -------------------------------------------------------


STEPWISE = Role(name="planner", instructions="Plan in small steps.")
FILES = (ChangedFile(path="src/a.py", how="changed"), ChangedFile(path="b.py", how="deleted"))
CHANGED = Freshness(changed=FILES, changed_count=2)


def test_a_resumed_session_is_told_which_files_changed():
    assert render_update(CHANGED, role=STEPWISE) == (
        "# What has changed since your last turn\n"
        "- `src/a.py`: changed\n"
        "- `b.py`: deleted\n\n"
        "Read these files again before you rely on what you remember of them."
    )


def test_branch_and_directory_are_told():
    found = Freshness(
        branch=Shift(was="main", now=None), directory=Shift(was="/srv/a", now="/srv/b")
    )
    assert change_lines(found) == (
        "the branch is none; it was `main`",
        "the working directory is `/srv/b`; it was `/srv/a`, and your paths lead there",
    )


def test_new_instructions_are_told_whole():
    told = render_update(Freshness(is_configuration_changed=True), role=STEPWISE)
    assert told.endswith('<role name="planner">\nPlan in small steps.\n</role>')
    assert render_update(Freshness(is_configuration_changed=True), role=Role(name="x")) == ""


def test_an_agent_that_tells_the_instructions_itself_is_told_that_they_hold():
    found = Freshness(is_configuration_changed=True)
    told = render_update(found, role=STEPWISE, is_role_told=True)
    assert told == "Your instructions have changed: those that you have now hold."


def test_nothing_new_is_nothing_told():
    assert render_update(Freshness(commit=Shift(was="a", now="b")), role=STEPWISE) == ""


def test_a_long_path_keeps_its_end():
    found = Freshness(changed=(ChangedFile(path="x" * 999 + "/end.py", how="changed"),))
    (line,) = change_lines(found)
    assert line.endswith("/end.py`: changed")
    assert len(line) < 320


@given(st.text(max_size=80) | st.text("`~# \n", max_size=12))
@example("`")
@example("```")
def test_no_path_forges_a_line(path):
    found = Freshness(changed=(ChangedFile(path=path, how="changed"),), changed_count=1)
    assert len(render_update(found, role=STEPWISE).splitlines()) == 4


def test_instructions_that_nobody_verified_are_quoted_to_a_new_session_alone():
    task = with_unverified(Task(text="Do it.", news="New."), "CLAUDE.md", "Obey.\nAlways.")
    assert "> Obey.\n> Always." in task.everything
    assert task.everything.endswith("\n\nNew.")
    assert (task.text, task.news) == ("Do it.", "New.")
    assert with_unverified(Task(text="Do it."), "", "").everything == ""
