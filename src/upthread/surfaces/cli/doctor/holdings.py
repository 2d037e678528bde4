"""Holdings: how much is recorded of the project, and which files hold it.

Part of `doctor`. Who can read a file is its owner and mode, and
those of the directory it lies in.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from upthread.client.file_permissions import day_of, logs
from upthread.client.project import Project
from upthread.core.types import RecordMode
from upthread.runtime.record.erasure import HeldWorkstream, Selection
from upthread.store.address import database_files, key_path
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import counted


class HeldFile(Struct, frozen=True, kw_only=True):
    """A file of upthread's; the names are the JSON keys. `read_by` is you, your group or others."""

    path: str
    size_bytes: int
    mode: str
    read_by: str


class Holdings(Struct, frozen=True, kw_only=True):
    """What is recorded of a project, and where. `oldest_at_ms` is None where there is no text."""

    record: RecordMode
    workstreams: int
    conversations: int
    parts: int
    content_bytes: int
    oldest_at_ms: int | None
    content_days: int | None
    stderr_days: int | None
    files: tuple[HeldFile, ...]


async def holdings(project: Project) -> Holdings:
    """Return what there is."""
    held = await project.forgetting.held(Selection())
    files = await anyio.to_thread.run_sync(lambda: tuple(_files(project)))
    return _summed(project, held, files)


def show(output: Output, found: Holdings) -> None:
    """Tell it to a person, what others could read in colour."""
    since = f", the oldest of {day_of(found.oldest_at_ms)}" if found.oldest_at_ms else ""
    output.line(
        f"recorded ({found.record}): {counted(found.workstreams, 'workstream')},"
        f" {counted(found.conversations, 'conversation')}, {counted(found.parts, 'part')},"
        f" {found.content_bytes:,} bytes of text{since}; {_kept(found)}"
    )
    for file in found.files:
        style = "dim" if file.read_by == "you" else "red"
        output.row((f"  {file.path}: {file.size_bytes:,} bytes, ", "dim"), (_readers(file), style))


def _readers(file: HeldFile) -> str:
    return f"{file.mode}, read by {file.read_by}"


def _kept(found: Holdings) -> str:
    if found.content_days is None:
        return "kept for ever"
    return f"kept for {counted(found.content_days, 'day')} by `upthread keep`"


def _summed(
    project: Project, held: tuple[HeldWorkstream, ...], files: tuple[HeldFile, ...]
) -> Holdings:
    contents = [each.held for workstream in held for each in workstream.conversations]
    times = [one.oldest_at_ms for one in contents if one.oldest_at_ms is not None]
    keep = project.settings.keep
    return Holdings(
        record=project.settings.record,
        workstreams=len(held),
        conversations=len(contents),
        parts=sum(one.parts for one in contents),
        content_bytes=sum(one.content_bytes for one in contents),
        oldest_at_ms=min(times, default=None),
        content_days=keep.content_days,
        stderr_days=keep.stderr_days,
        files=files,
    )


def _files(project: Project) -> Iterator[HeldFile]:
    home, database = Path(project.settings.home), project.settings.database
    own = (*database_files(database), key_path(database, home))
    for path in (
        *own,
        *(log.path for log in logs(home)),
        *_below(home / "hooks"),
        *_below(home / "repairs"),
    ):
        # Most may be there and need not be: a log of SQLite's is, only while the file is in use.
        if path.is_file():
            yield _held(path)


def _below(place: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(place):
        yield from (Path(directory, name) for name in sorted(names))


def _held(path: Path) -> HeldFile:
    found, around = path.stat(), path.parent.stat()
    return HeldFile(
        path=str(path),
        size_bytes=found.st_size,
        mode=f"{stat.S_IMODE(found.st_mode):04o}",
        read_by=_read_by(found.st_mode, around.st_mode),
    )


def _read_by(mode: int, around: int) -> str:
    """A directory that nobody else may enter closes what is in it."""
    if mode & stat.S_IROTH and around & stat.S_IXOTH:
        return "everybody"
    return "your group" if mode & stat.S_IRGRP and around & stat.S_IXGRP else "you"
