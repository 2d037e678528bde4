"""Configuration: files in, one frozen settings value out.

Three layers, later ones win table by table: what upthread ships, the user's `config.toml`, the
project's `upthread.toml`. Roles come from the files agents already have; a role file that is broken
is an error only for whoever uses that role. What a repository says counts as far as core/trust.py
lets it, and boundary/consents.py knows of a person's consent. Nothing here writes.
"""

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.agent_stores.homes import settings_of
from upthread.boundary import files as opener
from upthread.boundary.consents import (
    Consents,
    as_known,
    consents_path,
    held_by_project,
    is_trusted_in,
    trusted_agents,
)
from upthread.boundary.own_files import configuration_path, home_directory
from upthread.core.agents import AGENTS
from upthread.core.decision.model import USUAL_LIMITS, Limits
from upthread.core.names import did_you_mean, shown
from upthread.core.roles.limits import RoleLimits, joined
from upthread.core.roles.role import (
    BUILT_IN_ROLES,
    CLAUDE_CODE,
    CODEX,
    OPENCODE,
    Role,
    overlaid,
    read_markdown_role,
    read_toml,
    read_toml_role,
    without_model,
)
from upthread.core.runs.pipeline import Pipeline, check_pipeline
from upthread.core.trust import (
    PROJECT_SETTINGS,
    USUAL_RECORD,
    AgentSettings,
    ConfigFile,
    DurabilityPolicy,
    FreshnessTable,
    Item,
    Keep,
    Pending,
    PermissionWord,
    Redaction,
    as_one,
    judge,
    may_only_read,
    own_leaves,
    role_file_item,
)
from upthread.core.types import Environment, RecordMode, ready
from upthread.errors import ConfigError, NotFoundError

