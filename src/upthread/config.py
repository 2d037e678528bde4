"""Configuration: files in, one frozen settings value out.

Three layers, later ones win table by table: what upthread ships, the user's `config.toml`, the
project's `upthread.toml`. Roles come from the files agents already have; a role file that is broken
is an error only for whoever uses that role. What a repository says counts as far as core/trust.py
lets it, and boundary/consents.py knows of a person's consent. Nothing here writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field, structs

from upthread.boundary import files as opener
from upthread.boundary.agent_trust import held_by_project, is_trusted_in, trusted_agents
from upthread.boundary.consents import Consents, consents_path
from upthread.boundary.own_home import configuration_path, home_directory
from upthread.core.agents import AGENTS
from upthread.core.config_file import (
    AgentSettings,
    ConfigFile,
    DurabilityPolicy,
    FreshnessTable,
    Keep,
    PermissionWord,
    Redaction,
)
from upthread.core.context.prior_context import Injection
from upthread.core.decision.model import USUAL_LIMITS, Limits
from upthread.core.names import did_you_mean, shown
from upthread.core.roles.fields import OPENCODE
from upthread.core.roles.role import BUILT_IN_ROLES, Role, read_toml
from upthread.core.runs.pipeline import Pipeline, check_pipeline
from upthread.core.trust import USUAL_RECORD, Pending, judge
from upthread.core.types import RecordMode, ready
from upthread.errors import ConfigError, NotFoundError
from upthread.role_files import ROLE_FOLDERS, read_text_file, role_file_paths, roles_of

Value = TypeVar("Value")

PROJECT_FILE = "upthread.toml"
_DEFAULTS = Path(__file__).parent / "defaults"


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
    client/encryption.py.
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
    limits: Limits = USUAL_LIMITS
    critical: tuple[str, ...] = ()
    handover: bool = False
    models_answer: bool = False
    encryption_key: str | None = None
    window_tokens: int | None = None
    own_agent: str | None = None
    repository: str = ""
    trusted: frozenset[str] = frozenset()
    pending: tuple[Pending, ...] = ()
    stamps: Mapping[str, str] = field(default_factory=dict[str, str])
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    agents_roles: Mapping[str, Mapping[str, Role]] = field(
        default_factory=dict[str, Mapping[str, Role]]
    )
    native_roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    role_faults: Mapping[str, ConfigError] = field(default_factory=dict[str, ConfigError])
    agents: Mapping[str, AgentSettings] = field(default_factory=dict[str, AgentSettings])
    permissions: Mapping[str, PermissionWord] = field(default_factory=dict[str, PermissionWord])
    record: RecordMode = "redacted"
    redaction: Redaction = field(default_factory=Redaction)
    keep: Keep = field(default_factory=Keep)
    outward_patterns: tuple[str, ...] = ()

    def injection(self, agent: str) -> Injection:
        """Return when sessions of an agent are told what was said before."""
        known = self.agents.get(agent)
        return known.inject if known else "auto"

    def rolls_over_when_empty(self, agent: str) -> bool:
        """Return whether a resumed session of an agent that answers nothing is given up."""
        known = self.agents.get(agent)
        return known is not None and known.roll_over_when_empty

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

    def trusts(self, agent: str, place: str, environment: Mapping[str, str]) -> bool:
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
        own = self.agents[known].environment if known in self.agents else {}
        return is_trusted_in(known, (place, self.repository), {**environment, **own})

    def leaving_out(self, environment: Mapping[str, str]) -> tuple[str, ...]:
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
    environment: Mapping[str, str],
    database: str | None = None,
    repository: str | None = None,
) -> Settings:
    """Read all layers. Raises ConfigError that names the file and the place in it.

    `repository` is the path consents are known by, None for the directory's own: all working trees
    of a repository have the main one's.
    """
    home = home_directory(environment)
    stamps = _stamps(working_directory, environment, home)  # before anything is read
    own = [_shipped(), *_file(_user_path(environment))]
    consents = Consents(home, repository or str(working_directory.resolve()))
    theirs = tuple(_project_file(working_directory, own, consents))
    files = [*own, *theirs]
    agents = _agents(files)
    trusted = frozenset(trusted_agents(working_directory, environment, agents, consents))
    roles = roles_of(working_directory, own, theirs, consents, trusted)
    pipeline = _last(config.pipeline for _, config in files)
    tables = [config.freshness for _, config in files]
    assert pipeline is not None, "the shipped file has one"
    _check(pipeline, roles.sent, files[-1][0])
    return Settings(
        working_directory=str(working_directory),
        home=str(home),
        stamps=stamps,
        database=database or environment.get("UPTHREAD_DB") or str(home / "upthread.db"),
        agent=_last(config.agent for _, config in files),
        own_agent=_last(config.agent for _, config in own),
        durability=_said("default", (config.durability for _, config in files)),
        depth_max=_last(config.depth_max for _, config in files) or 1,
        start_timeout_s=_last(config.start_timeout_s for _, config in files) or 90.0,
        prompt_timeout_s=_last(config.prompt_timeout_s for _, config in files) or 3600.0,
        pipeline=pipeline,
        limits=_limits(tables),
        critical=_last(table.critical for table in tables) or (),
        handover=bool(_last(config.handover for _, config in files)),
        encryption_key=_last(config.encryption_key for _, config in own),
        models_answer=_last(config.mcp.answers for _, config in own) or False,
        window_tokens=_last(table.window_tokens for table in tables),
        repository=consents.repository,
        trusted=trusted,
        pending=consents.pending,
        roles=roles.sent,
        agents_roles=roles.of_agents,
        native_roles=roles.native,
        role_faults=roles.faults,
        agents=agents,
        permissions={kind: w for _, config in files for kind, w in config.permissions.items()},
        record=_said(USUAL_RECORD, (config.record for _, config in files)),
        redaction=Redaction(
            rules={name: r for _, config in files for name, r in config.redaction.rules.items()},
            allow=tuple(value for _, config in files for value in config.redaction.allow),
        ),
        keep=Keep(
            content_days=_least(config.keep.content_days for _, config in files),
            stderr_days=_least(config.keep.stderr_days for _, config in files),
        ),
        outward_patterns=tuple(
            pattern for _, config in files for pattern in config.effects.outward
        ),
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


def _shipped() -> tuple[str, ConfigFile]:
    raw = (_DEFAULTS / "upthread.toml").read_bytes()
    return "the shipped defaults", read_config(raw, source="the shipped defaults")


def _stamps(working_directory: Path, environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return all that is looked into for settings, also what is not there, with its stamp."""
    folders = [working_directory / folder for folder in ROLE_FOLDERS]
    own = [_user_path(environment), consents_path(home)]
    paths = [*own, working_directory / PROJECT_FILE, *folders]
    for folder in ROLE_FOLDERS:
        with contextlib.suppress(ConfigError):  # it is told where the roles are read
            paths += role_file_paths(working_directory, folder)
    return {str(path): opener.stamp_of(str(path)) for path in paths}


