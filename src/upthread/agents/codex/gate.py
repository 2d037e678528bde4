"""A hook of Codex's, for one that upthread has started: asked before each call of a tool.

Run by itself, isolated, with the standard library alone. What is held back does not run, and
neither does what nobody answers: then upthread has gone, and Codex goes after it.
"""

import json
import os
import socket
import sys

GONE = "upthread does not answer, so this is not run"


def main() -> None:
    """Ask about the call on standard input; print a hook's answer where it must not run."""
    try:
        told = json.load(sys.stdin)
        question = {
            # A sub-agent's call names its own thread beside the main one's.
            "session": told.get("agent_id") or told.get("session_id"),
            "call": told.get("tool_use_id"),
            "tool": told.get("tool_name"),
            "arguments": told.get("tool_input"),
        }
        held = _asked(question)
    except Exception as error:  # noqa: BLE001  # Codex lets run what a failing hook was asked about
        held = f"{GONE}: {error!r}"
    # Silence, and no `allow`, for what may run: what Codex's own settings ask about, it still asks.
    if held:
        decision = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": held,
        }
        sys.stdout.write(json.dumps({"hookSpecificOutput": decision}))


def _asked(question: dict[str, object]) -> str:
    host, port, token = os.environ["UPTHREAD_CALLS"].split(" ")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(json.dumps({**question, "token": token}).encode() + b"\n")
        with connection.makefile("rb") as answer:
            held = json.loads(answer.readline())["held"]
    # Another program may have the port by now: only an empty text lets the call run.
    if not isinstance(held, str):
        raise TypeError("that was another program")
    return held


if __name__ == "__main__":
    main()