PROJECT_FILE = "upthread.toml"
_DEFAULTS = Path(__file__).parent / "defaults"
_USUAL_AGENT = AgentSettings()


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of one project, resolved.

    `critical` are globs of files that make a session stale alone; `window_tokens` is the window of
    models whose agent does not tell it.
    `roles` are what upthread sends, and `agents_roles` what it sends to one agent in their place,
    by the agent's name; `native_roles` what the agents themselves find, which hooks go by.
    `role_faults` are why a role cannot be used, by the name it would have: its file could not be
    read, or nobody agreed to it yet.
    `own_agent` is the agent that the person's own files say, `agent` the repository's over it.
    `trusted` are the agents of whose project settings a person trusts this directory's.
    `pending` is what the repository, known by `repository`, says and does not count.
    `stamps` tell of each path that was looked into, before it was, by what it is known to have
    changed since; empty for what was not there.
    `encryption_key` says where the database's key is, None: it is not encrypted. See
    client/stores.py.
    """

    working_directory: str
    home: str
    database: str
    agent: str | None
    durability: DurabilityPolicy
    depth_max: int
    start_timeout_s: float
    prompt_timeout_s: float
    pipeline: Pipeline
    limits: Limits
    critical: tuple[str, ...]
    handover: bool
    models_answer: bool
    encryption_key: str | None
    window_tokens: int | None
    own_agent: str | None
    repository: str
    trusted: frozenset[str]
    pending: tuple[Pending, ...]
    stamps: Mapping[str, str]
    roles: Mapping[str, Role]
    agents_roles: Mapping[str, Mapping[str, Role]]
    native_roles: Mapping[str, Role]
    role_faults: Mapping[str, ConfigError]
    agents: Mapping[str, AgentSettings]
    permissions: Mapping[str, PermissionWord]
    record: RecordMode
    redaction: Redaction
    keep: Keep
    outward_patterns: tuple[str, ...]

    def of_agent(self, name: str) -> AgentSettings:
        """Return what is configured for an agent, the defaults if nothing is."""
        return self.agents.get(name, _USUAL_AGENT)

    @property
    def continued_roles(self) -> Mapping[str, Role]:
        """The roles that hooks go on with: the agents' own only if they are configured."""
        return {
            name: role
            for name, role in self.native_roles.items()
            if role.name not in BUILT_IN_ROLES or role.continuity != "fresh"
        }

    @property
    def alike(self) -> Mapping[str, frozenset[str]]:
        """By role the digests of its configuration as upthread sends it, and as agents find it."""
        every = (self.roles, self.native_roles, *self.agents_roles.values())
        return {
            name: frozenset(roles[name].configuration for roles in every if name in roles)
            for name in self.roles
        }

    def trusts(self, agent: str, place: str, environment: Environment) -> bool:
        """Return whether an agent may go by what a directory of the project says to it. Blocking.

        If the directory holds no settings, there is nothing to trust, except for an agent that also
        goes by those of the directories below.
        """
        # What is driven over ACP by a name of its own may be OpenCode, which lets us say so.
        known = agent if agent in AGENTS else OPENCODE
        if known in self.trusted or held_by_project(known, place, environment):
            return known in self.trusted
        if not AGENTS[known].goes_by_settings_below:
            return True
        where = {**environment, **self.of_agent(known).environment}
        return is_trusted_in(known, (place, self.repository), where)

    def leaving_out(self, environment: Environment) -> tuple[str, ...]:
        """Return the agents that leave the project's settings out by themselves. Blocking."""
        rows = (row for row in AGENTS.values() if row.heeds_trust and row.name not in self.trusted)
        place = self.working_directory
        return tuple(row.name for row in rows if held_by_project(row.name, place, environment))

    def role(self, name: str, agent: str = "") -> Role:
        """Return a role, as the files of an agent have it where they do.

        Raises ConfigError if its file is broken, NotFoundError if it has none.
        """
        if name in self.role_faults:
            raise self.role_faults[name]
        if name not in self.roles:
            known = ", ".join(sorted(self.roles))
            raise NotFoundError(
                f"there is no role {shown(name)}{did_you_mean(name, self.roles)}",
                hint=f"known roles: {known}; or add [roles.{name}] to {PROJECT_FILE}",
                role=name,
            )
        # `claude-code-acp` is Claude Code as well.
        own = (roles for of, roles in self.agents_roles.items() if agent.startswith(of))
        return next((roles[name] for roles in own if name in roles), self.roles[name])


def load_settings(
    working_directory: Path,
    *,
    environment: Environment,
    database: str | None = None,
    repository: str | None = None,
) -> Settings:
    """Read all layers. Raises ConfigError that names the file and the place in it.

    `repository` is the path consents are known by, None for the directory's own: all working trees
    of a repository have the main one's.
    """
    home = home_directory(environment)
    stamps = _stamps(working_directory, environment, home)  # before anything is read
    user, project = _user_path(environment), working_directory / PROJECT_FILE
    shipped = (_DEFAULTS / "upthread.toml").read_bytes()
    own = [read_config(shipped, source="the shipped defaults"), *_file(user)]
    consents = Consents(home, repository or str(working_directory.resolve()))
    theirs = tuple(_project_file(project, own, consents))
    files = [*own, *theirs]
    said = as_one(files)
    agents = _agents(files)
    trusted = frozenset(trusted_agents(working_directory, environment, agents, consents))
    roles = roles_of(working_directory, own, theirs, consents, trusted)
    assert said.pipeline is not None, "the shipped file has one"
    _check(said.pipeline, roles.sent, project if theirs else user)
    return Settings(
        working_directory=str(working_directory),
        home=str(home),
        stamps=stamps,
        database=database or environment.get("UPTHREAD_DB") or str(home / "upthread.db"),
        agent=said.agent,
        own_agent=as_one(own).agent,
        durability=said.durability or "default",
        depth_max=said.depth_max or 1,
        start_timeout_s=said.start_timeout_s or 90.0,
        prompt_timeout_s=said.prompt_timeout_s or 3600.0,
        pipeline=said.pipeline,
        limits=_limits(said.freshness),
        critical=said.freshness.critical or (),
        handover=bool(said.handover),
        # A repository's word for these two is refused.
        encryption_key=said.encryption_key,
        models_answer=bool(said.mcp.answers),
        window_tokens=said.freshness.window_tokens,
        repository=consents.repository,
        trusted=trusted,
        pending=consents.pending,
        roles=roles.sent,
        agents_roles=roles.of_agents,
        native_roles=roles.native,
        role_faults=roles.faults,
        agents=agents,
        permissions=said.permissions,
        record=said.record or USUAL_RECORD,
        redaction=Redaction(
            rules=said.redaction.rules,
            allow=tuple(value for file in files for value in file.redaction.allow),
        ),
        keep=Keep(
            content_days=_least(file.keep.content_days for file in files),
            stderr_days=_least(file.keep.stderr_days for file in files),
        ),
        outward_patterns=tuple(pattern for file in files for pattern in file.effects.outward),
    )