def _user_path(environment: Mapping[str, str]) -> Path:
    return Path(configuration_path(environment), "config.toml")


def _project_file(
    working_directory: Path, own: Sequence[tuple[str, ConfigFile]], consents: Consents
) -> Iterator[tuple[str, ConfigFile]]:
    """The repository's file as far as it counts; what else it says is pending."""
    for source, config in _file(working_directory / PROJECT_FILE, tree=working_directory):
        if config.encryption_key is not None:
            raise ConfigError(
                f"{source}: encryption_key is not a repository's to say",
                hint="write it into your own config.toml",
            )
        if config.mcp.answers:
            raise ConfigError(
                f"{source}: whether models may answer is not a repository's to say",
                hint="write [mcp] answers into your own config.toml",
            )
        judged = judge([each for _, each in own], config)
        yield source, judged.file([item for item, _ in judged.items if consents.cover(item)])


def _file(path: Path, *, tree: Path | None = None) -> Iterator[tuple[str, ConfigFile]]:
    if os.path.lexists(path):
        yield str(path), read_config(read_text_file(path, tree=tree).encode(), source=str(path))


def _agents(files: Sequence[tuple[str, ConfigFile]]) -> Mapping[str, AgentSettings]:
    """Return the agents; a table without a command leaves the one that stands its command."""
    agents: dict[str, AgentSettings] = {}
    for _, config in files:
        for name, table in config.agents.items():
            said = structs.replace(table, environment=_with_home(table.environment))
            stands = agents.get(name)
            agents[name] = said if stands is None or said.command else _added(stands, said)
    return agents


def _with_home(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the person's home for a `~/` at their beginning, as a shell has it."""
    return {
        name: str(Path(value).expanduser()) if value.startswith("~/") else value
        for name, value in environment.items()
    }


def _added(stands: AgentSettings, said: AgentSettings) -> AgentSettings:
    return AgentSettings(
        command=stands.command,
        environment=said.environment or stands.environment,
        inject=stands.inject if said.inject == "auto" else said.inject,
        roll_over_when_empty=stands.roll_over_when_empty or said.roll_over_when_empty,
    )


def _check(pipeline: Pipeline, roles: Mapping[str, Role], source: str) -> None:
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


def _limits(tables: Sequence[FreshnessTable]) -> Limits:
    """Return the limits with what each table says over the one before; what none says is usual."""
    said = {
        name: value
        for name in Limits.__struct_fields__
        if (value := _last(getattr(table, name) for table in tables)) is not None
    }
    return structs.replace(USUAL_LIMITS, **said)


def _said(usual: Value, values: Iterable[Value | None]) -> Value:
    """Return what was said last, else what is usual."""
    return _last(values) or usual


def _last(values: Iterable[Value | None]) -> Value | None:
    said = [value for value in values if value is not None]
    return said[-1] if said else None
