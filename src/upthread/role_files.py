"""The files of a repository with instructions: for roles, and for an agent itself (CLAUDE.md).

No file is read twice, because it could be another one the second time: the text that was judged is
the text that is sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from upthread.boundary import files as opener
from upthread.boundary.consents import Consents, as_known
from upthread.boundary.own_home import agents_home
from upthread.core.agents import AGENTS
from upthread.core.config_file import ConfigFile
from upthread.core.names import shown
from upthread.core.roles.fields import CLAUDE_CODE, CODEX, OPENCODE
from upthread.core.roles.limits import RoleLimits, joined
from upthread.core.roles.role import (
    Role,
    overlaid,
    read_markdown_role,
    read_toml_role,
    without_model,
)
from upthread.core.trust import PROJECT_SETTINGS, Item, may_only_read, own_leaves, role_file_item
from upthread.errors import ConfigError

_DEFAULTS: Final = Path(__file__).parent / "defaults"
ROLE_FOLDERS: Final[Mapping[str, str]] = {
    ".claude/agents": CLAUDE_CODE,
    ".opencode/agent": OPENCODE,
    ".opencode/agents": OPENCODE,
    "agents": "",
    ".codex/agents": CODEX,
}
"""Where role files are, and whose. An agent gets its own file, else the last of these."""
PERSONAL_FILES: Final = {CLAUDE_CODE: ".md", CODEX: ".toml", OPENCODE: ".md"}
"""What an agent's own role files end with."""

_ROLE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
FILE_BYTES_MAX = 1024 * 1024
FOLDER_NAMES_MAX = 5_000
"""Of a folder of roles; one with more is no folder of roles."""


def read_text_file(path: Path, *, tree: Path | None = None) -> str:
    """Return a file's text; raises ConfigError for one that is too large or no text.

    With a `tree` it is a repository's file: what a link leads to has to be in there.
    """
    try:
        if tree is None:
            descriptor = opener.through_links(str(path))
        else:
            descriptor = opener.within(str(tree), str(path.relative_to(tree)))
        raw = opener.read_all(descriptor, str(path), bytes_max=FILE_BYTES_MAX)
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}", hint="convert it") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigError:
    cure = error.cure if isinstance(error, opener.FileRefusedError) else ""
    return ConfigError(f"{path} cannot be read: {error.strerror}", hint=cure)


class Roles(Struct, frozen=True):
    """The roles as upthread sends them, as the agents find them, and those nobody can use.

    `of_agents` are by agent those of its own files; `limits` are what all files of a name limit.
    """

    sent: dict[str, Role]
    native: dict[str, Role]
    of_agents: dict[str, dict[str, Role]]
    limits: dict[str, list[RoleLimits]]
    faults: dict[str, ConfigError]


def roles_of(
    working_directory: Path,
    own: Sequence[tuple[str, ConfigFile]],
    theirs: Sequence[tuple[str, ConfigFile]],
    consents: Consents,
    trusted: Collection[str],
) -> Roles:
    """Return the roles of a directory, over those that are shipped.

    A file that is broken raises nothing: it is in `faults`, for whoever uses that role.
    """
    shipped = _shipped_roles()
    found = Roles(sent=dict(shipped), native=dict(shipped), of_agents={}, limits={}, faults={})
    _add_role_files(found, working_directory, [each for _, each in own], consents, trusted)
    for roles in (found.sent, *found.of_agents.values()):
        _limit_all(roles, found.limits)
    for _, config in (*own, *theirs):
        for name, overlay in config.roles.items():
            for roles in (found.sent, found.native):
                roles[name] = overlaid(roles.get(name, Role(name=name)), overlay)
            for roles in found.of_agents.values():
                if name in roles:
                    roles[name] = overlaid(roles[name], overlay)
    consents.tell_instead(lambda item: _stand_in(found, item))
    return found


def _shipped_roles() -> Mapping[str, Role]:
    files = (_DEFAULTS / "roles").iterdir()
    return {
        stem: read_markdown_role(
            file.read_text(encoding="utf-8"), file_stem=stem, source=f"shipped {file.name}"
        )
        for file in sorted(files, key=lambda each: each.name)
        if (stem := file.name.removesuffix(".md"))
    }


def _add_role_files(
    found: Roles,
    working_directory: Path,
    own: Sequence[ConfigFile],
    consents: Consents,
    trusted: Collection[str],
) -> None:
    """What is judged is the text that was read, and it is what is sent: no file is read twice."""
    hidden: dict[str, ConfigError] = {}
    is_reading = may_only_read(own_leaves(own))
    for folder, agent in ROLE_FOLDERS.items():
        try:
            paths = role_file_paths(working_directory, folder)
        except ConfigError as error:
            hidden |= dict.fromkeys(found.sent, error)  # it may hold any of them, in place of ours
            continue
        for path in paths:
            try:
                text = read_text_file(path, tree=working_directory)
                role = _read_role(path, text)
            except ConfigError as error:
                found.faults[path.stem.lower()] = error
                continue
            found.native[role.name] = role
            name = as_known(path.relative_to(working_directory))
            item = role_file_item(name, text, role=role.name)
            # A model costs something, whatever may be done with it.
            is_asked = not is_reading or bool(role.limits.model)
            is_agreed = not is_asked or agent in trusted or consents.cover(item)
            if not is_agreed:
                role = without_model(role)
            found.limits.setdefault(role.name, []).append(role.limits)
            if not is_agreed and not is_reading:
                continue
            found.sent[role.name] = role
            if agent:
                found.of_agents.setdefault(agent, {})[role.name] = role
            hidden.pop(role.name, None)
    found.faults.update({name: e for name, e in hidden.items() if name not in found.faults})


