"""OpenCode (opencode.ai) through the HTTP API of its own server, `opencode serve`.

`adapter` holds a server that runs, and its sessions, `server` is its process and its API, and what
it asks, `turn` turns what it tells into events and decides what belongs to the running prompt.
`database` is its store, `reader` reads a session back and repairs in a copy. Written for 1.18.33.
"""