def read_config(raw: bytes, *, source: str) -> ConfigFile:
    """Return one configuration file's content; raises ConfigError with the place of the fault."""
    try:
        said = read_toml(raw.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}", hint="mend the file") from error
    try:
        return msgspec.convert(said, ready(ConfigFile))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}", hint="see docs/configuration.md") from error


def _stamps(working_directory: Path, environment: Environment, home: Path) -> dict[str, str]:
    """Return all that is looked into for settings, also what is not there, with its stamp."""
    folders = [working_directory / folder for folder in ROLE_FOLDERS]
    own = [_user_path(environment), consents_path(home)]
    paths = [*own, working_directory / PROJECT_FILE, *folders]
    for folder in ROLE_FOLDERS:
        with contextlib.suppress(ConfigError):  # it is told where the roles are read
            paths += role_file_paths(working_directory, folder)
    return {str(path): opener.stamp_of(str(path)) for path in paths}


def _user_path(environment: Environment) -> Path:
    return Path(configuration_path(environment), "config.toml")


def _project_file(
    path: Path, own: Sequence[ConfigFile], consents: Consents
) -> Iterator[ConfigFile]:
    """The repository's file as far as it counts; what else it says is pending."""
    for config in _file(path, tree=path.parent):
        if config.encryption_key is not None:
            raise ConfigError(
                f"{path}: encryption_key is not a repository's to say",
                hint="write it into your own config.toml",
            )
        if config.mcp.answers:
            raise ConfigError(
                f"{path}: whether models may answer is not a repository's to say",
                hint="write [mcp] answers into your own config.toml",
            )
        judged = judge(own, config)
        yield judged.file([item for item, _ in judged.items if consents.cover(item)])


def _file(path: Path, *, tree: Path | None = None) -> Iterator[ConfigFile]:
    if os.path.lexists(path):
        yield read_config(read_text_file(path, tree=tree).encode(), source=str(path))


def _agents(files: Sequence[ConfigFile]) -> Mapping[str, AgentSettings]:
    """Return the agents; a table without a command leaves the one that stands its command."""
    agents: dict[str, AgentSettings] = {}
    for config in files:
        for name, table in config.agents.items():
            # With the person's home for a `~/` at the beginning, as a shell has it.
            environment = {
                variable: str(Path(value).expanduser()) if value.startswith("~/") else value
                for variable, value in table.environment.items()
            }
            said = replace(table, environment=environment)
            stands = agents.get(name)
            agents[name] = said if stands is None or said.command else _added(stands, said)
    return agents


def _added(stands: AgentSettings, said: AgentSettings) -> AgentSettings:
    return AgentSettings(
        command=stands.command,
        environment=said.environment or stands.environment,
        inject=stands.inject if said.inject == "auto" else said.inject,
        roll_over_when_empty=stands.roll_over_when_empty or said.roll_over_when_empty,
    )


