"""Where upthread keeps its own files, on this machine and for this user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs


def home_directory(environment: Mapping[str, str]) -> Path:
    """Return where upthread keeps its files: UPTHREAD_HOME, else the platform's data directory."""
    chosen = environment.get("UPTHREAD_HOME")
    return Path(chosen) if chosen else platformdirs.user_data_path("upthread", appauthor=False)
