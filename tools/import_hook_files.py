"""Take in the sessions that the hooks of versions before December 2026 kept in files.

    python -m tools.import_hook_files [UPTHREAD_HOME]

Each file `hooks/projects/*/bindings/*.json` names a workstream, a role, an agent and its session.
A session that is not on record yet is adopted, so that its role continues in it. Run it in the
repository that the sessions are of; sessions of other repositories are refused by `upthread adopt`,
and named. Nothing is deleted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upthread.boundary.own_files import home_directory

FIELDS = ("workstream", "role", "agent", "session")


def bindings(home: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each binding that names all it needs, with its file; the others are told on stderr."""
    for path in sorted(home.glob("hooks/projects/*/bindings/*.json")):
        try:
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            print(f"{path}: not read: {error}", file=sys.stderr)
            continue
        if isinstance(found, dict) and all(found.get(name) for name in FIELDS):
            yield path, found
        else:
            print(f"{path}: names no session", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """Adopt each session; returns how many were not."""
    home = Path(arguments[0]) if arguments else home_directory(os.environ)
    refused = 0
    for path, found in bindings(home):
        slot = f"~{found['slot']}" if found.get("slot", 1) not in {0, 1} else ""
        address = f"{found['workstream']}/{found['role']}{slot}"
        words = ("adopt", address, str(found["session"]), "--agent", str(found["agent"]))
        done = subprocess.run([sys.executable, "-m", "upthread", *words], check=False)
        if done.returncode:
            refused += 1
            print(f"{path}: {address} was not taken in", file=sys.stderr)
    return refused


if __name__ == "__main__":
    raise SystemExit(min(main(sys.argv[1:]), 125))
