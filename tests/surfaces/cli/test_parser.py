"""The parser: what may be typed, in which order, and what is said of what may not."""

from pathlib import Path
from typing import Any

import click
import pytest

from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.program import VERBS, main
from upthread.surfaces.cli.terminal.output import Output

GIVEN: dict[str, Any] = {}


@options.verb
@click.argument("address", metavar="ADDRESS", help="Whom.")
@click.argument("text", metavar="[TEXT]", required=False, help="What.")
@click.option("--agent", metavar="A", help="By whom.")
@click.option("--steps", type=click.IntRange(1, 9), metavar="N", help="How many.")
@click.option("--format", "form", type=click.Choice(["md", "json"]), default="md", help="How.")
@options.yes
def verb(call: Call, **given: Any) -> int:
    """Do it."""
    usual = {"form": "md"}
    GIVEN.clear()
    GIVEN.update({name: v for name, v in given.items() if v is not None and v != usual.get(name)})
    GIVEN["call"] = call
    return 0


def typed(*words: str) -> dict[str, Any]:
    with verb.make_context("verb", [*words], obj=Call(output=Output())) as context:
        assert verb.invoke(context) == 0
    call = GIVEN.pop("call")
    for name in ("database", "project", "is_yes"):
        if getattr(call, name):
            GIVEN[name] = getattr(call, name)
    return dict(GIVEN)


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
    assert typed(*words) == {"address": "a/b", "text": "hello", "agent": "x", "is_yes": True}


@pytest.mark.parametrize(
    "text", ["-x", "--json", "--", "-", "--agent=y", "-1", "", "- an item", "a\nb", "ä"]
)
def test_what_stands_after_two_dashes_is_taken_as_it_is(text):
    assert typed("--agent", "x", "a/b", "--", text) == {
        "address": "a/b",
        "text": text,
        "agent": "x",
    }


@pytest.mark.parametrize(
    "text", ["-", "", "- an item of a list", "two words", "-5 degrees", "--- a/x\n+++ b/x", "-\nx"]
)
def test_a_text_that_can_be_no_option_needs_no_dashes_before_it(text):
    assert typed("a/b", text, "-y") == {"address": "a/b", "text": text, "is_yes": True}


def test_a_text_and_what_stands_after_two_dashes_keep_their_order():
    assert typed("- a", "--", "-b") == {"address": "- a", "text": "-b"}


def test_an_option_takes_a_text_that_begins_with_a_dash():
    assert typed("a/b", "--agent", "- x y") == {"address": "a/b", "agent": "- x y"}
    assert typed("a/b", "--agent=- x y") == {"address": "a/b", "agent": "- x y"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument 'ADDRESS'"),
        (("a/b", "x", "y"), "unexpected extra argument (y)"),
        (("a/b", "--", "x", "-y"), "unexpected extra argument (-y)"),
        (("a/b", "--agnt", "x"), "No such option '--agnt'."),
        (("a/b", "--age", "x"), "No such option '--age'"),
        (("a/b", "-x"), "No such option '-x'"),
        (("a/b", "--agent"), "Option '--agent' requires an argument"),
        (("a/b", "--agent", "--yes"), "Option '--agent' requires an argument"),
        (("a/b", "--agent", "-y"), "Option '--agent' requires an argument"),
        (("a/b", "--db", "--json"), "Option '--db' requires an argument"),
        (("a/b", "--db=--json"), "'--json' looks like an option"),
        (("a/b", "--yes=no"), "Option '--yes' does not take a value"),
        (("a/b", "--steps", "0"), "'--steps': 0 is not in the range"),
        (("a/b", "--format", "pdf"), "'--format': 'pdf' is not one of"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_what(words, said):
    with pytest.raises(click.UsageError) as error:
        typed(*words)
    assert said in error.value.format_message()


def test_an_error_names_where_the_right_words_are(shared):
    assert shared("tell", "--wholly-other", code=2).err == (
        "error: No such option '--wholly-other'. (see upthread tell --help)\n"
    )
    assert shared("--agent", "x", "tell", "a/b", code=2).err.startswith(
        "error: No such option '--agent'."
    )
    assert "(see upthread ls --help)" in shared("--all", "ls", code=2).err
    told = shared("--db", "--json", "ls", code=2).json
    assert told["error"]["kind"] == "usage"


def test_options_of_every_verb_stand_before_it_or_after_it(shared):
    told = shared("ls", "--json").json
    for words in (("--json", "ls"), ("--json", "ls", "--json"), ("--", "ls", "--json")):
        assert shared(*words).json == told
    assert typed("a/b", "--db=x", "--project", "p") == {
        "address": "a/b",
        "database": "x",
        "project": "p",
    }


def test_every_listed_verb_has_its_file():
    files = {path.stem for path in Path(options.__file__).parent.joinpath("verbs").glob("*.py")}
    assert files - {"__init__"} == VERBS.keys()


def test_a_bad_directory_is_an_error(capsys):
    assert main(["-C", "/there/is/none", "ls"]) == 2
    assert "cannot enter '/there/is/none'" in capsys.readouterr().err
