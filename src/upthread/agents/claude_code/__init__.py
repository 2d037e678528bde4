"""Claude Code through its own stream of JSON lines (`claude -p`), one process for each session.

`adapter` finds out what is installed, `connection` attaches and prompts, `process` is one running
CLI and the requests both ways, `translation` turns its frames into events, `tools` names its tools
in ACP's words, `outcomes` says how a turn ended, `permissions` answers its questions, `histories`
reads its transcripts, whose `entries` hooks read too, `repair` makes them valid in a copy,
`transcript` and `stored` read a session back as events, `writers` knows who else holds one. Written
for Claude Code 2.1 (2.1.330).
"""
