"""OpenCode (opencode.ai) through the HTTP API of its own server, `opencode serve`.

`adapter` starts the server, `server` is its process and its API, `connection` holds one that runs,
`sessions` its sessions, `turn` decides what belongs to the running prompt and when that has ended,
`parts` turns messages and parts into events, `permissions` answers what the agent asks, `outcomes`
says what its failures mean. `histories` reads the database and makes it valid in a copy, `outline`
lists it at a glance, `stored` reads a session back as events. Written for 1.18.33.
"""
