"""The program's command line, line by line: the verb it names, what it was given, or its help.

Only the verb that is called is imported, and only its options are made; `--help` asks each verb for
its first line. A verb imports what carries it out when it is called: the light ones must not pay
for the heavy ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from upthread import __version__
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call, enter_directory
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.typed.parameters import Parameter, parameters_of
from upthread.surfaces.cli.typed.verb_table import (
    COMMON,
    DAILY,
    HELP,
    MORE,
    OF_THE_PROGRAM,
    VERBS,
    verb_function,
)

STREAMS: Final = frozenset({"tell", "run"})
ABOUT: Final = "Your agents pick up where they left off, and tell you when they can't."


@dataclass(slots=True, kw_only=True)
class Invocation:
    """What is known of this run of the program so far; errors are told accordingly."""

    verb: str = ""
    is_json: bool = False
    output: Output | None = None


def run(words: Sequence[str], invocation: Invocation) -> int:
    """Carry out one line and return its exit code; `invocation` notes how it was called.

    Raises UsageError where the line cannot be read, and whatever its verb raises.
    """
    # Who only asks for help pays for no parser.
    if words and words[0] in HELP.names:
        return _show_program(invocation)
    from upthread.surfaces.cli.typed.parser import parsed_line

    before, name, after = parsed_line(OF_THE_PROGRAM, words)
    if "wants_help" in before:
        return _show_program(invocation)
    if "wants_version" in before:
        return _show(f"upthread {__version__}\n", invocation)
    if "shell" in before:
        from upthread.surfaces.cli.typed.completion import script

        return _show(script(before["shell"]), invocation)
    if not name:
        return _show_overview(before, invocation)
    if before.pop("wants_all", False):
        raise UsageError("--all is for upthread alone", hint=f"see upthread {name} --help")
    return _run_verb(name, before, after, invocation)


def _run_verb(
    name: str, before: Mapping[str, Any], after: Sequence[str], invocation: Invocation
) -> int:
    from upthread.surfaces.cli.typed.parser import did_you_mean, parsed_verb

    if name not in VERBS:
        message = f"No such command {name!r}{did_you_mean(name, VERBS)}"
        raise UsageError(message if name else "a verb is missing", hint="see upthread --help")
    verb = verb_function(name)
    parameters = (*parameters_of(verb), *COMMON)
    # Asked for before the words are read: what is wrong with them is why a person asks.
    if any(word in HELP.names for word in after):
        return _show_verb(name, parameters, invocation)
    given = parsed_verb(name, parameters, after)
    if given.pop("wants_help", False):  # as one letter of several
        return _show_verb(name, parameters, invocation)
    invocation.verb = name
    return verb(_call(before, given, invocation), **given)


def _show_overview(before: Mapping[str, Any], invocation: Invocation) -> int:
    from upthread.surfaces.cli.overview.verb import overview

    return overview(_call(before, {}, invocation), is_all=bool(before.get("wants_all")))


def _call(before: Mapping[str, Any], given: dict[str, Any], invocation: Invocation) -> Call:
    """Take what every verb is given out of what was typed, and carry it out."""
    invocation.is_json |= given.pop("as_json", False) or before.get("as_json", False)
    invocation.output = Output(is_json=invocation.is_json)
    # One after the other, as git does: the second is seen from the first.
    for directory in (*before.get("entered", ()), *given.pop("entered", ())):
        enter_directory(directory)
    return Call(
        output=invocation.output,
        database=given.pop("database", None) or before.get("database"),
        project=given.pop("project", None) or before.get("project"),
    )


def _show_program(invocation: Invocation) -> int:
    from upthread.surfaces.cli.typed import help_page

    verbs = {
        title: [(name, help_page.summary(verb_function(name))) for name in names]
        for title, names in (("Every day", DAILY), ("More", MORE))
    }
    columns = _columns(invocation)
    return _show(help_page.program_page(ABOUT, OF_THE_PROGRAM, verbs, columns), invocation)


def _show_verb(name: str, parameters: Sequence[Parameter], invocation: Invocation) -> int:
    from upthread.surfaces.cli.typed import help_page

    about = help_page.summary(verb_function(name))
    page = help_page.verb_page(name, about, parameters, _columns(invocation))
    return _show(page, invocation)


def _columns(invocation: Invocation) -> int | None:
    invocation.output = Output()
    return invocation.output.columns


def _show(text: str, invocation: Invocation) -> int:
    invocation.output = invocation.output or Output()
    invocation.output.document(text)
    return 0
