"""The verbs, where each is declared, and the options that all of them take.

The first eight are the ones people use daily; the rest comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from upthread.surfaces.cli.typed.options import Option
from upthread.surfaces.cli.typed.parameters import Parameter

SHELLS: Final = ("bash", "zsh", "fish")

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
    "salvage": "database.salvage",
    "mcp": "hooks.mcp",
    "drain": "hooks.drain",
    "worker": "shared_database.worker",
    "migrate": "shared_database.migrate",
    "demo": "demo.demo",
}
VERBS: Final = {**DAILY, **MORE}
"""Where each verb is declared, in the order in which the help shows them."""

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


def verb_function(name: str) -> Callable[..., int]:
    """Return the function of a verb that there is."""
    module, _, function = VERBS[name].partition(".")
    found = getattr(import_module(f"upthread.surfaces.cli.typed.{module}"), function)
    return cast("Callable[..., int]", found)
