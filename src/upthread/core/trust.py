"""Trust: what a repository may say at once, and what a person has to agree to first.

Theory of operation. A person's own files, and what upthread ships, say what holds. A repository's
file may tighten that at once. Whatever would loosen it is an item: a name and the exact text a
person is shown. It counts when that very text was consented to, and until then the file is read as
if it did not say it. `TABLE` has a row for each field of a configuration file, which are
declared first: names, types and bounds. A field without a row is an error, so that no new key slips
in. How files are laid over each other is config's.

Instructions are items too: a role's file, `instructions`, a pipeline's tasks. Which role a text
belongs to says nothing of what an agent may do with it, so the line is drawn by what the person's
own permissions allow: where they deny all that is more than reading, nothing is asked.
See docs/adr/0060-a-repository-may-only-tighten.md.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from upthread.core.context.prior_context import Injection
from upthread.core.names import parse_role, shown
from upthread.core.roles.role import RoleOverlay
from upthread.core.runs.pipeline import Pipeline
from upthread.core.types import STRICTNESS, RecordMode, ready
from upthread.errors import UsageError

SECONDS_MAX = 30 * 24 * 3600
"""What waits longer than a month waits for ever."""

DAYS_MAX = 365_000
"""A thousand years back there is still a date."""

COUNT_MAX = 1_000_000_000
"""Of files, tokens and relays: fits every counter of ours, in Python, SQL and JSON."""

DEPTH_MAX = 100
TIMES_MAX = 1_000_000

DurabilityPolicy: TypeAlias = Literal["default", "strict"]
PermissionWord: TypeAlias = Literal["allow", "deny", "ask"]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=COUNT_MAX)]
Days: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=DAYS_MAX)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)]


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
    window_share_max: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    window_tokens: Positive | None = None
    relays_max: NotNegative | None = None
    resume_tokens_max: Positive | None = None
    brief_if_times_cheaper: Annotated[float, msgspec.Meta(ge=1, le=TIMES_MAX)] | None = None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One configuration file. None means: not said here."""

    agent: str | None = None
    durability: DurabilityPolicy | None = None
    record: RecordMode | None = None
    depth_max: Annotated[int, msgspec.Meta(gt=0, le=DEPTH_MAX)] | None = None
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


NAMES_SHOWN_MAX = 5
"""How many items a notice names; the others are counted."""

BEYOND_READING = ("edit", "delete", "move", "execute", "fetch", "switch_mode", "other")
"""ACP's kinds of tools that do more than look at what is there."""

PROJECT_SETTINGS = ".project_settings"
"""The end of an item's name: the settings of a project for one agent, such as `.claude`."""

USUAL_RECORD: RecordMode = "redacted"

Place: TypeAlias = tuple[str, ...]
"""Where a value stands: `("permissions", "execute")`."""

Leaves: TypeAlias = Mapping[Place, Any]
Verdict: TypeAlias = Literal["counts", "asks", "never"]
Judge: TypeAlias = Callable[[Leaves, Place, Any], Verdict]

_ANY = "*"
_PLAIN_AGENT = r"[a-z0-9][a-z0-9_-]*"


class Item(Struct, frozen=True, kw_only=True):
    """What a person agrees to: exactly this text, under this name, for the role that it is about.

    `name` is a setting's place or a role file's path in the repository. `role` is empty for what is
    about all of them.
    """

    kind: Literal["setting", "role"]
    name: str
    text: str
    role: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def is_of_another(self, agent: str) -> bool:
        """Return whether it is about the project settings of another agent."""
        is_of_one = self.name.endswith(PROJECT_SETTINGS)
        return is_of_one and self.name != f"agents.{agent}{PROJECT_SETTINGS}"


class Pending(Struct, frozen=True, kw_only=True):
    """An item that does not count.

    `was` is the text consented to before under this name, None for none, or one too long to keep.
    `is_declined` says that a person saw it and said no. `instead` tells what is used in its place.
    """

    item: Item
    was: str | None = None
    is_declined: bool = False
    instead: str = ""


# --- judges ------------------------------------------------------------------------------------


