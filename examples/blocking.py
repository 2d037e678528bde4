"""The same calls from code that is not async: `python examples/blocking.py`."""

from __future__ import annotations

import upthread


def main() -> None:
    """Tell a role something and list what it said so far."""
    options = upthread.TellOptions(agent="rehearsal")
    with upthread.open_blocking(".") as (up, wait):
        wait(up.tell, "export/planner", "[[rehearse: say hello]]", options)
        for message in wait(up.conversation, "export/planner"):
            print(message.seq, message.speaker, message.text)


if __name__ == "__main__":
    main()
