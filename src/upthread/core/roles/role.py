"""Roles: who works on a workstream, read from the files agents already have.

Three formats: Markdown with YAML front matter as Claude Code and OpenCode write it (also plain
`agents/*.md`), and Codex's TOML. The overlay in `upthread.toml` adds continuity and agent; the
files themselves are never rewritten. Text in, values out: reading files is config's work.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.core.names import folded, parse_role, rows_by_name, shown
from upthread.core.roles.limits import (
    ANY,
    BASH,
    EDITING,
    NO_LIMITS,
    RoleLimits,
    ToolRule,
    denying,
    joined,
    tools_named,
)
from upthread.core.shell.call_commands import Rule
from upthread.core.types import Continuity, RecordMode
from upthread.errors import ConfigError, UsageError

INSTRUCTIONS_BYTES_MAX = 256 * 1024
FRONT_MATTER_CHARACTERS_MAX = 16 * 1024

BUILT_IN_ROLES = frozenset({"explore", "plan", "general-purpose", "build", "general"})
"""Roles of the agents themselves: fresh and recorded, never resumed unless configured."""

_BYTE_ORDER_MARK = "\ufeff"
_FENCE = "---"


class Role(Struct, frozen=True, kw_only=True):
    """A role as it applies to a project.

    `agent` is None where the project's agent does it. `resume_if` names the role whose report must
    be the same as last time for a resume. `record` is None where the project's holds. `limits` are
    what its file denies, and its model. `source` is the file it came from, for people.
    """

    name: str
    description: str = ""
    instructions: str = ""
    continuity: Continuity = "auto"
    resume_if: str | None = None
    agent: str | None = None
    is_writing: bool = False
    record: RecordMode | None = None
    limits: RoleLimits = NO_LIMITS
    source: str = ""

    @property
    def is_independent(self) -> bool:
        """Whether the role judges anew each time, and is not told what it said before."""
        return self.continuity == "fresh"

    @property
    def configuration(self) -> str:
        """The digest of what the role is told to be; a session that heard another one is told.

        What it may do counts only where something limits it: all other roles keep their digest.
        """
        limits = "" if self.limits == NO_LIMITS else f"\n{self.limits!r}"
        told = f"{self.instructions}{limits}"
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


class RoleOverlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A `[roles.NAME]` table of `upthread.toml`; None leaves the role as it is."""

    continuity: Continuity | None = None
    resume_if: str | None = None
    agent: str | None = None
    is_writing: bool | None = None
    record: RecordMode | None = None
    description: str | None = None
    instructions: str | None = None


def overlaid(role: Role, overlay: RoleOverlay) -> Role:
    """Return the role with what the overlay sets."""
    changes: dict[str, Any] = {
        name: value
        for name in overlay.__struct_fields__
        if (value := getattr(overlay, name)) is not None
    }
    return replace(role, **changes)


def without_model(role: Role) -> Role:
    """Return the role with the agent's own model: nobody agreed to what another one costs."""
    named = role.limits.model
    if not named:
        return role
    not_given = (*role.limits.not_given, f"model: {named}")
    return replace(role, limits=replace(role.limits, model="", model_of="", not_given=not_given))


def read_markdown_role(text: str, *, file_stem: str, source: str) -> Role:
    """Return the role in a Markdown file; its name is the front matter's or the file's.

    Raises ConfigError for front matter that is not a YAML mapping or a name that is no role's.
    """
    front_matter, instructions = _split_front_matter(text, source)
    fields = _mapping(front_matter, source)
    return _role(
        name=fields.get("name") or file_stem,
        description=fields.get("description", ""),
        instructions=instructions,
        limits=limits_of_front_matter(fields, source),
        source=source,
    )


def read_toml_role(text: str, *, file_stem: str, source: str) -> Role:
    """Return the role in a Codex agent file. Raises ConfigError like `read_markdown_role`."""
    try:
        fields = read_toml(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}", hint="mend the file") from error
    return _role(
        name=fields.get("name", file_stem),
        description=fields.get("description", ""),
        instructions=fields.get("developer_instructions", fields.get("instructions", "")),
        limits=limits_of_codex(fields, source),
        source=source,
    )


