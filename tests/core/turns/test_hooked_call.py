from hypothesis import given
from hypothesis import strategies as st
from tests.core.messages import stored
from tests.core.turns.events import CHILD, CHILD_STARTED, OWN, asked, call, held, result, said

from upthread.core.events import ChildEnded
from upthread.core.turns.hooked_call import (
    PROMPT_CHARACTERS_MAX,
    CutOffTurn,
    Sought,
    StoredTurn,
    is_unheard,
    stored_turns,
    turn_of,
)
from upthread.core.types import (
    ContextPart,
    ErasedPart,
    Message,
    Outcome,
    Part,
    Speaker,
    TextPart,
    TurnId,
)


def turn_in(events, known=(), *, redact=str, **sought) -> StoredTurn | None:
    return turn_of(events, Sought(recorded=tuple(known), redact=redact, **sought))


def last_turn(events, known=(), **sought) -> StoredTurn:
    turn = turn_in(events, known, **sought)
    assert turn is not None
    return turn


def recorded(*parts: Part, speaker: Speaker = Speaker.USER) -> Message:
    return stored(*parts, speaker=speaker, session=OWN)


def text(words: str) -> Message:
    return recorded(TextPart(text=words))


def test_the_last_prompt_and_what_followed_it_is_the_turn():
    turn = last_turn([asked("One."), said("1"), asked("Two."), said("2")])
    assert turn.prompt == "Two."
    assert turn.events == (said("2"),)


def test_a_session_that_was_asked_nothing_has_no_turn():
    assert turn_in([said("hello")]) is None


def test_what_was_put_before_the_prompt_is_no_part_of_it():
    turn = last_turn([asked("# Briefing\n\nGo on.")], context="# Briefing")
    assert turn.prompt == "Go on."


def test_a_prompt_that_is_recorded_already_is_not_taken_in_again():
    events = [asked("One."), said("1")]
    assert turn_in(events, [text("One.")]) is None
    context = recorded(ContextPart(text="# Briefing"), TextPart(text="Go on."))
    assert turn_in([asked("# Briefing\n\nGo on.")], [context]) is None


def test_one_that_lost_its_secrets_when_it_was_recorded_is_known_again():
    def redact(words: str) -> str:
        return words.replace("hunter2", "[redacted]")

    events = [asked("Use hunter2.")]
    assert turn_in(events, [text("Use [redacted].")], redact=redact) is None
    assert turn_in(events, [text("Use [redacted].")]) is not None


def test_of_a_prompt_that_was_not_kept_the_count_alone_tells():
    erased = recorded(ErasedPart(kind="text"))
    assert turn_in([asked("One.")], [erased]) is None
    assert turn_in([asked("One."), asked("Two.")], [erased]) is not None


def test_the_same_words_said_again_are_a_new_turn():
    assert turn_in([asked("Go on."), asked("Go on.")], [text("Go on.")]) is not None


def test_another_prompt_is_a_new_turn_after_a_compaction_took_the_earlier_ones():
    known = [text("One."), text("Two."), recorded(TextPart(text="2"), speaker=Speaker.ASSISTANT)]
    assert turn_in([asked("Three.")], known) is not None


def test_a_turn_that_others_followed_in_its_session_is_its_own_and_ends_where_they_begin():
    events = [asked("One."), said("1"), asked("Two."), said("2")]
    turn = last_turn(events, later=1, answered=1)
    assert (turn.prompt, turn.events) == ("One.", (said("1"),))


def test_the_first_prompt_is_that_of_the_call_the_session_was_begun_for():
    events = [asked("One."), said("1"), asked("By hand."), said("2")]
    first = last_turn(events, is_first=True)
    last = last_turn(events)
    assert (first.prompt, last.prompt) == ("One.", "By hand.")


def test_a_prompt_that_never_arrived_is_not_taken_for_the_one_that_followed():
    assert turn_in([asked("Two."), said("2")], later=1, answered=1) is None


