"""Codex (openai/codex) through its own server on pipes, `codex app-server`.

`adapter` starts the server, `server` asks it and hears what it tells, `connection` holds one
running server, `threads` its sessions, `turn` decides what belongs to the running prompt and when
that has ended, `items` turns what was said and done into events, `children` knows the sub-agents,
`permissions` answers what the agent asks, `outcomes` says what its failures mean. Written for
0.169.0.
"""

from upthread.agents.codex.adapter import CodexAdapter

__all__ = ["CodexAdapter"]
