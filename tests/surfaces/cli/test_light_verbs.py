"""Help is quick and complete: it is shown before anything is opened, or a verb is loaded."""

import re
import subprocess
import sys

import pytest

from upthread.surfaces.cli.program import ALIASES, GONE, LISTED, VERBS, load_verb

LISTING = """
import sys
sys.argv = ["upthread", *{arguments!r}]
from upthread.__main__ import main
code = main()
sys.stderr.write("\\n".join(["", "loaded:", *sys.modules]))
sys.exit(code)
"""
NEVER = {
    *("acp", "mcp", "rich", "prompt_toolkit", "psycopg", "pydantic", "yaml", "apsw", "anyio"),
    *("upthread.surfaces.cli.verbs.tell", "upthread.agents.acp"),
}


@pytest.mark.soak
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("help", "--all")])
def test_help_loads_no_store_no_agent_and_no_framework(shared, arguments):
    child = subprocess.run(
        [sys.executable, "-c", LISTING.format(arguments=arguments)],
        cwd=shared.directory,
        env=shared.environment,
        capture_output=True,
        timeout=60,
        text=True,
        check=True,
    )
    loaded = set(child.stderr.partition("loaded:\n")[2].split("\n"))
    assert "upthread.surfaces.cli.program" in loaded
    assert not loaded & NEVER


def test_help_lists_twelve_verbs_and_all_on_request(shared):
    text, everything = shared("--help").out, shared("help", "--all").out

    assert re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE) == [*LISTED]
    assert len(LISTED) == 12
    assert re.findall(r"^  ([a-z]+)  ", everything, re.MULTILINE) == [*VERBS, *ALIASES]
    for page in (text, everything):
        assert "\x1b" not in page
        assert max(map(len, page.splitlines())) <= 80
    assert shared("-h").out == shared("help").out == text
    assert shared("--version").out.startswith("upthread ")
    assert shared("demo", "--help").out.count("--keep") == 1
    assert shared("help", "demo").out == shared("demo", "--help").out


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_says_what_it_and_each_of_its_options_does(name):
    verb = load_verb(name)
    names = [each for parameter in verb.params for each in parameter.opts]
    assert len(names) == len(set(names))
    assert len(verb.params) == len({each.name for each in verb.params})
    assert all(each.help for each in verb.params)
    assert verb.help.partition("\n")[0].endswith(".")
    assert VERBS[name].endswith(".")


@pytest.mark.parametrize("name", GONE)
def test_a_verb_that_was_removed_names_what_replaced_it(shared, name):
    assert GONE[name] in shared(name, "x", code=2).err


def test_help_is_shown_whatever_else_the_line_holds(shared):
    page = shared("tell", "--help").out
    assert page.startswith("Usage: upthread tell [OPTIONS] ADDRESS [TEXT]\n")
    for words in (("tell", "-h"), ("tell", "--nonsense", "--help"), ("--json", "tell", "x", "-h")):
        assert shared(*words).out == page
    assert shared("reset", "a/b", "-yh").out.startswith("Usage: upthread reset ")


def test_the_second_directory_is_seen_from_the_first(shared):
    above, own = str(shared.directory.parent), shared.directory.name
    told = shared("-C", above, "ls", "-C", own, "--json").json
    assert told == shared("ls", "--json").json
