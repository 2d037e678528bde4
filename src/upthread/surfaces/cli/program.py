"""The program `upthread`: arguments in, exit code out. The last place an error can reach.

A line names a verb, or asks for help. Only the verb that is called is imported, and only its
options are made; `--help` asks each verb for its first line. A verb imports what carries it out
when it is called: the light ones must not pay for the heavy ones.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from msgspec import Struct

from upthread import __version__
from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import Option, Parameter, parameters_of
from upthread.surfaces.cli.call import Call, enter_directory
from upthread.surfaces.cli.failures import failure_of, tell, tell_bug
from upthread.surfaces.cli.terminal.output import Output

STREAMS: Final = frozenset({"tell", "run", "search"})
ABOUT: Final = "Your agents pick up where they left off, and tell you when they can't."
PAGES: Final = {
    "docs/guide.md": "Ten minutes, from the first prompt on.",
    "docs/troubleshooting.md": "By what you see.",
}

SHELLS: Final = ("bash", "zsh", "fish")
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

DAILY: Final = {
    "tell": "talk.tell",
    "run": "talk.run",
    "answer": "talk.answer",
    "ls": "conversations.ls",
    "show": "conversations.show",
    "why": "conversations.why",
    "id": "conversations.upstream_id",
    "open": "conversations.open_session",
}
MORE: Final = {
    "search": "histories.search",
    "setup": "hooks.setup",
    "trust": "privacy.trust",
    "use": "hooks.use",
    "status": "hooks.status",
    "brief": "conversations.brief",
    "adopt": "conversations.adopt",
    "reset": "conversations.reset",
    "fork": "conversations.fork",
    "effects": "conversations.effects",
    "audit": "conversations.audit",
    "export": "conversations.export",
    "savings": "conversations.savings",
    "encrypt": "privacy.encrypt",
    "forget": "privacy.forget",
    "keep": "privacy.keep",
    "worktree": "talk.worktree",
    "agents": "histories.list_agents",
    "doctor": "histories.doctor",
    "repair": "histories.repair",
    "backup": "database.backup",
    "restore": "database.restore",
    "web": "hooks.web",
    "mcp": "hooks.mcp",
    "worker": "database.worker",
    "migrate": "database.migrate",
    "demo": "demo.demo",
}
VERBS: Final = {**DAILY, **MORE}
"""Where each verb is declared, in the order in which the help shows them."""

GONE: Final = {
    "drain": "hooks record at once: there is nothing left to take in",
    "salvage": "upthread restore FILE, or upthread adopt without a backup",
}
"""What took the place of verbs that were there."""

HELP: Final = Parameter(
    name="wants_help", declared=Option("-h, --help", help="Show this and end."), kind=bool
)
_JSON: Final = Parameter(
    name="as_json", declared=Option("--json", help="Print JSON, for programs."), kind=bool
)
COMMON: Final = (
    _JSON,
    Parameter(
        name="database",
        declared=Option(
            "--db", metavar="URL", help="Another database: a file path, or postgres://…"
        ),
        kind=str,
    ),
    Parameter(
        name="project",
        declared=Option(
            "--project", metavar="ID", help="Which project of a shared database this is."
        ),
        kind=str,
    ),
    Parameter(
        name="entered",
        declared=Option("-C, --directory", metavar="DIR", help="Work as if started in DIR."),
        kind=str,
        is_list=True,
    ),
    HELP,
)
"""What may stand before a verb and after it."""

_VERSION: Final = Parameter(
    name="wants_version", declared=Option("--version", help="Print the version."), kind=bool
)
_COMPLETION: Final = Parameter(
    name="shell",
    declared=Option("--show-completion", help="Print what lets a shell complete words."),
    kind=str,
    choices=SHELLS,
)
_ALL: Final = Parameter(
    name="wants_all",
    declared=Option("--all", help="Without a verb: every session, not the newest alone."),
    kind=bool,
)
OF_THE_PROGRAM: Final = (*COMMON[:-1], _ALL, _VERSION, _COMPLETION, HELP)


class Invocation(Struct, kw_only=True):
    """What is known of this run of the program so far; errors are told accordingly."""

    verb: str = ""
    is_json: bool = False
    output: Output | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for the next word; nothing is carried out
        from upthread.surfaces.cli.arguments.completion import complete

        verbs = {name: verb_function(name) for name in VERBS}
        complete(verbs, common=COMMON, of_the_program=OF_THE_PROGRAM)
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Before it is parsed: a line that cannot be parsed has to be answered as well.
    invocation = Invocation(is_json=_asks_for_json(given))
    try:
        code = run(given, invocation)
        # A disk that was full while lines were written is an error of the verb, not found at exit.
        _output(invocation).close()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # told, with its exit code
        code = _told(error, invocation)
    gc.freeze()
    return code


def tell_interrupted(error: KeyboardInterrupt) -> int:
    """Tell of a Ctrl-C that came before `main` could; returns the exit code."""
    return _told(error, Invocation(is_json=_asks_for_json(sys.argv[1:])))


def _told(error: BaseException, invocation: Invocation) -> int:
    output = _output(invocation)
    is_stream = invocation.verb in STREAMS
    failure = failure_of(error)
    if failure is None:
        return tell_bug(error, output, is_stream=is_stream)
    return tell(failure, output, is_stream=is_stream)


def _output(invocation: Invocation) -> Output:
    if invocation.output is None:
        invocation.output = Output(is_json=invocation.is_json)
    return invocation.output


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Even a line that cannot be parsed is answered in the form it asked for."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before


def run(words: Sequence[str], invocation: Invocation) -> int:
    """Carry out one line and return its exit code; `invocation` notes how it was called.

    Raises UsageError where the line cannot be read, and whatever its verb raises.
    """
    # Who only asks for help pays for no parser.
    if words and words[0] in HELP.names:
        return _show_program(invocation)
    from upthread.surfaces.cli.arguments.parser import parsed_line

    before, name, after = parsed_line(OF_THE_PROGRAM, words)
    if "wants_help" in before:
        return _show_program(invocation)
    if "wants_version" in before:
        return _show(f"upthread {__version__}\n", invocation)
    if "shell" in before:
        from upthread.surfaces.cli.arguments.completion import script

        return _show(script(before["shell"]), invocation)
    if not name:
        return _show_overview(before, invocation)
    if before.pop("wants_all", False):
        raise UsageError("--all is for upthread alone", hint=f"see upthread {name} --help")
    return _run_verb(name, before, after, invocation)


def _run_verb(
    name: str, before: Mapping[str, Any], after: Sequence[str], invocation: Invocation
) -> int:
    from upthread.surfaces.cli.arguments.parser import parsed_verb

    if name not in VERBS:
        from upthread.core.names import did_you_mean

        message = f"No such command {name!r}{did_you_mean(name, VERBS)}"
        hint = GONE.get(name, "see upthread --help")
        raise UsageError(message if name else "a verb is missing", hint=hint)
    verb = verb_function(name)
    parameters = (*parameters_of(verb), *COMMON)
    # Asked for before the words are read: what is wrong with them is why a person asks.
    if any(word in HELP.names for word in after):
        return _show_verb(name, parameters, invocation)
    given = parsed_verb(name, parameters, after)
    if given.pop("wants_help", False):  # as one letter of several
        return _show_verb(name, parameters, invocation)
    invocation.verb = name
    _load_decoders()
    return verb(_call(before, given, invocation), **given)


def _show_overview(before: Mapping[str, Any], invocation: Invocation) -> int:
    _load_decoders()
    from upthread.surfaces.cli.overview.verb import overview

    return overview(_call(before, {}, invocation), is_all=bool(before.get("wants_all")))


def _load_decoders() -> None:
    """Load msgspec, with what would interrupt it held back until it is there.

    Interrupted while it is loaded (0.22 on Python 3.11) it takes no notice, goes on half made, and
    ends the process with a segmentation fault when something is decoded.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        import_module("msgspec")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


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
    from upthread.surfaces.cli.arguments import help_page

    verbs = {
        title: [(name, help_page.summary(verb_function(name))) for name in names]
        for title, names in (("Every day", DAILY), ("More", MORE))
    }
    columns = _columns(invocation)
    sections = {**verbs, "To read": tuple(PAGES.items())}
    return _show(help_page.program_page(ABOUT, OF_THE_PROGRAM, sections, columns), invocation)


def _show_verb(name: str, parameters: Sequence[Parameter], invocation: Invocation) -> int:
    from upthread.surfaces.cli.arguments import help_page

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


def verb_function(name: str) -> Callable[..., int]:
    """Return the function of a verb that there is."""
    module, _, function = VERBS[name].partition(".")
    found = getattr(import_module(f"upthread.surfaces.cli.arguments.{module}"), function)
    return cast("Callable[..., int]", found)
