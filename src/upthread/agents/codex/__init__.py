"""Codex (openai/codex) through its own server on pipes, `codex app-server`.

`adapter` starts the server, holds one that runs and answers what it asks, `server` knows its
threads and what belongs to the running prompt, `items` turns what was said and done into events and
says what its failures mean; `gate` is the hook of ours that it runs. `rollouts` is what its store
holds, `reader` reads a thread back and repairs in a copy. Written for 0.169.0.
"""