def _role(
    *, name: object, description: object, instructions: object, limits: RoleLimits, source: str
) -> Role:
    for label, value in (("name", name), ("description", description), ("text", instructions)):
        if not isinstance(value, str):
            raise ConfigError(f"{source}: the {label} is not text", hint="mend the file")
    if len(str(instructions).encode("utf-8", "surrogatepass")) > INSTRUCTIONS_BYTES_MAX:
        raise ConfigError(
            f"{source}: the instructions are too long",
            hint=f"{INSTRUCTIONS_BYTES_MAX} bytes at most",
        )
    try:
        checked = parse_role(str(name).lower())
    except UsageError as error:
        message = f"{source}: {shown(str(name))} is not a role name"
        raise ConfigError(message, hint=error.hint, role=str(name)) from error
    return Role(
        name=checked,
        description=str(description),
        instructions=str(instructions),
        continuity="fresh" if checked in BUILT_IN_ROLES else "auto",
        limits=limits,
        source=source,
    )


def _split_front_matter(text: str, source: str) -> tuple[str, str]:
    lines = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return "", "\n".join(lines).strip()
    for index, line in enumerate(lines[1:], start=1):
        # Not indented: a block of text in the front matter may hold the same three dashes.
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :]).strip()
    raise ConfigError(f"{source}: the front matter is not closed", hint="end it with a line ---")


_PLAIN_LINE = r"([a-z][a-z_]{0,63}): +([A-Za-z0-9](?:[A-Za-z0-9 ,.;/()_'-]*[A-Za-z0-9.)])?)"
"""A name and a text in which no sign is YAML's, on a line of its own."""


def _plain_mapping(front_matter: str) -> Mapping[str, object] | None:
    """Return front matter that is names and plain texts alone, as YAML has it; None for any other.

    The shipped roles' is, which every turn reads: it does not have to wait for a parser.
    """
    found: dict[str, object] = {}
    for line in front_matter.split("\n"):
        pair = re.fullmatch(_PLAIN_LINE, line)
        if pair is None or pair[1] in found:
            return None
        found[pair[1]] = pair[2]
    return found


def _mapping(front_matter: str, source: str) -> Mapping[str, object]:
    # Before it is read: the parser is slow, and a clone may bring any text.
    if len(front_matter) > FRONT_MATTER_CHARACTERS_MAX:
        raise ConfigError(
            f"{source}: the front matter is too long",
            hint=f"{FRONT_MATTER_CHARACTERS_MAX} characters at most",
        )
    plain = _plain_mapping(front_matter)
    if plain is not None:
        return plain
    import yaml  # noqa: PLC0415  # takes longer to load than a look takes

    try:
        # The loader that makes text, lists and mappings only: no tag is obeyed, nothing is merged,
        # an alias costs a reference, and a role called 007 or `on` keeps its name.
        loaded: object = yaml.BaseLoader(front_matter).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        place = " ".join(str(error).split())
        raise ConfigError(
            f"{source}: the front matter is not valid YAML: {place}", hint="mend the file"
        ) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{source}: the front matter is not a mapping", hint="write `name: …`")
    fields = cast("dict[object, object]", loaded)
    return {str(key): value for key, value in fields.items()}


# --- TOML from strangers --------------------------------------------------------------------------


KEY_PARTS_MAX = 32
"""How many parts a dotted key may have. Ours have four."""

_PART = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_LONG_KEY = re.compile(
    rf"(?m)^[ \t]*\[{{0,2}}[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}"
)
_LONG_KEY_WITHIN = re.compile(rf"[{{,][ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}")


