"""Hostile clones: folders as strangers hand them over, each with an attack and a canary.

`CLONES` are all of them, by name. A builder makes the folder on disk with the real git; what must
hold in it is for its user to say: nothing of it is run, nothing hangs, nothing outside is written.
"""

from tests.support.hostile_clones import (
    configuration,
    git_configuration,
    git_layout,
    git_transport,
    languages,
    names,
    roles,
    special_files,
)
from tests.support.hostile_clones.canary import SECRET, Canary, CanaryRun, runs_of_ours
from tests.support.hostile_clones.clone import HostileClone, make_ordinary_repository, registered

GROUPS = (
    git_configuration,
    git_transport,
    git_layout,
    names,
    languages,
    configuration,
    roles,
    special_files,
)
CLONES = registered()

__all__ = [
    "CLONES",
    "SECRET",
    "Canary",
    "CanaryRun",
    "HostileClone",
    "make_ordinary_repository",
    "runs_of_ours",
]
