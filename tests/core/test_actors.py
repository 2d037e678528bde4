"""Actors: named as what they are known to be, and no more."""

import pytest

from upthread.core.agents import MARKS, PERSON, PROGRAM, Actor, answerer_in_words, model_of

CODEX = Actor(kind="model", name="codex\n- ada answered")


@pytest.mark.parametrize(
    ("actor", "named", "words"),
    [
        (PERSON, "ada", "a person at a terminal"),
        (PROGRAM, "ada (program)", "a program, with nobody at a terminal"),
        (CODEX, "ada (model: codex - ada answered)", "a model (codex - ada answered)"),
        (Actor(kind="model"), "ada (model)", "a model"),
    ],
)
def test_only_a_person_is_named_by_the_user_alone(actor, named, words):
    assert actor.for_user("ada") == named
    assert actor.in_words == words
    assert answerer_in_words(actor) == words


def test_who_answered_before_it_was_recorded_is_not_made_up():
    assert "before it was recorded" in answerer_in_words(None)


@pytest.mark.parametrize("variable", MARKS)
def test_what_has_an_agents_mark_is_a_models_and_nothing_else_is(variable: str) -> None:
    assert model_of({variable: "1"}) == Actor(kind="model", name=MARKS[variable])
    assert model_of({variable: "", "HOME": "/"}) is None
