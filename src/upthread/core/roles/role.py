"""Roles: who works on a workstream, read from the files agents already have.

Three formats: Markdown with YAML front matter as Claude Code and OpenCode write it (also plain
`agents/*.md`), and Codex's TOML. The overlay in `upthread.toml` adds continuity and agent; the
files themselves are never rewritten. Text in, values out: reading files is config's work.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, structs

from upthread.core.names import parse_role, shown
from upthread.core.roles.fields import limits_of_codex, limits_of_front_matter
from upthread.core.roles.limits import NO_LIMITS, RoleLimits
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
    return structs.replace(role, **changes)


def without_model(role: Role) -> Role:
    """Return the role with the agent's own model: nobody agreed to what another one costs."""
    named = role.limits.model
    if not named:
        return role
    not_given = (*role.limits.not_given, f"model: {named}")
    return structs.replace(
        role, limits=structs.replace(role.limits, model="", model_of="", not_given=not_given)
    )


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


_PLAIN_LINE: Final = r"([a-z][a-z_]{0,63}): +([A-Za-z0-9](?:[A-Za-z0-9 ,.;/()_'-]*[A-Za-z0-9.)])?)"
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


KEY_PARTS_MAX: Final = 32
"""How many parts a dotted key may have. Ours have four."""

_PART: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_LONG_KEY: Final = re.compile(
    rf"(?m)^[ \t]*\[{{0,2}}[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}"
)
_LONG_KEY_WITHIN: Final = re.compile(
    rf"[{{,][ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}"
)


def read_toml(text: str) -> dict[str, Any]:
    """Return a TOML document as plain values. Raises ValueError that says what is wrong."""
    import tomllib  # noqa: PLC0415  # a look reads no configuration, and loads roles for their names

    if _LONG_KEY.search(text) or _LONG_KEY_WITHIN.search(text):
        raise ValueError(f"a key has more than {KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
