"""The rehearsal agent: a child process that speaks ACP, with rules where others have a model.

Run as `python -I -m upthread.agents.rehearsal`. It keeps its own sessions on disk, reads and
writes real files, runs real commands, and remembers only what the session it was given holds, so
that lost continuity shows. It fails on request. Standard library only, nothing else of upthread:
it is started thousands of times, and it stands for a stranger. docs/rehearsal.md has the words.
"""
