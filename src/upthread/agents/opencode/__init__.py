"""OpenCode (opencode.ai) through the HTTP API of its own server, `opencode serve`.

`adapter` starts the server, `client` speaks its API, `connection` holds one running server,
`sessions` its sessions, `turn` decides what belongs to the running prompt and when that has ended,
`parts` turns messages and parts into events, `children` knows the sub-agents, `permissions` answers
what the agent asks, `outcomes` says what its failures mean. `histories` reads the database,
`repair` makes it valid in a copy, `stored` reads a session back as events. Written for 1.18.33.
"""
