"""Codex (openai/codex) through its own server on pipes, `codex app-server`.

`adapter` starts the server and holds one that runs, `server` asks it and knows its threads, `turn`
decides what belongs to the running prompt and when that has ended, `items` turns what was said and
done into events, `permissions` answers what the agent asks, `outcomes` says what its failures mean,
`hooks` are those it runs, one of them ours: `gate`. `histories` reads the rollouts and makes them
valid in a copy, `outline` lists them at a glance, `stored` reads a thread back as events. Written
for 0.169.0.
"""
