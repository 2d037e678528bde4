"""How one program's words are told apart: what starts another one, and which options take a word.

What the programs themselves do, and which of them are the same action, is in test_families.py.
"""

from __future__ import annotations

import pytest

from upthread.core.outward.actions import Action
from upthread.core.outward.programs import actions_of_command
from upthread.core.outward.shell_commands import ShellCommand


def done_by(*words: str | None, directory: str = "") -> tuple[Action, ...]:
    return actions_of_command(ShellCommand(words=words, directory=directory))


@pytest.mark.parametrize(
    "before",
    [
        ("python", "-m"),
        ("python3", "-I", "-m"),
        ("uv", "run"),
        ("poetry", "run"),
        ("pipx", "run"),
        ("uvx",),
        ("npx", "--yes"),
        ("uv", "run", "python", "-m"),
    ],
    ids=" ".join,
)
def test_who_only_starts_a_program_does_what_it_does(before):
    upload = ("twine", "upload", "dist/a.whl")
    assert done_by(*before, *upload) == done_by(*upload) != ()


@pytest.mark.parametrize("words", [("python", "-c", "print(1)"), ("npx",), ("python",), ()])
def test_who_starts_nothing_that_is_known_reaches_nobody(words):
    assert done_by(*words) == ()


@pytest.mark.parametrize(
    "options",
    [("-C", "push"), ("-c", "push=x"), ("--git-dir", "push"), ("--git-dir=push",)],
    ids=" ".join,
)
def test_the_word_that_an_option_takes_is_no_operand(options):
    assert done_by("git", *options, "status") == ()
    assert done_by("git", *options, "push", "origin", "main") != ()


def test_short_options_may_hold_their_word_or_stand_together():
    posted = done_by("curl", "-X", "POST", "https://a.example/b")
    assert posted == done_by("curl", "-XPOST", "https://a.example/b") != ()
    assert posted == done_by("curl", "-sSX", "POST", "https://a.example/b")


def test_after_two_dashes_every_word_is_an_operand():
    (told,) = done_by("git", "push", "--", "origin", "main")
    (plain,) = done_by("git", "push", "origin", "main")
    assert told.may_be(plain)


def test_a_word_that_is_not_known_may_be_any():
    (unknown,) = done_by("git", "push", "origin", None)
    (main,) = done_by("git", "push", "origin", "main")
    (dev,) = done_by("git", "push", "origin", "dev")
    assert unknown.may_be(main)
    assert unknown.may_be(dev)
    assert not main.may_be(dev)


@pytest.mark.parametrize("word", ["push", "", "-", "--", "-x", "é", "\0"])
def test_a_program_that_is_not_known_reaches_nobody(word):
    assert done_by("nobody-knows-it", word) == ()
