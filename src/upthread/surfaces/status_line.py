"""One line for an agent's status line, or a shell's prompt: which workstream, and what runs.

Run as a file, `python -I -S …/status_line.py HOME LIBRARY…`, with Claude Code's object on standard
input or nothing. Empty where nobody has used upthread.
"""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/upthread/surfaces/")[0])
    sys.path += sys.argv[2:]

from upthread.boundary.own_files import home_of_hooks
from upthread.client.agent_calls import AgentCalls
from upthread.client.project_opener import open_agent_calls
from upthread.core.codec import text_at
from upthread.core.names import NONE
from upthread.core.text import visible_line
from upthread.errors import NotFoundError

AGENT = "claude-code"
REQUEST_BYTES_MAX = 1024 * 1024
LINE_CHARACTERS_MAX = 500
WAIT_S = 0.3


def line(home: str, asked: object) -> str:
    """Return the line; empty in a project that nobody has used upthread in."""
    directory = text_at(asked, "workspace", "current_dir") or text_at(asked, "cwd") or "."
    environment = {**os.environ, "UPTHREAD_HOME": home}
    place = Path(directory).absolute()
    try:
        with open_agent_calls(place, environment=environment, wait_s=WAIT_S) as calls:
            told = _told(calls, text_at(asked, "session_id"))
    except NotFoundError:
        return ""
    return visible_line(told, characters_max=LINE_CHARACTERS_MAX)


def _told(calls: AgentCalls, session: str) -> str:
    workstream, because = calls.workstream_of(AGENT, session)
    view = calls.standing(workstream)
    told = ["no workstream" if because == NONE else workstream]
    if view is not None:
        running = (role for role in view.roles if role.holder is not None)
        told += [f"{role.conversation.address.rpartition('/')[2]} running" for role in running]
        if questions := len(view.open_questions):
            told.append(f"{questions} open question" + ("" if questions == 1 else "s"))
    return " · ".join(told)


def main(arguments: list[str]) -> None:
    """Print the line. Whatever goes wrong stands there instead: an agent shows what it gets."""
    try:
        # In a shell's prompt nobody writes, and to read would hold the prompt for ever.
        raw = b"" if os.isatty(0) else os.read(0, REQUEST_BYTES_MAX)
        asked: object = json.loads(raw) if raw.strip() else {}
        home = home_of_hooks(os.environ, arguments[0])
        print(line(home, asked))  # noqa: T201  # its output
    except Exception as error:  # noqa: BLE001  # a status line never ends an agent
        print(f"upthread: {type(error).__name__}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
