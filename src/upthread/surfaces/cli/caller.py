"""The caller: whether a person is at the terminal, or a program or a model runs us.

A person types: standard input is their terminal, and we are what they run in it. Agents give the
shells they open variables of their own; where one is found, here or in a process above this one, a
model is acting, terminal or not. A program that takes pains to look like a person, and leaves its
agent's processes behind, cannot be told from one: it has the person's rights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain

from upthread.boundary.ancestry import environments_above
from upthread.core.actors import PERSON, PROGRAM, Actor, model_of


def who_acts(environment: Mapping[str, str]) -> Actor:
    """Return who runs this process, as far as it can be told."""
    # The nearest first: a shell that cleaned its environment stands below its agent all the same.
    models = (model_of(each) for each in chain([environment], environments_above()))
    return next(filter(None, models), PERSON if is_at_terminal() else PROGRAM)


def is_person(environment: Mapping[str, str]) -> bool:
    """Return whether a person runs this process."""
    return who_acts(environment).kind == "person"


def is_at_terminal(descriptor: int = 0) -> bool:
    """Return whether standard input is the terminal this process is in the foreground of."""
    try:
        # A terminal alone does not do: what runs in the background of one has nobody who types.
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # no terminal, another's, or closed
        return False