def read_toml(text: str) -> dict[str, Any]:
    """Return a TOML document as plain values. Raises ValueError that says what is wrong."""
    import tomllib  # noqa: PLC0415  # a look reads no configuration, and loads roles for their names

    if _LONG_KEY.search(text) or _LONG_KEY_WITHIN.search(text):
        raise ValueError(f"a key has more than {KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


# --- limits: the keys of three agents, read into one form -----------------------------------------

# Markdown with front matter has Claude Code's keys (`tools` as a list, `disallowedTools`,
# `permissionMode`) or OpenCode's (`permission`, `tools` as a table, `mode`); Codex's TOML its own.
# As seen in Claude Code 2.1.330, OpenCode 1.18.33 and Codex 0.169.0. What cannot be read is an
# error that names file and key, and so is a key that is nearly one of these: a limit is never
# passed over.


CLAUDE_CODE = "claude-code"
OPENCODE = "opencode"
CODEX = "codex"

RULES_MAX = 500
"""Of one key; who writes more has not written limits."""

_MARKDOWN_KEYS = frozenset(
    {"disallowedTools", "mode", "model", "permission", "permissionMode", "tools"}
)
_CODEX_KEYS = frozenset({"approval_policy", "model", "sandbox_mode"})
_NEARLY = frozenset(
    """
    allowedtools approvalpolicy deniedtools disabledtools disallowedtools model permission
    permissionmode permissions sandbox sandboxmode tool tools
    """.split()
)
"""Keys that are, or are meant for, one of a limit; compared without case and marks."""

_CODEX_ELSEWHERE = frozenset({"permissions", "tools"})
"""Tables of Codex's own that limit nothing here: profiles by name, and features."""

_WORDS: Mapping[str, Rule] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_SWITCHES: Mapping[str, Rule] = {"true": "allow", "false": "deny"}
_TOOL = r"[\w*?.:-]+"
_MODEL = r"\w[\w.:/@+\[\]-]{0,199}"
_ENTRY = r"(?s)(?P<tool>[\w*.:-]+)(?:\((?P<pattern>.*)\))?"
_BETWEEN = r",(?![^()]*\))|\n"
"""Between two tools of a list in one text; a comma in brackets is part of one."""

_LOOSENS = RoleLimits(not_given=("",))
_SAID_BY_A_WORD = {
    "mode": {
        "primary": NO_LIMITS,
        "all": NO_LIMITS,
        # As OpenCode's own sub-agents: they give no work away, and keep no list of it.
        "subagent": denying("task", "todowrite", said=("so no task and no todowrite",)),
    },
    "permissionMode": {
        **rows_by_name(
            ("acceptEdits auto bypassPermissions", _LOOSENS), ("default manual", NO_LIMITS)
        ),
        "dontAsk": RoleLimits(asks_nobody=True),
        # Its own plan mode is not used: it changes what the model is told, and waits for a person.
        "plan": denying(*EDITING, BASH),
    },
    "sandbox_mode": {
        "read-only": RoleLimits(sandbox="read-only"),
        "workspace-write": RoleLimits(sandbox="workspace-write"),
        "danger-full-access": _LOOSENS,
    },
    "approval_policy": {
        "untrusted": RoleLimits(lists=((ToolRule(tool=BASH, word="ask"),),)),
        "on-request": NO_LIMITS,
        "on-failure": NO_LIMITS,
        "never": _LOOSENS,
    },
}
"""The keys that have one word, and what each word means."""


def limits_of_front_matter(fields: Mapping[str, object], source: str) -> RoleLimits:
    """Return the limits in the front matter of a Markdown file, its scalars all texts.

    Raises ConfigError with the file and the key.
    """
    # First: a key that is misspelt must not leave the role without its limit.
    _require_known(fields, _MARKDOWN_KEYS, source)
    found = [_by_word(fields, key, source) for key in ("mode", "permissionMode")]
    for key, read in (
        ("tools", _tools),
        ("disallowedTools", _disallowed),
        ("permission", _permission),
    ):
        if key in fields:
            found.append(read(fields[key], source))
    model = _model(fields, source)
    # To inherit is what happens without a word, too.
    if model and model != "inherit":
        # OpenCode's names have a provider before them.
        of = OPENCODE if "/" in model else CLAUDE_CODE
        found.append(RoleLimits(model=model, model_of=of))
    return joined(found)


def limits_of_codex(fields: Mapping[str, object], source: str) -> RoleLimits:
    """Return the limits in a Codex agent file. Raises ConfigError with the file and the key."""
    known = {key: value for key, value in fields.items() if key not in _CODEX_ELSEWHERE}
    _require_known(known, _CODEX_KEYS, source)
    model = _model(fields, source)
    return joined(
        (
            _by_word(fields, "sandbox_mode", source),
            _by_word(fields, "approval_policy", source),
            RoleLimits(model=model, model_of=CODEX if model else ""),
        )
    )


def _require_known(fields: Mapping[str, object], known: frozenset[str], source: str) -> None:
    for key in fields:
        if key not in known and folded(key) in _NEARLY:
            hint = f"a limit is one of: {', '.join(sorted(known))}"
            raise ConfigError(f"{source}: {shown(key)} is no key of a role's limits", hint=hint)


def _malformed(source: str, key: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"{source}: {shown(key)} {why}", hint=hint)


def _in_short(value: object) -> str:
    """Return a scalar as it is written. Of no list is more said: a few lines may hold billions."""
    return str(value) if isinstance(value, str | int | float) else "a list or a table"


def _model(fields: Mapping[str, object], source: str) -> str:
    model = fields.get("model")
    if model is None:
        return ""
    if not isinstance(model, str) or not re.fullmatch(_MODEL, model):
        raise _malformed(source, "model", "is no name of a model", "write one, or leave it out")
    return model


def _by_word(fields: Mapping[str, object], key: str, source: str) -> RoleLimits:
    """Return what the word of a key means, nothing where the key is not there."""
    if key not in fields:
        return NO_LIMITS
    value, known = fields[key], _SAID_BY_A_WORD[key]
    if not isinstance(value, str) or value not in known:
        raise _malformed(source, key, "is none", f"write one of: {', '.join(known)}")
    said, limits = f"{key}: {value}", known[value]
    if limits is _LOOSENS:
        return RoleLimits(not_given=(said,))
    told = ", ".join((said, *limits.said))
    return replace(limits, said=(told,)) if limits.are_any else limits


# --- OpenCode's ----------------------------------------------------------------------------------


def _permission(value: object, source: str) -> RoleLimits:
    key = "permission"
    if isinstance(value, str):
        word = _word(value, _WORDS, source, key)
        if word == "allow":
            return RoleLimits(not_given=("permission: allow",))
        return _of_opencode([ToolRule(tool=ANY, word=word)], {ANY: value}, source, key)
    rules: list[ToolRule] = []
    table = _table(value, source, key)
    for tool, said in table.items():
        here = f"{key}.{tool}"
        if isinstance(said, str):
            word = _word(said, _WORDS, source, here)
            rules += _for_tool(tool, ANY, word, source=source, key=key)
            continue
        for pattern, each in _table(said, source, here).items():
            word = _word(each, _WORDS, source, f"{here}.{pattern}")
            rules += _for_tool(tool, pattern, word, source=source, key=key)
    return _of_opencode(rules, table, source, key)


def _for_tool(tool: str, pattern: str, word: Rule, *, source: str, key: str) -> list[ToolRule]:
    """To OpenCode all tools that edit are one."""
    if not re.fullmatch(_TOOL, tool):
        raise _malformed(source, key, f"has {shown(tool)}, which is no tool", "name a tool")
    names = tools_named(tool) or (tool,)
    names = EDITING if set(names) & set(EDITING) else names
    return [ToolRule(tool=name, pattern=pattern, word=word) for name in names]


def _of_opencode(
    rules: list[ToolRule], said: Mapping[str, object], source: str, key: str
) -> RoleLimits:
    # Refused, not left out: a role would be free of a `deny` that stands among too many words.
    if len(rules) > RULES_MAX:
        many = f"means {len(rules)} rules, one for each tool that edits"
        raise _malformed(source, key, many, f"{RULES_MAX} rules at most")
    if all(rule.word == "allow" for rule in rules):
        return NO_LIMITS
    return RoleLimits(lists=(tuple(rules),), said=tuple(_told(key, said)))


def _told(key: str, table: Mapping[str, object]) -> Iterator[str]:
    for tool, said in table.items():
        if isinstance(said, Mapping):
            yield from _told(f"{key}.{tool}", cast("Mapping[str, object]", said))
        else:
            yield f"{key}.{tool}: {said}"


def _word(value: object, words: Mapping[str, Rule], source: str, key: str) -> Rule:
    said = value.lower() if isinstance(value, str) else ""
    if said not in words:
        raise _malformed(
            source, key, f"is {shown(_in_short(value))}", f"write {' or '.join(words)}"
        )
    return words[said]


def _table(value: object, source: str, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or not value:
        raise _malformed(source, key, "is no table", "write `bash: deny` below it")
    table = cast("dict[object, object]", value)
    if len(table) > RULES_MAX:
        raise _malformed(source, key, "is too long", f"{RULES_MAX} rules at most")
    return {str(name): each for name, each in table.items()}


# --- Claude Code's -------------------------------------------------------------------------------


def _tools(value: object, source: str) -> RoleLimits:
    if isinstance(value, dict):
        switches = _table(cast("object", value), source, "tools")
        rules: list[ToolRule] = []
        for tool, said in switches.items():
            word = _word(said, _SWITCHES, source, f"tools.{tool}")
            rules += _for_tool(tool, ANY, word, source=source, key="tools")
        return _of_opencode(rules, switches, source, "tools")
    entries = _entries(value, source, "tools")
    if ("*", ANY) in entries:
        return NO_LIMITS
    # The denial first: the last rule that fits decides.
    rules = [ToolRule(tool=ANY, word="deny"), *_of_entries(entries, "allow", source, "tools")]
    named = ", ".join(_as_written(entries)) or "none"
    return RoleLimits(lists=(tuple(rules),), said=(f"tools: {named}, and no others",))


def _disallowed(value: object, source: str) -> RoleLimits:
    key = "disallowedTools"
    entries = _entries(value, source, key)
    rules = tuple(_of_entries(entries, "deny", source, key))
    said = f"disallowedTools: {', '.join(_as_written(entries))}"
    return RoleLimits(lists=(rules,), said=(said,)) if rules else NO_LIMITS


def _entries(value: object, source: str, key: str) -> list[tuple[str, str]]:
    """Return the (tool, pattern) pairs of a list, or of a text with commas."""
    hint = "write `Read, Grep`; [] for none"
    if isinstance(value, str) and value.strip():
        pieces: Sequence[object] = [each for each in re.split(_BETWEEN, value) if each.strip()]
    elif isinstance(value, list):
        pieces = cast("list[object]", value)
    else:
        raise _malformed(source, key, "is no list of tools", hint)
    if len(pieces) > RULES_MAX:
        raise _malformed(source, key, "is too long", f"{RULES_MAX} tools at most")
    entries: list[tuple[str, str]] = []
    for piece in pieces:
        found = re.fullmatch(_ENTRY, piece.strip()) if isinstance(piece, str) else None
        if found is None:
            raise _malformed(source, key, f"has {shown(_in_short(piece))}, which is no tool", hint)
        entries.append((found["tool"], _as_pattern(found["pattern"])))
    return entries


def _as_pattern(written: str | None) -> str:
    """`git diff:*` is what begins with these words."""
    if written is None or not written.strip():
        return ANY
    return f"{written.removesuffix(':*')} *" if written.endswith(":*") else written


def _of_entries(
    entries: Sequence[tuple[str, str]], word: Rule, source: str, key: str
) -> Iterator[ToolRule]:
    for tool, pattern in entries:
        names = tools_named(tool)
        # Its rules for paths are read in another way than any pattern here (ADR 80).
        if pattern != ANY and names not in {(BASH,), ("task",)}:
            raise _malformed(
                source,
                key,
                f"has {tool}({pattern}), and upthread cannot tell what that names",
                f"write {tool} alone; only commands and sub-agents are told apart here",
            )
        if word == "deny" and names == ("edit",) and folded(tool) == "edit":
            names = EDITING  # its rules for Edit are for every tool that edits
        patterns = pattern.split(",") if names == ("task",) else [pattern]
        for name in names or (tool,):
            for each in patterns:
                yield ToolRule(tool=name, pattern=each.strip(), word=word)


def _as_written(entries: Sequence[tuple[str, str]]) -> list[str]:
    return [tool if pattern == ANY else f"{tool}({pattern})" for tool, pattern in entries]
