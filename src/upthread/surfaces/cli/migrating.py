"""`migrate`: the schema of a shared database, made or moved on. Nothing else ever changes it."""

from __future__ import annotations

import os
from pathlib import Path

from upthread.client.stores import migrate_store
from upthread.config import load_settings
from upthread.surfaces.cli.call import Call


def migrate(call: Call) -> int:
    """Bring the database of `--db` or UPTHREAD_DB up to this version's schema."""
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    done = migrate_store(settings.database)
    if call.output.is_json:
        call.output.json(done._asdict())
    elif done.schema_before == done.schema_after:
        call.output.line(f"{done.database}: schema {done.schema_after}, nothing to do")
    else:
        was = f"schema {done.schema_before} → {done.schema_after}"
        call.output.line(f"{done.database}: {was}", "green")
    return 0
