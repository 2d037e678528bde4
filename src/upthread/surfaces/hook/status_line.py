"""One line for an agent's status line, or a shell's prompt: which workstream, and what runs.

Run as a file, `python -I -S …/surfaces/hook/status_line.py HOME`, with Claude Code's object on
standard input or nothing. It reads what hooks read, and nothing where nobody has set them up.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/upthread/surfaces/hook/")[0])

from upthread.boundary.own_home import home_of_hooks
from upthread.core.decision.words import address_in_words
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import list_in, loads, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.call import workstream_of
from upthread.surfaces.hook.decision_line import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "claude-code"
REQUEST_BYTES_MAX = 1024 * 1024
LINE_CHARACTERS_MAX = 500


def line(home: str, asked: dict[str, Any]) -> str:
    """Return the line; empty in a place that nobody has set up."""
    directory = text_in(object_in(asked, "workspace"), "current_dir") or text_in(asked, "cwd")
    place = Place(home, directory or ".")
    if place.read() is None:
        return ""
    workstream, _ = workstream_of(place, AGENT, text_in(asked, "session_id"))
    if workstream is None:
        return "no workstream"
    known = list_in(place.known or {}, "workstreams")
    questions = sum(
        number_in(each, "open_questions") for each in known if text_in(each, "name") == workstream
    )
    running = [
        address_in_words(workstream, text_in(each, "role"), number_in(each, "slot")).rpartition(
            "/"
        )[2]
        for _, each in bindings(place, lambda b: text_in(b, "workstream") == workstream)
        if number_in(each, "slot")
        # Under way and not only claimed: a dead process would run here until the next call.
        and is_claimed_by_another(each, "")
    ]
    told = [workstream, *(f"{name} running" for name in running)]
    if questions:
        told.append(f"{questions} open question" + ("" if questions == 1 else "s"))
    return one_line(" · ".join(told), characters_max=LINE_CHARACTERS_MAX)


def main(arguments: list[str]) -> None:
    """Print the line. Whatever goes wrong stands there instead: an agent shows what it gets."""
    try:
        # In a shell's prompt nobody writes, and to read would hold the prompt for ever.
        raw = b"" if os.isatty(0) else os.read(0, REQUEST_BYTES_MAX)
        home = home_of_hooks(os.environ, arguments[0])
        print(line(home, loads(raw.decode()) if raw.strip() else {}))  # noqa: T201  # its output
    except Exception as error:  # noqa: BLE001  # a status line never ends an agent
        print(f"upthread: {type(error).__name__}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