def _limit_all(roles: dict[str, Role], limits: Mapping[str, Sequence[RoleLimits]]) -> None:
    """Hold each role to the limits of all files of its name, also of those nobody agreed to."""
    for name in roles.keys() & limits.keys():
        own = roles[name].limits
        others = [each for each in limits[name] if each.held != own.held]
        held = joined((*others, own))
        held = structs.replace(held, model=own.model, model_of=own.model_of)
        roles[name] = structs.replace(roles[name], limits=held)


def _stand_in(found: Roles, item: Item) -> str:
    """Return what is used in the place of instructions nobody agreed to; else it is a fault."""
    if item.name.endswith(PROJECT_SETTINGS):
        return "it is driven without them"
    if not item.role or not (item.kind == "role" or item.name.endswith(".instructions")):
        return ""
    standing = found.sent.setdefault(item.role, Role(name=item.role))
    if standing.source.endswith(f"{os.sep}{item.name}"):
        return "it is used without its model"
    if standing.instructions:
        return f"{standing.source or 'your own'} is used"
    found.faults[item.role] = ConfigError(
        f"the role {item.role} is in {shown(item.name)}, and you have not agreed to it",
        hint="look at it and agree: upthread trust",
        role=item.role,
    )
    return ""


def role_file_paths(working_directory: Path, folder: str) -> list[Path]:
    """Return the role files of one folder; raises ConfigError where it may not be looked into."""
    place = working_directory / folder
    try:
        names = opener.names_within(str(working_directory), folder, names_max=FOLDER_NAMES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(place, error) from error
    return sorted(place / name for name in names if Path(name).suffix in {".md", ".toml"})


def _read_role(path: Path, text: str) -> Role:
    read = read_toml_role if path.suffix == ".toml" else read_markdown_role
    return read(text, file_stem=path.stem, source=str(path))


def personal_role(agent: str, name: str, environment: Mapping[str, str]) -> Role | None:
    """Return a role of the person's own that an agent finds by its name, None without one.

    A file that cannot be read counts with its file's name alone: the agent loads it itself.
    """
    if not _ROLE_NAME.fullmatch(name):
        return None
    unread: Role | None = None
    for path, found in roles_of_agent(agent, None, environment, name):
        if isinstance(found, Role) and found.name == name:
            return found
        if isinstance(found, ConfigError) and not found.ids and path.stem.lower() == name:
            unread = Role(name=name, source=str(path))
    return unread


def unusable_role(
    agent: str, name: str, tree: Path, environment: Mapping[str, str]
) -> ConfigError | None:
    """Return why no address can have the name of an agent's role, None for any other name."""
    if not name or _ROLE_NAME.fullmatch(name):
        return None
    named = (found for _, found in roles_of_agent(agent, tree, environment, name))
    faults = (found for found in named if isinstance(found, ConfigError))
    return next((each for each in faults if each.ids.get("role", "").lower() == name), None)


def roles_of_agent(
    agent: str, tree: Path | None, environment: Mapping[str, str], name: str = ""
) -> Iterator[tuple[Path, Role | ConfigError]]:
    """Yield the files in which an agent finds its roles: a project's, then the person's own.

    A ConfigError names a `role` if only its name is at fault. With a `name` the files are left out
    that cannot have it, because a person may have hundreds.
    """
    for path, within in _role_files(agent, tree, environment):
        try:
            text = read_text_file(path, tree=within)
            # A name may be written with escapes, for example "r\u00e9viseur".
            if name and name not in f"{path.stem}\n{text}".lower() and "\\" not in text:
                continue
            yield path, _read_role(path, text)
        except ConfigError as error:
            yield path, error


def _role_files(
    agent: str, tree: Path | None, environment: Mapping[str, str]
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each role file of an agent, with the tree that a repository's file must be in."""
    ending = PERSONAL_FILES.get(agent, "")
    for folder in (each for each, whose in ROLE_FOLDERS.items() if tree and whose == agent):
        with suppress(ConfigError):  # upthread uses none of these roles, and says so elsewhere
            paths = role_file_paths(tree, folder) if tree else []
            yield from ((path, tree) for path in paths if path.suffix == ending)
    for place in _personal_folders(agent, environment):
        yield from ((path, None) for path in sorted(place.glob(f"*{ending}"))[:FOLDER_NAMES_MAX])


def _personal_folders(agent: str, environment: Mapping[str, str]) -> list[Path]:
    home = agents_home(environment)
    if agent == OPENCODE:
        folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        return [folder / "agent", folder / "agents"]
    own = AGENTS[agent].home if agent in PERSONAL_FILES else None
    return [Path(environment.get(own.variable) or home / own.below) / "agents"] if own else []


def instructions_in(place: str, agent: str) -> tuple[str, str]:
    """Return the name and the text of a directory's instructions for an agent; empty for none.

    For example ("AGENTS.md", "Use tabs.") for OpenCode. If the file cannot be read, the text is the
    reason, so that the agent does not work on as if there were no file.
    """
    for name in AGENTS[agent].project_instructions if agent in AGENTS else ():
        if os.path.lexists(path := Path(place, name)):
            try:
                return name, read_text_file(path, tree=Path(place))
            except ConfigError as error:
                return name, error.message
    return "", ""
