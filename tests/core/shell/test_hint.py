"""A command that a hint suggests: pasted, it is one command, and a name in it is only a name."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.shell.hint import WORD_CHARACTERS_MAX, command

ANY_TEXT = st.text(st.characters(exclude_categories=()))
TRICKY = st.text(st.sampled_from("'\"`$();|&<>#~!*\\\n\r\t \x1b\u202e\ud83dab"))


@given(ANY_TEXT | TRICKY)
def test_a_word_stays_one_word_on_one_line(word):
    suggested = command("git", word, "end")
    assert suggested.isprintable()
    first, shown, last = shlex.split(suggested)
    assert (first, last) == ("git", "end")
    assert len(shown) <= WORD_CHARACTERS_MAX


def test_a_name_that_only_a_shell_would_mind_is_given_as_it_is():
    assert shlex.split(command("cd", "/a/it's; $(x)")) == ["cd", "/a/it's; $(x)"]
