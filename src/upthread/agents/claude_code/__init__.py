"""Claude Code through its own stream of JSON lines (`claude -p`), one process for each session.

`adapter` finds out what is installed, `connection` attaches and prompts, `process` is one running
CLI, its words and the requests both ways, `translation` turns its frames into events, `tools` names
its tools in ACP's words and answers whether they may run, `outcomes` says how a turn ended.
`histories` reads its transcripts and makes them valid in a copy, `outline` lists them at a glance,
`stored` reads a session back as events and knows who else holds one; what an entry is, which hooks
read too, `entries`. Written for Claude Code 2.1 (2.1.330).
"""
