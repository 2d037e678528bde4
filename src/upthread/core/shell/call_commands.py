"""What a call is, as a configuration sees it: its kind, and whether it holds a command. Pure.

Apart from the judging of calls (core/shell/expected_call.py), which knows all of shell: whoever
only reads a configuration loads none of it. To see one command too many is only stricter; what is
recorded and compared as the command is `commands_of` of core/outward/calls.py.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from upthread.core.names import folded
from upthread.core.types import JsonValue

Rule: TypeAlias = Literal["allow", "deny", "ask"]

EXECUTE = "execute"
OTHER = "other"

KINDS = frozenset(
    {"read", "edit", "delete", "move", "search", EXECUTE, "think", "fetch", "switch_mode"}
)
"""ACP's kinds of tools that say something; `other`, and what an agent makes up, says nothing."""

CHANGING = frozenset({"edit", "delete", "move"})
"""The kinds that change files by name."""

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


# --- whether what an agent said of a call holds a command, wherever it put it ---------------------


COMMAND_KEYS = frozenset(
    """
    argv bash cmd command commandline commands script shell shellcommand
    """.split()
)
"""Names under which agents hand over a command; compared without case and marks."""

TEXT_KEYS = frozenset(
    """
    after before content diff filetext newsource newstring newtext oldstring oldtext patch
    """.split()
)
"""Names under which agents hand over a file's text. JSON in it is what is written, not called."""

_JSON = r"\s*[\[{]"
# Bounded, and never begun within a run of backslashes: a text of nothing else stays linear.
_ESCAPE = r"(?<!\\)\\{1,64}u([0-9a-fA-F]{4})"
_MEMBER = r"""(?x)
    "([\w\ -]{1,40})\\{0,64}"\s*:\s*              # its name
    (?=\\{0,64}"\s*[^\s"\\] | [\[{]\s*[^\s\]}])  # and something as its value
    """
"""A member of an object in JSON, or in JSON in JSON. Bounded: an agent may write any text."""

_TITLE = r"\s*(?:`[^`]*[^`\s]|(?:/\S{1,200}/)?(?:ba|da|fi|k|z)?sh\s+-\w{0,4}c\s)"


def holds_command(arguments: JsonValue) -> bool:
    """Return whether a call's arguments hold a command, at any depth and in JSON in a string.

    How deep they are is bounded before: by the quota for one frame.
    """
    waiting: list[JsonValue] = [arguments]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            # Arguments may come as JSON in a string: what is in there is called just as well.
            if any(name in COMMAND_KEYS for name in _names_in(each)):
                return True
        elif isinstance(each, Mapping):
            said = [n for n, v in each.items() if v and isinstance(v, str | Mapping | Sequence)]
            if any(folded(name) in COMMAND_KEYS for name in said):
                return True
            waiting += [
                inner
                for name, inner in each.items()
                # A file that is written may hold JSON with a command; nothing of it runs by that.
                if not (isinstance(inner, str) and folded(name) in TEXT_KEYS)
            ]
        elif isinstance(each, Sequence):
            waiting += each
    return False


def is_command(title: str | None) -> bool:
    """Return whether a title is a command: in backquotes, as agents show one, or a shell's."""
    return re.match(_TITLE, title or "") is not None


def _names_in(text: str) -> Iterator[str]:
    """Yield the names of members in a string that is JSON; found, not decoded: it may be long."""
    if re.match(_JSON, text):
        plain = re.sub(_ESCAPE, lambda escape: chr(int(escape[1], 16)), text)
        yield from (folded(found[1]) for found in re.finditer(_MEMBER, plain))
