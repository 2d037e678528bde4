"""What one configuration file may say, as it is decoded: names, types and bounds, no meaning.

How files are laid over each other is config's; what a repository's file may say without a person's
consent is core/trust.py's, which has a row for each field here.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from upthread.core.context.prior_context import Injection
from upthread.core.names import parse_role
from upthread.core.roles.role import RoleOverlay
from upthread.core.runs.pipeline import Pipeline
from upthread.core.types import RecordMode
from upthread.errors import UsageError

SECONDS_MAX: Final = 30 * 24 * 3600
"""What waits longer than a month waits for ever."""

DAYS_MAX: Final = 365_000
"""A thousand years back there is still a date."""

COUNT_MAX: Final = 1_000_000_000
"""Of files, tokens and relays: fits every counter of ours, in Python, SQL and JSON."""

DEPTH_MAX: Final = 100
TIMES_MAX: Final = 1_000_000

DurabilityPolicy: TypeAlias = Literal["default", "strict"]
PermissionWord: TypeAlias = Literal["allow", "deny", "ask"]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=COUNT_MAX)]
Depth: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=DEPTH_MAX)]
Days: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=DAYS_MAX)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]
Times: TypeAlias = Annotated[float, msgspec.Meta(ge=1, le=TIMES_MAX)]


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An `[agents.NAME]` table: an ACP agent by its command line, or how a known one is treated.

    Without a `command` it is the agent that upthread knows by this name. `inject` says when its
    sessions are told what was said before: core/context/prior_context.py. `roll_over_when_empty`: a
    resumed session that ends a turn without a word and without a call is given up:
    core/decision/rollover.py.
    """

    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    inject: Injection = "auto"
    roll_over_when_empty: bool = False


class EffectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[effects]` table. `outward` are shell patterns beside the ones that are shipped."""

    outward: tuple[str, ...] = ()


class Redaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[redaction]` table: rules by the family they find, and values that are no secrets.

    Both are expressions of RE2.
    """

    rules: dict[str, str] = {}
    allow: tuple[str, ...] = ()


class McpTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[mcp]` table. `answers`: what a model answers counts, not only what a person does."""

    answers: bool | None = None


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[keep]` table: for how many days what was said, and agents' stderr; None: for ever."""

    content_days: Days | None = None
    stderr_days: Days | None = None


class FreshnessTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[freshness]` table; None means: not said here. See core/decision/model.py, Limits."""

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
    depth_max: Depth | None = None
    start_timeout_s: Seconds | None = None
    prompt_timeout_s: Seconds | None = None
    handover: bool | None = None
    encryption_key: str | None = None
    roles: dict[str, RoleOverlay] = {}
    agents: dict[str, AgentSettings] = {}
    permissions: dict[str, PermissionWord] = {}
    redaction: Redaction = Redaction()
    keep: Keep = Keep()
    mcp: McpTable = McpTable()
    freshness: FreshnessTable = FreshnessTable()
    effects: EffectSettings = EffectSettings()
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a table of a role that nobody could address."""
        for name in self.roles:
            try:
                parse_role(name)
            except UsageError as error:
                raise ValueError(f"[roles]: {error.message} ({error.hint})") from error