def _counts(_own: Leaves, _place: Place, _said: Any) -> Verdict:
    return "counts"


def _asks(_own: Leaves, _place: Place, _said: Any) -> Verdict:
    return "asks"


def _never(_own: Leaves, _place: Place, _said: Any) -> Verdict:
    return "never"


def _asks_if(is_looser: bool) -> Verdict:  # noqa: FBT001  # a verdict is all it is made into
    return "asks" if is_looser else "counts"


def _greater_asks(own: Leaves, place: Place, said: Any) -> Verdict:
    """Ask for more than the own files say. Put so that what compares with nothing asks, too."""
    return _asks_if(place in own and not said <= own[place])


def _less_asks(own: Leaves, place: Place, said: Any) -> Verdict:
    """Where the own files are silent, all is kept."""
    return _asks_if(place not in own or not said >= own[place])


def _leaving_out_asks(own: Leaves, place: Place, said: Any) -> Verdict:
    return _asks_if(not set(own.get(place, ())) <= set(said))


def _adding_asks(own: Leaves, place: Place, said: Any) -> Verdict:
    return _asks_if(not set(said) <= set(own.get(place, ())))


def _looser_asks(*order: Any, unsaid: Any) -> Judge:
    """Return the judge of values from the loosest on; `unsaid` is what holds without a word."""

    def judge(own: Leaves, place: Place, said: Any) -> Verdict:
        return _asks_if(order.index(said) < order.index(own.get(place, unsaid)))

    return judge


_permission = _looser_asks("allow", "ask", "deny", unsaid="ask")
_durability = _looser_asks("default", "strict", unsaid="default")
_true_asks = _looser_asks(True, False, unsaid=False)
_false_asks = _looser_asks(False, True, unsaid=False)


def _record(own: Leaves, place: Place, said: Any) -> Verdict:
    """What a person has said of recording holds whatever a repository says; a default asks."""
    stands = own.get(place) or own.get(("record",))
    if STRICTNESS.index(said) >= STRICTNESS.index(stands or USUAL_RECORD):
        return "counts"
    return "never" if stands else "asks"


def _agent(own: Leaves, place: Place, said: Any) -> Verdict:
    """A name is no command. Ask for `acp:COMMAND`, and for one that a person made for some work.

    Those that upthread knows are driven as the person's own settings of them say.
    """
    if said in {own.get(place), own.get(("agent",))}:
        return "counts"
    is_made = any(known[:2] == ("agents", said) and known[2] in _STARTS_IT for known in own)
    return _asks_if(is_made or not re.fullmatch(_PLAIN_AGENT, said))


_STARTS_IT = frozenset({"command", "environment"})
"""What of an agent's table makes it one that a person made."""


def _rule(own: Leaves, place: Place, said: Any) -> Verdict:
    """A rule more hides more; one of a name that is taken would stand in the other's place."""
    # Late: they are many, and hardly a repository has rules.
    from upthread.core.redaction.rules import RULES  # noqa: PLC0415

    is_taken = place in own or any(rule.family == place[-1] for rule in RULES)
    return _asks_if(is_taken and own.get(place) != said)


def _instructions(own: Leaves, place: Place, said: Any) -> Verdict:
    return _asks_if(own.get(place) != said and not may_only_read(own))


# --- the table ---------------------------------------------------------------------------------


class Row(Struct, frozen=True, kw_only=True):
    """How a field is judged, and in words when a person is asked, empty for never.

    Fields of one `group` are one item: one of them without the other would be something else.
    """

    field: Place
    asks: str
    judge: Judge
    group: str = ""


def _row(field: str, asks: str, judge: Judge, group: str = "") -> Row:
    return Row(field=tuple(field.split(".")), asks=asks, judge=judge, group=group)


_SAID_MORE = "for more than you say; what you do not say, it may"

