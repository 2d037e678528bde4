"""Completion in the shell, by argcomplete: verbs, options, and what the project has names for.

A shell that waits for a word must never see an error: whatever goes wrong completes to nothing. The
scripts that shells get paste names into words they evaluate (zsh), and split at signs of their own
(bash, at a colon): only names of which no shell makes anything else are offered. Roles and
workstreams may come from a repository, or from an agent.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from argcomplete import autocomplete
from argcomplete.completers import SuppressCompleter
from argcomplete.shell_integration import shellcode

from upthread.core.agents import AGENTS, WITH_A_STORE
from upthread.core.lazy_regex import regex
from upthread.surfaces.cli.arguments.help_page import summary
from upthread.surfaces.cli.arguments.parameters import Completed, Parameter, parameters_of
from upthread.surfaces.cli.arguments.parser import PROGRAM, Parser, add, parser_of
from upthread.surfaces.cli.call import Call, enter_directory
from upthread.surfaces.cli.terminal.output import Output

OFFERED_MAX: Final = 500

_PLAIN: Final = regex(r"[A-Za-z0-9][A-Za-z0-9_./-]*(?:~[0-9]+)?")
"""Names no shell looks into: no quote, blank, sign of expansion or colon."""


def script(shell: str) -> str:
    """Return what a shell is to read at its start, so that it asks us."""
    return shellcode([PROGRAM], shell=shell)


def complete(
    verbs: Mapping[str, Callable[..., int]],
    *,
    common: Sequence[Parameter],
    of_the_program: Sequence[Parameter],
) -> None:
    """Answer the shell that asks, and end the process.

    `common` are the parameters that all verbs take, `of_the_program` those that stand before one.
    """
    nothing = SuppressCompleter()  # else it would start a shell to list files
    # Options once a dash is typed: names are what is looked for.
    tree = _tree(verbs, common=common, of_the_program=of_the_program)
    autocomplete(tree, always_complete_options=False, default_completer=nothing)


def _tree(
    known: Mapping[str, Callable[..., int]],
    *,
    common: Sequence[Parameter],
    of_the_program: Sequence[Parameter],
) -> Parser:
    """The whole command line as one parser, which argcomplete finds its way through."""
    tree = parser_of(PROGRAM)
    _add_all(tree, of_the_program)
    verbs = tree.add_subparsers()
    for name, verb in known.items():
        parser = verbs.add_parser(name, help=summary(verb), add_help=False, allow_abbrev=False)
        _add_all(parser, (*parameters_of(verb), *common))
    return tree


def _add_all(parser: Parser, parameters: Iterable[Parameter]) -> None:
    for each in parameters:
        action = add(parser, each)
        if each.declared.completed:
            # How argcomplete is told; argparse knows nothing of it.
            vars(action)["completer"] = COMPLETERS[each.declared.completed]


def complete_workstream(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
    """Return the workstreams that begin like this."""
    return _offered((name for name, _ in _known(parsed_args)), prefix)


def complete_address(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
    """Return the addresses that begin like this, and the workstreams they are in."""
    known = _known(parsed_args)
    return _offered((name for pair in known for name in (pair[0], *pair[1])), prefix)


def complete_agent(prefix: str, **_: object) -> list[str]:
    """Return the agents that begin like this."""
    return _offered(AGENTS, prefix)


def complete_agent_with_setup(prefix: str, **_: object) -> list[str]:
    """Return the agents that can be set up, as `setup` calls them."""
    return _offered((each.setup_name for each in AGENTS.values()), prefix)


def complete_store(prefix: str, **_: object) -> list[str]:
    """Return the agents whose own store is read, and ours."""
    return _offered(("upthread", *WITH_A_STORE), prefix)


COMPLETERS: Final[Mapping[Completed, Callable[..., list[str]]]] = {
    "address": complete_address,
    "agent": complete_agent,
    "agent_with_setup": complete_agent_with_setup,
    "store": complete_store,
    "workstream": complete_workstream,
}


def _offered(names: Iterable[str], prefix: str) -> list[str]:
    # What a shell would make something of is not offered: completion scripts evaluate it (ADR 65).
    plain = (name for name in names if _PLAIN.fullmatch(name) and name.startswith(prefix))
    return list(plain)[:OFFERED_MAX]


def _known(typed: Namespace) -> list[tuple[str, list[str]]]:
    from upthread.client.project import Project

    async def use(project: Project) -> list[tuple[str, list[str]]]:
        return [
            (view.workstream.workstream, [role.conversation.key.address for role in view.roles])
            for view in await project.workstreams()
        ]

    try:
        return _call(vars(typed)).with_project(use)
    except Exception:  # noqa: BLE001  # a traceback would stand in the line that is being typed
        return []


def _call(typed: dict[str, Any]) -> Call:
    """The project that the line so far is about."""
    for directory in typed.get("entered", ()):
        enter_directory(directory)
    return Call(output=_Silent(), database=typed.get("database"), project=typed.get("project"))


class _Silent(Output):
    """Says nothing: what a project has to tell is told by the verb that comes after."""

    def note(self, text: str, style: str = "") -> None:
        """Leave it out."""
        del text, style
