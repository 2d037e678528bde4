"""The parser: what may be typed, in which order, and what is said of what may not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments import help_page, parser
from upthread.surfaces.cli.arguments.parameters import Argument, Option, Parameter, parameters_of
from upthread.surfaces.cli.program import COMMON, OF_THE_PROGRAM, VERBS, verb_function


def verb(
    call: object,
    *,
    address: Annotated[str, Argument(metavar="ADDRESS")],
    text: Annotated[str | None, Argument(metavar="TEXT")] = None,
    agent: Annotated[str | None, Option("--agent", metavar="A")] = None,
    role: Annotated[list[str] | None, Option("--role", metavar="R")] = None,
    steps: Annotated[int | None, Option("--steps", metavar="N", minimum=1, maximum=9)] = None,
    grace: Annotated[float, Option("--grace", metavar="S", minimum=0)] = 1.0,
    keep: Annotated[Path | None, Option("--keep", metavar="DIR", help="100 % of it.")] = None,
    form: Annotated[Literal["md", "json"], Option("--format")] = "md",
    yes: Annotated[bool, Option("-y, --yes")] = False,
    line: Annotated[bool | None, Option("--status-line", help="Shown.")] = None,
) -> int:
    """Do it."""
    raise NotImplementedError


PARAMETERS = (*parameters_of(verb), *COMMON)


def typed(*words: str) -> dict[str, Any]:
    return parser.parsed_verb("verb", PARAMETERS, words)


def before(*words: str) -> tuple[dict[str, Any], str, list[str]]:
    return parser.parsed_line(OF_THE_PROGRAM, words)


@pytest.mark.parametrize(
    "words",
    [
        ("a/b", "hello", "--agent", "x", "-y"),
        ("--agent", "x", "a/b", "-y", "hello"),
        ("a/b", "--agent=x", "hello", "--yes"),
        ("-y", "a/b", "--agent", "x", "--", "hello"),
        ("-y", "--agent", "x", "--", "a/b", "hello"),
        ("--agent", "w", "a/b", "hello", "-y", "--agent", "x"),
    ],
)
def test_options_stand_anywhere_and_the_last_one_counts(words):
    assert typed(*words) == {"address": "a/b", "text": "hello", "agent": "x", "yes": True}


@pytest.mark.parametrize(
    "text", ["-x", "--json", "--", "-", "--agent=y", "-1", "", "- an item", "a\nb", "ä"]
)
def test_what_stands_after_two_dashes_is_taken_as_it_is(text):
    assert typed("--agent", "x", "a/b", "--", text) == {
        "address": "a/b",
        "text": text,
        "agent": "x",
    }


@pytest.mark.parametrize("text", ["-", "", "- an item of a list", "two words", "-5"])
def test_a_word_that_can_be_no_option_needs_no_dashes_before_it(text):
    assert typed("a/b", text)["text"] == text


def test_only_what_was_typed_is_there_so_that_the_verb_s_own_defaults_hold():
    assert typed("a/b") == {"address": "a/b"}


def test_values_are_of_their_kind():
    words = ("--steps", "3", "--grace", "0.5", "--keep", "x/y", "--format", "json")
    given = typed("a/b", *words, "--role", "p=fresh", "--role", "q=auto")
    assert given == {
        "address": "a/b",
        "steps": 3,
        "grace": 0.5,
        "keep": Path("x/y"),
        "form": "json",
        "role": ["p=fresh", "q=auto"],
    }


@pytest.mark.parametrize(
    ("words", "line"),
    [((), None), (("--status-line",), True), (("--no-status-line",), False)],
)
def test_a_flag_that_may_be_left_open_has_its_opposite(words, line):
    assert typed("a/b", *words).get("line") is line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "required: ADDRESS"),
        (("a/b", "x", "y"), "one word too many: 'y'"),
        (("a/b", "--", "x", "-y"), "one word too many: '-y'"),
        (("a/b", "--agnt", "x"), "No such option: --agnt. Did you mean '--agent'?"),
        (("a/b", "--agnt=x"), "No such option: --agnt. Did you mean '--agent'?"),
        (("a/b", "--wholly-other"), "No such option: --wholly-other"),
        (("a/b", "--age", "x"), "No such option: --age"),
        (("a/b", "-x"), "No such option: -x"),
        (("a/b", "--agent"), "--agent: expected one argument"),
        (("a/b", "--agent", "--yes"), "--agent: expected one argument"),
        (("a/b", "--yes=no"), "--yes: ignored explicit argument 'no'"),
        (("a/b", "--steps", "x"), "--steps: 'x' is no number"),
        (("a/b", "--steps", "0"), "--steps: 0 is less than 1"),
        (("a/b", "--steps", "10"), "--steps: 10 is more than 9"),
        (("a/b", "--grace", "nan"), "--grace: nan is less than 0"),
        (("a/b", "--format", "pdf"), "--format: invalid choice: 'pdf'"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error_that_says_what(words, said):
    with pytest.raises(UsageError) as error:
        typed(*words)
    assert said in error.value.message
    assert error.value.hint == "see upthread verb --help"


def test_options_of_every_verb_stand_before_it_or_after_it():
    assert before("--json", "-C", "x", "verb", "--agent", "--json") == (
        {"as_json": True, "entered": ["x"]},
        "verb",
        ["--agent", "--json"],
    )
    given = typed("a/b", "--json", "--db=x", "-Cy", "--directory", "z", "--project", "p")
    assert given == {
        "address": "a/b",
        "as_json": True,
        "database": "x",
        "entered": ["y", "z"],
        "project": "p",
    }


def test_dashes_before_or_after_the_verb_end_the_options_of_the_whole_line():
    for words in (("verb", "--", "a/b", "-x"), ("verb", "a/b", "--", "-x")):
        _, name, after = before(*words)
        assert (name, typed(*after)) == ("verb", {"address": "a/b", "text": "-x"})
    assert before("--", "verb")[1] == "verb"


def test_an_option_of_a_verb_is_none_of_the_program():
    with pytest.raises(UsageError, match="No such option: --agent"):
        before("--agent", "x", "tell", "a/b")


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_says_what_it_and_each_of_its_options_does(name):
    parameters = (*parameters_of(verb_function(name)), *COMMON)
    names = [each for parameter in parameters for each in parameter.names]
    assert len(names) == len(set(names))
    assert len(parameters) == len({each.name for each in parameters}), "one would take the other's"
    assert all(each.declared.help for each in parameters)
    assert help_page.summary(verb_function(name)).endswith(".")


def test_help_says_what_is_required_and_which_numbers_and_words_there_are():
    page = help_page.verb_page("verb", "Do it.", PARAMETERS, 80)
    assert page.startswith("Usage: upthread verb [OPTIONS] ADDRESS [TEXT]\n\nDo it.\n")
    for line in (
        "  --steps N            (1 to 9)",
        "  --grace S            (0 or more)",
        "  --keep DIR           100 % of it.",
        "  --format md|json",
        "  -y, --yes",
        "  --status-line, --no-status-line\n                       Shown.",
    ):
        assert line in page
    required = Parameter(
        name="into", declared=Option("--as", metavar="X"), kind=str, is_required=True
    )
    assert "[OPTIONS] --as X" in help_page.verb_page("verb", "", (required,), 80)
