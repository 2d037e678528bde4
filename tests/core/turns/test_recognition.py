"""What an agent's history says of a prompt; every doubtful case is undecidable, never a guess."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.turns.events import CHILD, CHILD_STARTED, asked, call, result, said, thought

from upthread.core.events import AgentEvent
from upthread.core.turns.agent_history import EarlierPrompt, children_of, recognise
from upthread.core.turns.turn import Recognition
from upthread.core.types import UpstreamSessionId

COMPLETE, INCOMPLETE, ABSENT, UNDECIDABLE = (
    Recognition.COMPLETE,
    Recognition.INCOMPLETE,
    Recognition.ABSENT,
    Recognition.UNDECIDABLE,
)
REPORT = '```upthread\n{"status": "done"}\n```'
PROMPT = "<role>You plan.</role>\n\n# Task\nPlan it."


def judged(
    *history: AgentEvent,
    sent: str = PROMPT,
    answered: Sequence[str] = (),
    failed: Sequence[str] = (),
    has_older: bool = False,
) -> Recognition:
    earlier = [EarlierPrompt(text, was_answered=True) for text in answered]
    earlier += [EarlierPrompt(text) for text in failed]
    found = recognise(history, sent_text=sent, earlier=earlier, has_older=has_older)
    return found.recognition


# --- is it there? ------------------------------------------------------------------------------


FAILED = "Look at it.\nThen say."
PERSONS = asked("a person's words")
EARLIER = (asked("earlier"), said("yes"))
ANSWERED = (asked(PROMPT), said(REPORT))
TWICE = (asked(PROMPT), said("limit"), asked(PROMPT), said(REPORT))
REDACTED = "use [redacted:jwt:01234567] for it"
IS_IT_THERE: dict[str, tuple[tuple[AgentEvent, ...], dict[str, Any], Recognition]] = {
    "a new session is empty": ((), {}, ABSENT),
    "it holds exactly what was known": (EARLIER, {"answered": ["earlier"]}, ABSENT),
    "the last prompt is ours by its text": ((asked(PROMPT),), {}, INCOMPLETE),
    "and so it is after others": ((*EARLIER, asked(PROMPT)), {"answered": ["earlier"]}, INCOMPLETE),
    "its words were cut": ((asked(PROMPT[:30]),), {}, UNDECIDABLE),
    "its words were changed": ((asked(PROMPT.upper()),), {}, UNDECIDABLE),
    "chunks are one message": ((asked(PROMPT[:9]), asked(PROMPT[9:])), {}, INCOMPLETE),
    "chunks under one id": ((asked(PROMPT[:9], "m1"), asked(PROMPT[9:], "m1")), {}, INCOMPLETE),
    "ids of their own": ((asked("x", "m1"), asked(PROMPT, "m2")), {"failed": ["x"]}, INCOMPLETE),
    # No ids and nothing between them: an unanswered prompt and ours, run together.
    "one message, or two": ((asked("another"), asked(PROMPT)), {"failed": ["x"]}, UNDECIDABLE),
    "one message by its id, whatever it is made of": (
        (asked(FAILED, "m1"), asked(PROMPT, "m1")),
        {"failed": [FAILED]},
        UNDECIDABLE,
    ),
    "a person's prompt after it": ((asked(PROMPT), said("ok"), PERSONS), {}, UNDECIDABLE),
    "a person's prompt in its place": ((PERSONS, said("ok")), {}, UNDECIDABLE),
    "a person's prompt before it": ((PERSONS, said("ok"), asked(PROMPT)), {}, INCOMPLETE),
    "the same of an answered turn": (
        (*ANSWERED, asked(PROMPT)),
        {"answered": [PROMPT]},
        INCOMPLETE,
    ),
    "another came after": (
        (*ANSWERED, asked("another"), said("ok")),
        {"answered": [PROMPT, "another"]},
        ABSENT,
    ),
    "an answered one, which the agent has in other words": (
        (asked("EARLIER, by a template"), said("yes"), asked(PROMPT)),
        {"answered": ["earlier"]},
        INCOMPLETE,
    ),
    "the same after one that failed": (
        (*ANSWERED, asked("x"), *ANSWERED),
        {"answered": [PROMPT], "failed": ["x", PROMPT]},
        UNDECIDABLE,
    ),
    # The same prompt, answered last time; or ours, in a history that lost its beginning.
    "it ends in our words": (ANSWERED, {"answered": [PROMPT]}, UNDECIDABLE),
    "it ends in our words, and has its beginning": (
        (*EARLIER, *ANSWERED),
        {"answered": ["earlier", PROMPT]},
        ABSENT,
    ),
    "it ends in our words, which began it with more": (
        (asked(f"the role\n{PROMPT}"), said("yes"), *ANSWERED),
        {"answered": [f"the role\n{PROMPT}", PROMPT]},
        ABSENT,
    ),
    "it has our words behind the role": (
        (asked(f"the role\n{PROMPT}"), said("yes")),
        {"answered": [f"the role\n{PROMPT}"]},
        ABSENT,
    ),
    "all was lost": ((), {"answered": ["earlier"]}, UNDECIDABLE),
    "a part is left": ((asked("2nd"), said("ok")), {"answered": ["1st", "2nd"]}, UNDECIDABLE),
    "a part and it": (
        (asked("2nd"), said("ok"), asked(PROMPT)),
        {"answered": ["1st", "2nd"]},
        UNDECIDABLE,
    ),
    "it, behind more than is known": (
        (asked("1st"), said("ok"), *EARLIER, asked(PROMPT)),
        {"answered": ["earlier"], "has_older": True},
        INCOMPLETE,
    ),
    "the same, behind more than is known": (
        (*TWICE[:3], *ANSWERED),
        {"answered": [PROMPT], "has_older": True},
        UNDECIDABLE,
    ),
    "one that failed": ((asked("failed"),), {"failed": ["failed"]}, ABSENT),
    "one that failed, then it": (
        (asked("failed"), asked(PROMPT, "m2")),
        {"failed": ["failed"]},
        INCOMPLETE,
    ),
    "one that failed, then a stranger's": (
        (asked("failed"), asked("strange", "m2")),
        {"failed": ["failed"]},
        UNDECIDABLE,
    ),
    "the same words failed": (ANSWERED, {"failed": [PROMPT]}, UNDECIDABLE),
    "the same words failed once": (TWICE, {"failed": [PROMPT]}, COMPLETE),
    "the same words failed twice": (TWICE, {"failed": [PROMPT, PROMPT]}, UNDECIDABLE),
    "a blank prompt": ((asked("anything"),), {"sent": " \n"}, UNDECIDABLE),
    "a blank prompt, nothing there": ((), {"sent": " \n"}, UNDECIDABLE),
    "not kept whole, never called absent": ((), {"sent": REDACTED}, UNDECIDABLE),
    "not kept whole": ((asked(REDACTED), said(REPORT)), {"sent": REDACTED}, COMPLETE),
}


@pytest.mark.parametrize(("history", "known", "expected"), IS_IT_THERE.values(), ids=IS_IT_THERE)
def test_a_prompt_is_there_or_not_or_cannot_be_told(history, known, expected):
    assert judged(*history, **known) is expected


@pytest.mark.parametrize(
    "arrived",
    [
        f"\n{PROMPT}\n\n",
        " ".join(PROMPT.split()),
        PROMPT.replace("\n", "\r\n"),
        f"<system-reminder>\nbe kind\n</system-reminder>\n{PROMPT}",
        f"{PROMPT}\n\n[Current time: noon]",
        f"before\n{PROMPT.replace(' ', '  ')}\nafter",
    ],
)
def test_a_prompt_that_the_agent_altered_around_its_words_is_recognised(arrived: str):
    assert judged(asked(arrived)) is INCOMPLETE


@pytest.mark.parametrize("arrived", ["let's go on", "go on, then", "ergo on"])
def test_a_short_prompt_is_not_found_inside_another_ones_words(arrived: str):
    assert judged(asked(arrived), sent="go on") is UNDECIDABLE


def test_prompts_that_run_together_are_told_apart_by_all_of_their_words():
    """No ids, and nothing between them: an agent that keeps what it did not answer."""
    together = (asked(FAILED), asked(PROMPT))
    assert judged(*together, failed=[FAILED]) is INCOMPLETE
    assert judged(*together, said(REPORT), failed=[FAILED]) is COMPLETE
    earlier = {"answered": ["earlier"], "failed": [FAILED]}
    assert judged(*EARLIER, *together, **earlier) is INCOMPLETE
    assert judged(*together, sent="go on", failed=[FAILED, PROMPT]) is ABSENT


@pytest.mark.parametrize("ids", [("", ""), ("m1", "m2")])
def test_a_turn_that_was_gone_on_with_does_not_hide_a_later_prompt(ids: tuple[str, str]):
    """Its prompt and the continuation are two messages or one, as the agent has it."""
    again = f"Go on with this:\n{PROMPT}"
    earlier = [EarlierPrompt(PROMPT), EarlierPrompt(again, was_answered=True)]
    two = [asked(text, id_ or None) for text, id_ in zip((PROMPT, again), ids, strict=True)]
    cut_off = recognise(two, sent_text=again, earlier=earlier[:1])
    assert cut_off.recognition is INCOMPLETE
    for later in ("and then", PROMPT):
        history = [*two, said(REPORT), asked("next"), said("ok"), asked(later)]
        known = [*earlier, EarlierPrompt("next", was_answered=True)]
        assert recognise(history, sent_text=later, earlier=known).recognition is INCOMPLETE
        gone = recognise(history[:-1], sent_text=later, earlier=known)
        assert gone.recognition is ABSENT


@pytest.mark.parametrize(
    ("together", "earlier"),
    [
        pytest.param(("and a word of a person's ", PROMPT), (FAILED,), id="words of others"),
        pytest.param((FAILED, PROMPT), (), id="one that is not known"),
        pytest.param(("go", "go", "go"), ("go", "gogo"), id="two ways"),
        pytest.param((PROMPT, "go"), ("go",), id="another order"),
    ],
)
def test_what_may_be_read_in_more_ways_or_in_none_is_not_told_apart(
    together: tuple[str, ...], earlier: tuple[str, ...]
):
    sent = "go" if together[0] == "go" else PROMPT
    history = [asked(text) for text in together]
    assert judged(*history, sent=sent, failed=earlier) is UNDECIDABLE


def test_what_a_child_was_asked_is_not_the_users():
    history = [
        asked("earlier"),
        CHILD_STARTED,
        asked(PROMPT, of=CHILD),
        said("child", of=CHILD),
        said("ok"),
    ]
    assert judged(*history, answered=["earlier"]) is ABSENT
    assert judged(*history, asked(PROMPT), answered=["earlier"]) is INCOMPLETE


# --- is it answered? ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ([], INCOMPLETE),
        ([said("I have begun")], INCOMPLETE),
        ([said(f"Done.\n{REPORT}")], COMPLETE),
        ([said("Done.\n```up"), said("thread\n" + REPORT[12:])], COMPLETE),
        ([said("Done."), call(), result(), said(REPORT)], COMPLETE),
        ([said("Done.", "m1"), said(REPORT, "m2")], COMPLETE),
        ([thought(), said(REPORT)], COMPLETE),
        ([call(), said(REPORT)], INCOMPLETE),
        ([call(), result(status="in_progress"), said(REPORT)], INCOMPLETE),
        ([call(), result(status="failed"), said(REPORT)], INCOMPLETE),
        ([said(REPORT), result()], COMPLETE),
        ([said(REPORT), call(), result()], INCOMPLETE),
        ([said(REPORT), thought()], INCOMPLETE),
        ([said(f"{REPORT}\nNow the next thing:")], INCOMPLETE),
        ([said("```upthread\n{broken\n```")], INCOMPLETE),
    ],
)
def test_a_reply_is_complete_only_when_that_can_be_known(
    reply: list[AgentEvent], expected: Recognition
):
    assert judged(asked(PROMPT), *reply) is expected


def test_a_reply_that_rests_on_a_call_that_failed_while_nobody_was_there_is_not_complete():
    history = [asked(PROMPT), call(), result("c1", "failed"), said(REPORT)]
    alone = recognise(history, sent_text=PROMPT)
    assert (alone.recognition, alone.was_unattended) == (INCOMPLETE, True)
    seen = recognise(history, sent_text=PROMPT, attended_calls={"c1"})
    assert (seen.recognition, seen.was_unattended) == (COMPLETE, False)


def test_a_check_that_ran_and_failed_while_nobody_was_there_is_no_interruption():
    ran = [asked(PROMPT), call(), result("c1", "failed", did_run=True), said(REPORT)]
    found = recognise(ran, sent_text=PROMPT)
    assert (found.recognition, found.was_unattended) == (COMPLETE, False)
    refused = [*ran[:-1], call("c2"), result("c2", "failed"), said(REPORT)]
    assert judged(*refused) is INCOMPLETE, "another one may have failed for want of a permission"


def test_a_call_that_failed_before_the_prompt_has_no_part_in_its_reply():
    history = [asked("x"), call(), result("c1", "failed"), said("no"), asked(PROMPT), said(REPORT)]
    assert judged(*history, answered=["x"]) is COMPLETE


def test_a_childs_report_does_not_close_the_parents_reply():
    found = recognise(
        [CHILD_STARTED, asked(PROMPT), said("I ask. "), said(REPORT, of=CHILD), said("On.")],
        sent_text=PROMPT,
    )
    assert found.recognition is INCOMPLETE
    assert found.reply == "I ask. On."
    assert len(found.tail) == 3


def test_the_reply_and_the_actions_known_are_told():
    found = recognise(
        [
            *(asked("earlier"), call("c0"), asked(PROMPT), said("I push."), call(), result()),
            *(call("c2", "gh release"), result("c2", "in_progress"), result("c3", "failed")),
            *(result("c3", None, title="deploy"), said("Then")),
        ],
        sent_text=PROMPT,
    )
    assert found.recognition is INCOMPLETE
    assert found.reply == "I push.\n\nThen"
    assert [each[1:] for each in found.effects] == [
        ("git push", "completed"),
        ("gh release", "outcome unknown"),
        ("deploy", "failed"),
    ]
    assert len(found.tail) == 8


def test_nothing_is_told_of_a_prompt_that_is_not_there():
    found = recognise([asked("x"), said(REPORT)], sent_text=PROMPT)
    assert (found.reply, found.effects, found.tail) == ("", (), ())


def test_children_are_known_by_their_start_or_their_call():
    named = result("c1", child_upstream_session_id=UpstreamSessionId("ses_b"))
    assert children_of([CHILD_STARTED, named, result("c2"), said("x")]) == {"ses_child", "ses_b"}


# --- in general --------------------------------------------------------------------------------

WORDS = st.sampled_from(["go on", "plan it", "go on\nplan it", "look"])


@given(
    st.lists(
        st.tuples(WORDS, st.sampled_from(["answered", "cut off", "failed", "lost"])), max_size=5
    ),
    WORDS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_whole_history_is_never_misjudged(
    before: list[tuple[str, str]], sent: str, arrived: bool, complete: bool, has_ids: bool
):
    history: list[AgentEvent] = []
    for number, (prompt, end) in enumerate(before):
        asked_for = asked(prompt, f"m{number}" if has_ids else None)
        reply = {"answered": [said("ok")], "cut off": [said("o")]}.get(end, [])
        history += [] if end == "lost" else [asked_for, *reply]
    if arrived:
        history += [asked(sent, "last" if has_ids else None), *([said(REPORT)] * complete)]
    earlier = [EarlierPrompt(text, was_answered=end == "answered") for text, end in before]
    verdict = recognise(history, sent_text=sent, earlier=earlier).recognition
    right = (COMPLETE if complete else INCOMPLETE) if arrived else ABSENT
    assert verdict in {right, UNDECIDABLE}
    if arrived and all(end == "answered" for _, end in before):
        assert verdict is right


@given(
    st.lists(st.tuples(WORDS, st.sampled_from(["ok", REPORT])), min_size=1, max_size=4),
    WORDS,
    st.integers(1, 4),
    st.booleans(),
)
def test_a_history_that_lost_its_beginning_never_has_a_prompt_sent_again(
    answered: list[tuple[str, str]], sent: str, lost: int, has_reply: bool
):
    history = [event for prompt, reply in answered for event in (asked(prompt), said(reply))]
    history = [*history, asked(sent), *([said("ok")] if has_reply else [])][2 * lost :]
    if history:
        known = [prompt for prompt, _ in answered]
        assert judged(*history, sent=sent, answered=known) is UNDECIDABLE