def test_of_a_prompt_that_was_kept_the_words_tell():
    events = [asked("One."), said("1"), asked("# Briefing\n\nTwo."), said("2"), asked("Three.")]
    two = TextPart(text="Two.")
    turn = last_turn(events, asked=two, context="# Briefing", later=1)
    assert (turn.prompt, turn.events) == ("Two.", (said("2"),))
    assert turn_in(events, asked=TextPart(text="Four.")) is None
    erased = last_turn(events, asked=ErasedPart(kind="text"))
    assert erased.prompt == "Three."


def test_what_a_compaction_left_of_the_recorded_prompts_is_known_by_the_last_one():
    known = [text("One."), text("Two."), text("Three.")]
    turn = last_turn([asked("Three."), asked("Four.")], known)
    assert turn.prompt == "Four."


def test_a_session_is_unheard_of_that_got_no_prompt_but_those_on_record():
    earlier = (text("One."),)
    assert is_unheard([], Sought())
    assert is_unheard([asked("One."), said("1")], Sought(recorded=earlier))
    assert not is_unheard([asked("One."), asked("Two.")], Sought(recorded=earlier))


def test_a_turn_tells_what_its_session_held_at_its_end():
    turn = last_turn([asked("One."), held(1), said("1"), held(2)])
    assert turn.usage == held(2)
    unknown = last_turn([asked("One.")])
    assert unknown.usage is None


def test_a_store_that_is_behind_gets_the_reply_and_nothing_stays_open_that_was_answered():
    done, open_ = [call("c1"), result("c1")], [call("c2"), result("c2", "in_progress")]
    turn = last_turn([asked("One."), said("I "), *done, *open_])
    answered = turn.ended_with("It is made.", str, is_answered=True)
    assert answered.events == (said("I "), *done, said("It is made."))
    failed = turn.ended_with("Aborted.", str, is_answered=False)
    assert failed.events == (said("I "), *done, *open_, said("Aborted."))
    assert turn.ended_with("", str, is_answered=True) is turn
    assert answered.ended_with("It is made.", str, is_answered=True) is answered


def test_what_a_sub_agents_own_sub_agents_said_is_left_to_their_sessions():
    events = [
        asked("Go."),
        CHILD_STARTED,
        said("theirs", of=CHILD),
        result("c", child_upstream_session_id=CHILD),
        ChildEnded(upstream_session_id=OWN, child_upstream_session_id=CHILD, outcome=Outcome.OK),
        said("mine"),
    ]
    turn = last_turn(events)
    assert turn.events == (result("c"), said("mine"))


@given(st.text(), st.text())
def test_a_turn_that_was_cut_off_is_told_in_one_line_for_each_thing(prompt: str, detail: str):
    turn = CutOffTurn(turn_id=TurnId("t"), prompt=prompt, actions=(), detail=detail)
    happened, was_asked = turn.lines
    earlier, was_asked_then = turn.lines_of_earlier
    assert (earlier, was_asked_then) == (happened.replace("the last", "an earlier", 1), was_asked)
    assert happened.startswith("the last turn was cut off")
    assert detail in happened
    assert len(was_asked.splitlines()) == 1
    assert len(was_asked) <= PROMPT_CHARACTERS_MAX + len("it was asked: ")


def test_a_prompt_that_was_not_kept_is_said_to_be():
    turn = CutOffTurn(turn_id=TurnId("t"), prompt=" ", actions=(), detail="")
    assert turn.lines == ("the last turn was cut off", "it was asked: not kept")


def test_a_session_is_told_as_its_turns():
    events = [said("before any"), asked("one"), said("a"), asked("two")]
    told = [(turn.prompt, turn.events) for turn in stored_turns(events)]
    assert told == [("one", (said("a"),)), ("two", ())]
    assert stored_turns([said("alone")]) == ()
