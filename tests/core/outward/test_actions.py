"""When two actions may be one."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upthread.core.outward.calls import Action, actions_of_call, look_of

WORDS = st.none() | st.sampled_from(["a", "b"])
ACTIONS = st.builds(
    Action,
    family=st.sampled_from(["push", "mail"]),
    words=st.lists(WORDS, max_size=3).map(tuple),
    place=WORDS,
)


@given(ACTIONS, ACTIONS)
def test_may_be_the_same_holds_both_ways(one, other):
    assert one.may_be(one)
    assert one.may_be(other) == other.may_be(one)


@given(ACTIONS, ACTIONS)
def test_two_that_each_say_what_the_other_does_not_are_not_the_same(one, other):
    mine, theirs = {*one.words} - {None}, {*other.words} - {None}
    is_elsewhere = one.place and other.place and one.place != other.place
    if one.family != other.family or is_elsewhere:
        assert not one.may_be(other)
    elif None not in one.words:
        assert one.may_be(other) == (mine <= theirs or theirs <= mine)


# --- with what a person may see whether an action was done: it changes nothing and means one  -----

ANY_WORD = st.none() | st.text(max_size=30) | st.sampled_from(["-x", "ext::sh", "a b", "$(x)", "x"])


@pytest.mark.parametrize(
    ("line", "look"),
    [
        ("git push origin main", "git ls-remote origin refs/heads/main"),
        ("git push -u origin HEAD", "git ls-remote origin"),
        ("git push", "git ls-remote"),
        ("git push origin --delete old", "git ls-remote origin refs/heads/old"),
        ("git push https://example.org/x.git main", ""),
        ("cd sub && git push origin main", ""),
        ("hg push", ""),
        ("gh release create v1", "gh release view v1"),
        ("gh pr merge 7 --repo a/b", "gh pr view 7 --repo a/b"),
        ("gh pr create", ""),
        ("docker push example.org/app:1", "docker manifest inspect example.org/app:1"),
        ("docker push", ""),
        ("docker push 'A B'", ""),
        ("curl -d x=1 https://example.org", ""),
        ("sh deploy.sh", ""),
    ],
)
def test_what_can_be_looked_at_is_said_with_the_command(line: str, look: str):
    (action,) = actions_of_call("", {"command": line})
    assert look_of(action) == look


@given(
    st.sampled_from(["push", "delete of a ref", "docker push", "gh pr merge"]),
    st.lists(ANY_WORD, max_size=4),
    ANY_WORD,
)
@example("push", ["", None], None)
def test_whatever_an_agent_wrote_is_one_plain_command_of_plain_words(family, told, place):
    look = look_of(Action(family=family, words=tuple(told), place=place))
    words = shlex.split(look)
    assert look == " ".join(words), "no word needs to be quoted"
    assert not any(word.startswith("-") for word in words if word != "--repo")
    assert "::" not in look or words[0] == "docker"
