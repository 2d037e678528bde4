"""Configuration: files in, one frozen settings value out.

Three layers, later ones win table by table: what upthread ships, the user's `config.toml`, the
project's `upthread.toml`. Roles come from the files agents already have; a role file that is broken
is an error only for whoever uses that role. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
import platformdirs

from upthread.core.decisions import USUAL_LIMITS, Limits
from upthread.core.effects import OUTWARD_PATTERNS
from upthread.core.names import shown
from upthread.core.pipeline import Pipeline, check_pipeline
from upthread.core.prior_context import Injection
from upthread.core.roles import (
    Role,
    RoleOverlay,
    overlaid,
    read_markdown_role,
    read_toml_role,
)
from upthread.core.types import STRICTNESS, RecordMode
from upthread.errors import ConfigError, NotFoundError

Value = TypeVar("Value")

PROJECT_FILE = "upthread.toml"
ROLE_FOLDERS = (".claude/agents", ".opencode/agent", ".opencode/agents", "agents", ".codex/agents")
FILE_BYTES_MAX = 1024 * 1024

DurabilityPolicy: TypeAlias = Literal["default", "strict"]
PermissionWord: TypeAlias = Literal["allow", "deny", "ask"]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]
Times: TypeAlias = Annotated[float, msgspec.Meta(ge=1)]


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An `[agents.NAME]` table: an ACP agent by its command line, or how a known one is treated.

    Without a `command` it is the agent that upthread knows by this name. `inject` says when its
    sessions are told what was said before: core/prior_context.py.
    """

    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    inject: Injection = "auto"


class EffectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[effects]` table. `outward` are shell patterns beside the ones that are shipped."""

    outward: tuple[str, ...] = ()


class Redaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[redaction]` table: rules by the family they find, and values that are no secrets.

    Both are expressions of RE2.
    """

    rules: dict[str, str] = {}
    allow: tuple[str, ...] = ()


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[keep]` table: for how many days what was said, and agents' stderr; None: for ever."""

    content_days: int | None = None
    stderr_days: int | None = None


class FreshnessTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[freshness]` table; None means: not said here. See core/decisions.py, Limits."""

    critical: tuple[str, ...] | None = None
    files_changed_max: NotNegative | None = None
    window_share_max: Share | None = None
    window_tokens: Positive | None = None
    relays_max: NotNegative | None = None
    resume_tokens_max: Positive | None = None
    brief_if_times_cheaper: Times | None = None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One configuration file. None means: not said here."""

    agent: str | None = None
    durability: DurabilityPolicy | None = None
    record: RecordMode | None = None
    depth_max: int | None = None
    start_timeout_s: float | None = None
    prompt_timeout_s: float | None = None
    handover: bool | None = None
    encryption_key: str | None = None
    roles: dict[str, RoleOverlay] = {}
    agents: dict[str, AgentSettings] = {}
    permissions: dict[str, PermissionWord] = {}
    redaction: Redaction = Redaction()
    keep: Keep = Keep()
    freshness: FreshnessTable = FreshnessTable()
    effects: EffectSettings = EffectSettings()
    pipeline: Pipeline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one project, resolved.

    `critical` are globs of files that make a session stale alone; `window_tokens` is the window of
    models whose agent does not tell it.
    `role_faults` are role files that could not be read, by the name they would have.
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
    encryption_key: str | None = None
    window_tokens: int | None = None
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    role_faults: Mapping[str, ConfigError] = field(default_factory=dict[str, ConfigError])
    agents: Mapping[str, AgentSettings] = field(default_factory=dict[str, AgentSettings])
    permissions: Mapping[str, PermissionWord] = field(default_factory=dict[str, PermissionWord])
    record: RecordMode = "redacted"
    redaction: Redaction = field(default_factory=Redaction)
    keep: Keep = field(default_factory=Keep)
    outward_patterns: tuple[str, ...] = OUTWARD_PATTERNS

    def injection(self, agent: str) -> Injection:
        """Return when sessions of an agent are told what was said before."""
        known = self.agents.get(agent)
        return known.inject if known else "auto"

    def role(self, name: str) -> Role:
        """Return a role; raises ConfigError if its file is broken, NotFoundError if it has none."""
        if name in self.role_faults:
            raise self.role_faults[name]
        if name not in self.roles:
            known = ", ".join(sorted(self.roles))
            raise NotFoundError(
                f"there is no role {shown(name)}",
                hint=f"known roles: {known}; or add [roles.{name}] to {PROJECT_FILE}",
                role=name,
            )
        return self.roles[name]


def load_settings(
    working_directory: Path, *, environment: Mapping[str, str], database: str | None = None
) -> Settings:
    """Read all layers. Raises ConfigError that names the file and the place in it."""
    home = home_directory(environment)
    own = [_shipped(), *_user_file(environment)]
    said: list[RecordMode] = [c.record for _, c in own if c.record is not None]
    files = [*own, *_project_file(working_directory, record_said=said)]
    roles, faults = _read_roles(working_directory)
    for _, config in files:
        for name, overlay in config.roles.items():
            roles[name] = overlaid(roles.get(name, Role(name=name)), overlay)
    pipeline = _last(config.pipeline for _, config in files)
    tables = [config.freshness for _, config in files]
    durability: DurabilityPolicy = "default"
    for _, config in files:
        durability = config.durability or durability
    assert pipeline is not None, "the shipped file has one"
    _check(pipeline, roles, files[-1][0])
    return Settings(
        working_directory=str(working_directory),
        home=str(home),
        database=database or environment.get("UPTHREAD_DB") or str(home / "upthread.db"),
        agent=_last(config.agent for _, config in files),
        durability=durability,
        depth_max=_last(config.depth_max for _, config in files) or 1,
        start_timeout_s=_last(config.start_timeout_s for _, config in files) or 60.0,
        prompt_timeout_s=_last(config.prompt_timeout_s for _, config in files) or 3600.0,
        pipeline=pipeline,
        limits=_limits(tables),
        critical=_last(table.critical for table in tables) or (),
        handover=_last(config.handover for _, config in files) or False,
        encryption_key=_last(config.encryption_key for _, config in own),
        window_tokens=_last(table.window_tokens for table in tables),
        roles=roles,
        role_faults=faults,
        agents={name: a for _, config in files for name, a in config.agents.items()},
        permissions={kind: w for _, config in files for kind, w in config.permissions.items()},
        record=_strictest([config.record for _, config in files if config.record is not None]),
        redaction=Redaction(
            rules={name: r for _, config in files for name, r in config.redaction.rules.items()},
            allow=tuple(value for _, config in files for value in config.redaction.allow),
        ),
        keep=Keep(
            content_days=_least(config.keep.content_days for _, config in files),
            stderr_days=_least(config.keep.stderr_days for _, config in files),
        ),
        outward_patterns=(
            *OUTWARD_PATTERNS,
            *(pattern for _, config in files for pattern in config.effects.outward),
        ),
    )


def home_directory(environment: Mapping[str, str]) -> Path:
    """Return where upthread keeps its files: UPTHREAD_HOME, else the platform's data directory."""
    chosen = environment.get("UPTHREAD_HOME")
    return Path(chosen) if chosen else platformdirs.user_data_path("upthread", appauthor=False)


def read_config(raw: bytes, *, source: str) -> ConfigFile:
    """Return one configuration file's content; raises ConfigError with the place of the fault."""
    try:
        return msgspec.toml.decode(raw, type=ConfigFile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}", hint="see docs/configuration.md") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not valid TOML: {error}", hint="mend the file") from error


def read_text_file(path: Path) -> str:
    """Return a file's text; raises ConfigError for one that is too large or no text."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} has {size} bytes", hint=f"at most {FILE_BYTES_MAX}")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}", hint="convert it") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _shipped() -> tuple[str, ConfigFile]:
    raw = resources.files("upthread").joinpath("defaults/upthread.toml").read_bytes()
    return "the shipped defaults", read_config(raw, source="the shipped defaults")


def _user_file(environment: Mapping[str, str]) -> Iterator[tuple[str, ConfigFile]]:
    chosen = environment.get("UPTHREAD_HOME")
    folder = Path(chosen) if chosen else platformdirs.user_config_path("upthread", appauthor=False)
    yield from _file(folder / "config.toml")


def _project_file(
    working_directory: Path, *, record_said: Sequence[RecordMode]
) -> Iterator[tuple[str, ConfigFile]]:
    """A repository may record less of you than you have said, and never more."""
    for source, config in _file(working_directory / PROJECT_FILE):
        if config.encryption_key is not None:
            raise ConfigError(
                f"{source}: encryption_key is not a repository's to say",
                hint="write it into your own config.toml",
            )
        roles = {
            name: msgspec.structs.replace(each, record=_strictest((*record_said, each.record)))
            if each.record is not None
            else each
            for name, each in config.roles.items()
        }
        yield source, msgspec.structs.replace(config, roles=roles)


def _file(path: Path) -> Iterator[tuple[str, ConfigFile]]:
    if path.is_file():
        yield str(path), read_config(read_text_file(path).encode(), source=str(path))


def _read_roles(working_directory: Path) -> tuple[dict[str, Role], dict[str, ConfigError]]:
    roles: dict[str, Role] = {}
    faults: dict[str, ConfigError] = {}
    for shipped in sorted(
        resources.files("upthread").joinpath("defaults/roles").iterdir(), key=lambda f: f.name
    ):
        stem = shipped.name.removesuffix(".md")
        text = shipped.read_text(encoding="utf-8")
        roles[stem] = read_markdown_role(text, file_stem=stem, source=f"shipped {shipped.name}")
    for path in _role_files(working_directory):
        try:
            role = _read_role(path)
        except ConfigError as error:
            faults[path.stem.lower()] = error
        else:
            roles[role.name] = role
    return roles, faults


def _role_files(working_directory: Path) -> Iterator[Path]:
    for folder in ROLE_FOLDERS:
        found = working_directory / folder
        if found.is_dir():
            yield from sorted(p for p in found.iterdir() if p.suffix in {".md", ".toml"})


def _read_role(path: Path) -> Role:
    text = read_text_file(path)
    read = read_toml_role if path.suffix == ".toml" else read_markdown_role
    return read(text, file_stem=path.stem, source=str(path))


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


def _strictest(said: Sequence[RecordMode]) -> RecordMode:
    """Return what records least of all that was said."""
    return max(said, key=STRICTNESS.index) if said else "redacted"


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _limits(tables: Sequence[FreshnessTable]) -> Limits:
    """Return the limits with what each table says over the one before; what none says is usual."""
    said = {
        each.name: value
        for each in fields(Limits)
        if (value := _last(getattr(table, each.name) for table in tables)) is not None
    }
    return replace(USUAL_LIMITS, **said)


def _last(values: Iterable[Value | None]) -> Value | None:
    said = [value for value in values if value is not None]
    return said[-1] if said else None


def environment_now() -> Mapping[str, str]:
    """Return the process's environment, copied."""
    return dict(os.environ)