TABLE = (
    _row("agent", 'for `acp:"COMMAND"`, and for one that has a command in your files', _agent),
    _row("durability", "for less than yours", _durability),
    _row("record", "for `full`, if you say nothing; never for more than you say", _record),
    _row("depth_max", "for more", _greater_asks),
    _row("start_timeout_s", "for more", _greater_asks),
    _row("prompt_timeout_s", "for more", _greater_asks),
    _row("handover", "for `true`", _true_asks),
    _row("encryption_key", "is refused", _never),
    _row("mcp.answers", "is refused for `true`", _never),
    _row("roles.*.continuity", "", _counts),
    _row("roles.*.resume_if", "", _counts),
    _row("roles.*.agent", "as for `agent`", _agent),
    _row("roles.*.is_writing", "for `false` where it is `true`", _false_asks),
    _row("roles.*.record", "as for `record`", _record),
    _row("roles.*.description", "", _counts),
    _row("roles.*.instructions", "always, as for a role's file", _instructions),
    _row("agents.*.command", "always", _asks, "command and environment"),
    _row("agents.*.environment", "always", _asks, "command and environment"),
    _row("agents.*.inject", "", _counts),
    _row("agents.*.roll_over_when_empty", "for `true`: a prompt is sent once more", _true_asks),
    _row("permissions.*", "for `allow`, and for `ask` where you deny", _permission),
    _row("redaction.rules.*", "for a name that you or upthread have already", _rule),
    _row("redaction.allow", "always", _adding_asks),
    _row("keep.content_days", "for fewer: it would erase what you keep", _less_asks),
    _row("keep.stderr_days", "for fewer", _less_asks),
    _row("freshness.critical", "for a list that leaves out one of yours", _leaving_out_asks),
    _row("freshness.files_changed_max", _SAID_MORE, _greater_asks),
    _row("freshness.window_share_max", _SAID_MORE, _greater_asks),
    _row("freshness.window_tokens", _SAID_MORE, _greater_asks),
    _row("freshness.relays_max", _SAID_MORE, _greater_asks),
    _row("freshness.resume_tokens_max", _SAID_MORE, _greater_asks),
    _row("freshness.brief_if_times_cheaper", _SAID_MORE, _greater_asks),
    _row("effects.outward", "", _counts),
    _row("pipeline", "always, as for a role's file", _instructions),
)
_ROWS = {row.field: row for row in TABLE}


def row_of(place: Place) -> Row | None:
    """Return the row of a place, None for one that is no field but a table of fields."""
    in_any = ((*place[:at], _ANY, *place[at + 1 :]) for at in range(len(place)))
    return next((row for each in (place, *in_any) if (row := _ROWS.get(each))), None)


# --- judging -----------------------------------------------------------------------------------


class Judgement(Struct, frozen=True, kw_only=True):
    """A repository's file, judged: what counts whatever a person says, and what else it asks for.

    `items` come in the file's order of tables, each with the leaves that would count with it.
    `roles` are all that have a table: an empty one, too, says that there is such a role.
    """

    counting: Leaves
    items: tuple[tuple[Item, Leaves], ...]
    roles: tuple[str, ...] = ()

    def file(self, consented: Collection[Item]) -> ConfigFile:
        """Return the file as it counts when these items were consented to."""
        whole = dict(self.counting)
        for item, said in self.items:
            if item in consented:
                whole |= said
        return _from_leaves(whole, roles=self.roles)


def judge(own: Sequence[ConfigFile], said: ConfigFile) -> Judgement:
    """Judge what a repository's file says by what the own files say, the later over the earlier."""
    stands = own_leaves(own)
    counting: dict[Place, Any] = {}
    asking: dict[Place, dict[Place, Any]] = {}
    for place, value in leaves(said).items():
        row = row_of(place)
        assert row is not None, "a leaf is what has a row"
        verdict = row.judge(stands, place, value)
        if verdict == "counts":
            counting[place] = value
        elif verdict == "asks":
            asking.setdefault(place[:-1] if row.group else place, {})[place] = value
    items = tuple((_item(name, values), values) for name, values in asking.items())
    return Judgement(counting=counting, items=items, roles=tuple(said.roles))


def may_only_read(own: Leaves) -> bool:
    """Return whether the person's own permissions deny all that is more than reading."""
    return all(own.get(("permissions", kind)) == "deny" for kind in BEYOND_READING)


