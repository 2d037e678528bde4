"""What is published for hooks, as the rest of the house finds it: its place, and a binding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.places import Place


def published_place(home: Path, root: Path, project_id: str) -> Place | None:
    """Return the place hooks read of a project, None where there is nothing of it. Blocking."""
    # One look is all that a turn costs more where there are no hooks (ADR 44).
    if not (home / "hooks" / "projects" / project_id).is_dir():
        return None
    place = Place(str(home), str(root))
    place.known = {"project_id": project_id}
    return place


def read_binding(path: str) -> dict[str, Any]:
    """Return a binding; one that cannot be read is made anew, as publishing does."""
    try:
        return files.read(path) or {}
    except files.UnreadableError:
        return {}


def installed_path(home: Path) -> str:
    """Return where `setup` writes down how a drain is started."""
    return str(home / "hooks" / spool.INSTALLED)