def _check(pipeline: Pipeline, roles: Mapping[str, Role], source: Path) -> None:
    fault = check_pipeline(pipeline)
    unknown = [step.role for step in pipeline.steps if step.role not in roles]
    if not fault and unknown:
        fault = f"its step {unknown[0]} has no role of that name"
    if fault:
        raise ConfigError(
            f"{source}: the pipeline cannot run: {fault}", hint="mend [[pipeline.steps]]"
        )
    for role in roles.values():
        if role.resume_if and role.resume_if not in roles:
            raise ConfigError(
                f"{source}: {role.name} has resume_if = {shown(role.resume_if)}",
                hint="name a role whose report it looks at",
            )


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _limits(table: FreshnessTable) -> Limits:
    """Return the limits with what a table says; what it leaves out is usual."""
    said = {
        name: value
        for name in Limits.__struct_fields__
        if (value := getattr(table, name)) is not None
    }
    return replace(USUAL_LIMITS, **said)


# --- files of a repository with instructions: for roles, and for an agent itself ------------------

# No file is read twice, because it could be another one the second time: the text that was judged
# is the text that is sent.


ROLE_FOLDERS: Mapping[str, str] = {
    ".claude/agents": CLAUDE_CODE,
    ".opencode/agent": OPENCODE,
    ".opencode/agents": OPENCODE,
    "agents": "",
    ".codex/agents": CODEX,
}
"""Where role files are, and whose. An agent gets its own file, else the last of these."""
PERSONAL_FILES = {CLAUDE_CODE: ".md", CODEX: ".toml", OPENCODE: ".md"}
"""What an agent's own role files end with."""

_ROLE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
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
    own: Sequence[ConfigFile],
    theirs: Sequence[ConfigFile],
    consents: Consents,
    trusted: Collection[str],
) -> Roles:
    """Return the roles of a directory, over those that are shipped.

    A file that is broken raises nothing: it is in `faults`, for whoever uses that role.
    """
    shipped = _shipped_roles()
    found = Roles(sent=dict(shipped), native=dict(shipped), of_agents={}, limits={}, faults={})
    _add_role_files(found, working_directory, own, consents, trusted)
    for roles in (found.sent, *found.of_agents.values()):
        _limit_all(roles, found.limits)
    for config in (*own, *theirs):
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
        held = replace(held, model=own.model, model_of=own.model_of)
        roles[name] = replace(roles[name], limits=held)


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


def personal_role(agent: str, name: str, environment: Environment) -> Role | None:
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
    agent: str, name: str, tree: Path, environment: Environment
) -> ConfigError | None:
    """Return why no address can have the name of an agent's role, None for any other name."""
    if not name or _ROLE_NAME.fullmatch(name):
        return None
    named = (found for _, found in roles_of_agent(agent, tree, environment, name))
    faults = (found for found in named if isinstance(found, ConfigError))
    return next((each for each in faults if each.ids.get("role", "").lower() == name), None)


def roles_of_agent(
    agent: str, tree: Path | None, environment: Environment, name: str = ""
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
    agent: str, tree: Path | None, environment: Environment
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each role file of an agent, with the tree that a repository's file must be in."""
    ending = PERSONAL_FILES.get(agent, "")
    for folder in (each for each, whose in ROLE_FOLDERS.items() if tree and whose == agent):
        with suppress(ConfigError):  # upthread uses none of these roles, and says so elsewhere
            paths = role_file_paths(tree, folder) if tree else []
            yield from ((path, tree) for path in paths if path.suffix == ending)
    for name in ("agents", "agent")[: 1 + (agent == OPENCODE)] if ending else ():
        with suppress(PermissionError):  # the agent cannot read them either
            found = sorted((settings_of(agent, environment) / name).glob(f"*{ending}"))
            yield from ((path, None) for path in found[:FOLDER_NAMES_MAX])


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