def own_leaves(files: Iterable[ConfigFile]) -> dict[Place, Any]:
    """Return what files say, the later over the earlier."""
    return {place: value for file in files for place, value in leaves(file).items()}


def as_one(files: Sequence[ConfigFile]) -> ConfigFile:
    """Return what files say as one file, the later over the earlier."""
    return _from_leaves(own_leaves(files), roles=())


def leaves(file: ConfigFile) -> dict[Place, Any]:
    """Return what a file says, by its place; what it leaves at the default is not said."""
    return dict(_leaves((), cast("Mapping[str, Any]", msgspec.to_builtins(file))))


def _leaves(place: Place, table: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    for name, value in table.items():
        here = (*place, name)
        if row_of(here) is None:
            yield from _leaves(here, value)
        elif value is not None and value != _UNSAID.get(row_of(here)):
            yield here, value


def _from_leaves(said: Leaves, *, roles: Sequence[str]) -> ConfigFile:
    whole: dict[str, Any] = {"roles": {name: {} for name in roles}}
    for place, value in said.items():
        table = whole
        for name in place[:-1]:
            table = table.setdefault(name, {})
        table[place[-1]] = value
    return msgspec.convert(whole, ready(ConfigFile))


_UNSAID: Mapping[Row | None, Any] = {
    row_of(("agents", _ANY, "command")): (),
    row_of(("agents", _ANY, "environment")): {},
    row_of(("agents", _ANY, "inject")): "auto",
    row_of(("agents", _ANY, "roll_over_when_empty")): False,
    row_of(("redaction", "allow")): (),
    row_of(("effects", "outward")): (),
}
"""Defaults that are no None."""


# --- items -------------------------------------------------------------------------------------


def project_settings_item(agent: str, names: Iterable[str]) -> Item:
    """Return the item for an agent's project settings, such as `.claude`.

    Its text leaves out their content, so that consent also holds after they have changed.
    """
    told = f"{agent} goes by what is in {', '.join(names)}, now and later, and runs what they name"
    return Item(kind="setting", name=f"agents.{agent}{PROJECT_SETTINGS}", text=told)


def role_file_item(name: str, text: str, *, role: str) -> Item:
    """Return the item of a role's file: all of its text."""
    return Item(kind="role", name=name, text=text, role=role)


def _item(place: Place, said: Leaves) -> Item:
    role = place[1] if place[0] == "roles" else ""
    lines = [line for at, value in said.items() for line in _lines(at[-1], value)]
    return Item(kind="setting", name=".".join(place), text="\n".join(lines), role=role)


def _lines(name: str, value: Any) -> Iterator[str]:
    """Write a value as lines that no other value has: a text's own lines stand behind a bar."""
    if isinstance(value, str) and "\n" in value:
        yield f"{name}:"
        yield from (f"| {line}" for line in value.split("\n"))
    elif name == "pipeline":
        for number, step in enumerate(cast("Mapping[str, Any]", value)["steps"], start=1):
            yield f"step {number}:"
            for key, each in step.items():
                yield from _lines(key, each)
    else:
        yield f"{name} = {json.dumps(value, ensure_ascii=False, sort_keys=True)}"


# --- in words ----------------------------------------------------------------------------------


def ignored_notice(pending: Sequence[Pending]) -> str:
    """Return one line on what is ignored, and the cure; empty when nothing is."""
    if not pending:
        return ""
    named = [
        shown(each.item.name) + (f" ({each.instead})" if each.instead else "")
        for each in pending[:NAMES_SHOWN_MAX]
    ]
    more = len(pending) - len(named)
    told = ", ".join(named) + (f" and {more} more" if more else "")
    return f"ignored, as you have not agreed to it in this repository: {told}; see upthread trust"


def concerning(
    pending: Iterable[Pending], *, tables: Collection[str], roles: Collection[str]
) -> tuple[Pending, ...]:
    """Return what is about one of these tables of settings, or one of these roles."""
    return tuple(
        each
        for each in pending
        if (each.item.role in roles if each.item.role else each.item.name.split(".")[0] in tables)
    )
