"""Roles: of each that is found here and says nothing of its continuity, a person is asked.

The answers stand in the project's `upthread.toml`, where anybody can read and change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, get_args

from upthread.config import PROJECT_FILE, Settings, read_config
from upthread.core.decision.handshake import Continuity
from upthread.core.names import did_you_mean
from upthread.core.roles.role import BUILT_IN_ROLES, Role
from upthread.errors import ConfigError, UsageError
from upthread.role_files import roles_of_agent
from upthread.surfaces.cli.setup.changes import Change, block_of, read_file, with_block

CONTINUITIES: Final[tuple[str, ...]] = get_args(Continuity)
USUAL: Final = "resume"
"""What is offered for a role whose file says nothing: to continue is what people set up for."""


def undecided(settings: Settings, before: bytes | None) -> tuple[str, ...]:
    """Return the roles of this project's own files of which nothing was said yet."""
    tables = read_config(before or b"", source=PROJECT_FILE).roles
    said = {name for name, table in tables.items() if table.continuity is not None}
    return tuple(
        name
        for name, role in sorted(settings.native_roles.items())
        # A shipped role has its continuity from us: a person is asked of their own alone.
        if role.continuity == "auto" and name not in said and Path(role.source).is_file()
    )


def continued(
    settings: Settings, agent: str, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the roles that an agent's calls continue here, and why its other roles are not.

    They are the roles in its own files, and those that a person turned on.
    """
    tree = Path(settings.working_directory)
    found = [role for _, role in roles_of_agent(agent, tree, environment)]
    named = {role.name for role in found if isinstance(role, Role)} - BUILT_IN_ROLES
    kept = settings.continued_roles
    named |= BUILT_IN_ROLES & kept.keys()
    is_on = (name for name in named if name not in settings.native_roles or name in kept)
    names = (n for n in is_on if n not in kept or kept[n].continuity != "fresh")
    unusable = (str(e) for e in found if isinstance(e, ConfigError) and "role" in e.ids)
    return tuple(sorted(names)), tuple(unusable)


def parsed(said: Iterable[str]) -> Mapping[str, str]:
    """Return what `--role NAME=HOW` said, by role. Raises UsageError."""
    found: dict[str, str] = {}
    for each in said:
        name, equals, how = each.partition("=")
        if not equals or how not in CONTINUITIES:
            choices = ", ".join(CONTINUITIES)
            raise UsageError(f"--role {each!r} says nothing", hint=f"NAME=HOW, of: {choices}")
        found[name] = how
    return found


def changes(
    settings: Settings, said: Mapping[str, str], ask: Callable[[str], str]
) -> tuple[Change, ...]:
    """Return what is to be written of roles: what was said of each, else what `ask` answers."""
    path = Path(settings.working_directory) / PROJECT_FILE
    before = read_file(path)
    # The agents' own general roles are left alone until a person turns one on.
    unknown = sorted(set(said) - set(settings.native_roles) - BUILT_IN_ROLES)
    if unknown:
        known = ", ".join(sorted(settings.native_roles))
        like = did_you_mean(unknown[0], settings.native_roles)
        raise UsageError(f"there is no role {unknown[0]!r}{like}", hint=f"known roles: {known}")
    asked = [name for name in undecided(settings, before) if name not in said]
    told = {**{name: ask(name) for name in asked}, **said}
    if not told:
        return ()
    # All that our block said before: it is written anew as a whole.
    earlier = read_config(block_of(before or b""), source=PROJECT_FILE).roles
    whole = {**{name: str(table.continuity) for name, table in earlier.items()}, **told}
    lines = [line for name, how in sorted(whole.items()) for line in _table(name, how)]
    after = with_block(path, before, tuple(lines))
    what = f"the continuity of {', '.join(sorted(told))}"
    return (Change(path=path, before=before, after=after, what=what),)


def _table(name: str, how: str) -> tuple[str, str]:
    return f"[roles.{name}]", f'continuity = "{how}"'
