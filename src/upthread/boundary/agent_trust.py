"""Whether a person trusts a directory, as the configuration of an agent records it. Read only.

Claude Code (2.1.332) records trust in `.claude.json`, and trust in a directory includes those below
it. Codex (0.171.0) records it in `config.toml`, for the directory or the repository. OpenCode
(1.18.33) records nothing.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from upthread.boundary import files
from upthread.boundary.consents import Consents
from upthread.core.agents import AGENTS
from upthread.core.config_file import AgentSettings
from upthread.core.trust import project_settings_item


def held_by_project(agent: str, place: str, environment: Mapping[str, str]) -> bool:
    """Return whether a directory, or one above it, holds settings for an agent. Blocking.

    Instructions count if they are a link that leads out of their directory, because they would be
    sent. Agents also go by what is above, except in the person's home and above that.
    """
    row = AGENTS.get(agent)
    home = os.path.realpath(environment.get("HOME") or "/")
    here = Path(os.path.realpath(place))
    above = itertools.takewhile(lambda each: str(each) != home, here.parents)
    return row is not None and any(
        os.path.lexists(each / name) if name in row.project_settings else _leads_out(each, name)
        for each in (here, *above)
        for name in (*row.project_settings, *row.project_instructions)
    )


def _leads_out(place: Path, name: str) -> bool:
    return not Path(os.path.realpath(place / name)).is_relative_to(place)


def trusted_agents(
    working_directory: Path,
    environment: Mapping[str, str],
    agents: Mapping[str, AgentSettings],
    consents: Consents,
) -> Iterator[str]:
    """Yield the agents whose project settings in this directory may be used.

    Either the agent's configuration trusts the directory, or a person agreed with `upthread trust`.
    """
    for name, row in AGENTS.items():
        if not held_by_project(name, str(working_directory), environment):
            continue
        own = agents[name].environment if name in agents else {}
        places = (str(working_directory), consents.repository)
        item = project_settings_item(name, row.project_settings)
        if is_trusted_in(name, places, {**environment, **own}) or (
            not row.heeds_trust and consents.cover(item)
        ):
            yield name


def is_trusted_in(agent: str, places: Iterable[str], environment: Mapping[str, str]) -> bool:
    """Return whether an agent's own configuration trusts one of these directories. Blocking.

    False if the configuration cannot be read. `environment` gives its place, for example by
    CLAUDE_CONFIG_DIR.
    """
    reader = _READERS.get(agent)
    if reader is None or not environment.get("HOME"):
        return False
    real = [Path(os.path.realpath(each)) for each in places]
    try:
        return reader(real, environment)
    # Another program writes this file, so it may have any form.
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _claude_code(places: Iterable[Path], environment: Mapping[str, str]) -> bool:
    home = environment.get("CLAUDE_CONFIG_DIR") or environment["HOME"]
    known = json.loads(_content(Path(home, ".claude.json"))).get("projects", {})
    within = (str(each) for place in places for each in (place, *place.parents))
    return any(known.get(each, {}).get("hasTrustDialogAccepted") is True for each in within)


def _codex(places: Iterable[Path], environment: Mapping[str, str]) -> bool:
    import tomllib

    home = environment.get("CODEX_HOME") or Path(environment["HOME"], ".codex")
    known = tomllib.loads(_content(Path(home, "config.toml"))).get("projects", {})
    return any(known.get(str(each), {}).get("trust_level") == "trusted" for each in places)


def _content(path: Path) -> str:
    raw = files.read_all(files.through_links(str(path)), str(path), bytes_max=CONTENT_BYTES_MAX)
    return raw.decode("utf-8")


CONTENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Claude Code keeps what it knows of every project in that file."""

_Reader = Callable[[Iterable[Path], Mapping[str, str]], bool]
_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {"claude-code": _claude_code, "codex": _codex}
)
