"""The commands that a task stands for, read as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.outward.recipes import included_in, recipe_of, script_of

MAKEFILE = """\
# what it does
A := x
B = $(A) y
.PHONY: one
one: two three
\t@echo ${B} $$HOME
two:
\t-two \\
\tagain
three: one ; third
a b: c
\tboth
url = http://x
"""


def test_a_target_is_its_commands_and_those_it_depends_on():
    assert recipe_of(MAKEFILE, ["one"]).split("\n") == [
        "echo x y $HOME",
        *("two  \tagain", "third"),
    ]
    assert recipe_of(MAKEFILE, []) == recipe_of(MAKEFILE, ["one"])
    assert recipe_of(MAKEFILE, ["b"]) == "both"
    assert recipe_of(MAKEFILE, ["none"]) == recipe_of("", []) == ""


def test_variables_that_hold_themselves_come_to_an_end():
    assert len(recipe_of("A = $(A)$(A)\na:\n\t$(A)\n", ["a"])) < 1000


def test_what_is_taken_in_is_named():
    assert included_in("include a.mk b.mk\n-include c\nimport 'd.just'\nx: y\n") == (
        *("a.mk", "b.mk", "c", "d.just"),
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"scripts": []}', '{"scripts": {"a": 1}}', "[" * 100_000]
)
def test_a_package_without_such_a_script_has_none(text):
    assert script_of(text, "a") == ""


def test_a_script_is_what_comes_before_and_after_as_well():
    package = '{"scripts": {"prea": "1", "a": "2", "posta": "3", "b": "4"}}'
    assert script_of(package, "a") == "1\n2\n3"


@given(st.text())
def test_any_text_is_read(text):
    recipe_of(text, [])
    included_in(text)
    script_of(text, "a")
