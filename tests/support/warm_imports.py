"""All that a verb of upthread's may import: imported once, by the server that forks processes."""

import importlib
import pkgutil

from upthread import agents, client, runtime
from upthread.store import sqlite
from upthread.surfaces import cli

PROGRAMS = frozenset({"__main__", "gate", "repair"})
"""Modules that are run, and do their work while they are imported."""

for package in (agents, client, runtime, sqlite, cli):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.rpartition(".")[2] not in PROGRAMS:
            importlib.import_module(found.name)
