"""Sessions of the Claude Agent SDK in upthread's record, listed without Claude Code's own files.

    pip install 'upthread[claude-agent-sdk]'
    python claude_agent_sdk_store.py

Claude Code writes a session's entries as it works; here they are given, so that no key is needed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions, list_sessions_from_store, project_key_for_directory

from upthread.integrations.claude_agent_sdk import UpthreadSessionStore


async def main() -> None:
    """Keep what a session said, and list what there is."""
    store = UpthreadSessionStore()  # in place of a store of your own
    # With a key of yours: query(prompt="…", options=options), then resume=SESSION, on any machine.
    options = ClaudeAgentOptions(session_store=store, cwd=Path.cwd())
    session_id = str(uuid4())
    key = {"project_key": project_key_for_directory(options.cwd), "session_id": session_id}
    entry = {
        "type": "user",
        "uuid": str(uuid4()),
        "sessionId": session_id,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": "Plan the parser."},
    }
    await store.append(key, [entry])
    for each in await list_sessions_from_store(store, directory=str(options.cwd)):
        print(each.session_id, each.summary)
    store.close()


asyncio.run(main())
