"""What agents call while they work: plug-ins and hooks, which decide here, without a daemon.

Run as a file, `python -I -S …/surfaces/hook/__main__.py AGENT HOME`, one JSON object on standard
input, one on standard output. Only the standard library and the light modules of upthread; whatever
goes wrong, the agent goes on and a person is told.
"""
