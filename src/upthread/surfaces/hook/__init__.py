"""What agents call while they work: plug-ins and hooks, one process for each event, no daemon.

A hook opens the record and does one step of a turn there, as `tell` does
(runtime/turns/external_turn.py). One module translates for each agent; whatever goes wrong, the
agent continues and a person is told in one line.
"""
