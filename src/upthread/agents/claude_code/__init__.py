"""Claude Code through its own stream of JSON lines (`claude -p`), one process for each session.

`adapter` starts the CLI, attaches and prompts, `translation` turns its frames into events and says
how a turn ended. `transcripts` is what its store holds, `reader` reads a session back, knows who
else holds one and repairs in a copy; what an entry is, which hooks read too, `entries`. Written for
Claude Code 2.1 (2.1.330).
"""
