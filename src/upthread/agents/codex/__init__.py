"""Codex (openai/codex) through its own server on pipes, `codex app-server`.

`adapter` starts the server, `server` asks it and hears what it tells, `connection` holds one
running server, `threads` its sessions, `turn` decides what belongs to the running prompt and when
that has ended, `items` turns what was said and done into events, `children` knows the sub-agents,
`permissions` answers what the agent asks, `outcomes` says what its failures mean. `histories` reads
the rollouts, `repair` makes them valid in a copy, `stored` reads a thread back as events. Written
for 0.169.0.
"""
