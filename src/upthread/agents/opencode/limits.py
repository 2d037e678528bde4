"""A role's limits as OpenCode takes them with a prompt: tools that are off, and the model. Pure.

Only ever `false`: a tool that is switched on would pass by what the person's own configuration asks
about. What is denied for some arguments only, our gate refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.core.roles.limits import EDITING, RoleLimits, denies_wholly, named_tools

TOOLS: Final = ("bash", "codesearch", "external_directory", "glob", "grep", "list", "lsp", "read")
"""OpenCode's tools and permissions, as seen in 1.18.33; `edit` stands for all that edit."""
MORE_TOOLS: Final = ("question", "skill", "task", "todoread", "todowrite", "webfetch", "websearch")


def prompt_limits(limits: RoleLimits, *, agent: str) -> Mapping[str, Any]:
    """Return the members of a prompt's body that hold the limits, none for none."""
    off = [tool for tool in (*TOOLS, *MORE_TOOLS) if denies_wholly(limits, tool)]
    off += ["edit"] if all(denies_wholly(limits, tool) for tool in EDITING) else []
    off += [tool for tool in named_tools(limits) if denies_wholly(limits, tool) and tool not in off]
    provider, _, model = limits.model_for(agent).partition("/")
    return {
        **({"tools": dict.fromkeys(off, False)} if off else {}),
        **({"model": {"providerID": provider, "modelID": model}} if model else {}),
    }
