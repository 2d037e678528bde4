"""The briefing of a fresh session, which a person may edit."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from upthread.boundary import files, programs
from upthread.client.briefing import Briefing
from upthread.client.project import Project
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import conversation_name

EDITED_BYTES_MAX = 1024 * 1024


def show_briefing(call: Call, address: str, *, is_edit: bool, source: str | None) -> int:
    """Show a briefing, after a person edited it or gave its text in a file, `-` for stdin."""
    if is_edit and source is not None:
        raise UsageError("a briefing is edited or read from a file", hint="leave one of them out")
    given = None if source is None else _given(source)

    async def use(project: Project) -> tuple[Briefing, tuple[str, ...]]:
        shown = await project.brief(address)
        if given is not None:
            return await project.brief.edit(shown, given)
        if is_edit:
            return await project.brief.edit(shown, _edited(shown.text))
        return shown, ()

    told, faults = call.with_project(use)
    output = call.output
    if output.is_json:
        output.json(_shape(told, faults))
        return 0
    for fault in faults:
        output.note(fault)
    _show(output, told)
    return 0


def _show(output: Output, told: Briefing) -> None:
    if told.text:
        output.foreign_document(told.text + "\n")
        return
    name = conversation_name(told.conversation)
    output.note(f"{name}: nothing is known yet, so a fresh session would be told nothing")


def _shape(told: Briefing, faults: tuple[str, ...]) -> dict[str, object]:
    return {
        "address": told.conversation.key.address,
        "instance_name": told.conversation.instance_name,
        "conversation_id": told.conversation.conversation_id,
        "text": told.text,
        "sections": [
            {"heading": each.heading, "is_edited": each.is_edited, "items": each.items}
            for each in told.sections
        ],
        "edits": told.edits,
        "faults": faults,
    }


def _given(source: str) -> str:
    """Return a file's text, or what standard input gives. Raises UsageError for too much."""
    if source != "-":
        return _read(Path(source))
    raw = sys.stdin.buffer.read(EDITED_BYTES_MAX + 1)
    if len(raw) > EDITED_BYTES_MAX:
        raise UsageError(
            f"the text has more than {EDITED_BYTES_MAX} bytes: nothing was changed",
            hint="give a shorter one",
        )
    return raw.decode("utf-8", "replace")


def _edited(text: str) -> str:
    """Return the text after a person's editor has had it. Raises UsageError when that fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("no editor is named", hint="set EDITOR, such as EDITOR=nano")
    with tempfile.TemporaryDirectory(prefix="upthread-") as folder:  # 0700: the text is private
        path = Path(folder, "briefing.md")
        path.write_text(text + "\n", encoding="utf-8", errors="replace")
        _run([*_words(editor), str(path)], editor, folder)
        return _read(path)


def _words(editor: str) -> list[str]:
    try:
        return shlex.split(editor)
    except ValueError as error:
        raise UsageError(f"EDITOR={editor!r} cannot be read: {error}") from error


def _run(command: list[str], editor: str, folder: str) -> None:
    try:
        # Never from the repository: a clone must not choose the editor.
        found = programs.absolute_command(command, os.environ, outside=(os.curdir,))
        if found is None:
            raise UsageError(
                f"the editor {editor!r} is not on PATH outside of this repository",
                hint="set EDITOR to one that is installed, or to its whole path",
            )
        # A person's own program, so it gets the person's whole environment.
        environment = {**os.environ, "PATH": programs.search_path(os.environ)}
        # In the folder of the text: started in the clone, an editor may load the clone's settings.
        done = subprocess.run(found, cwd=folder, env=environment, check=False)
    except OSError as error:
        raise UsageError(
            f"the editor {editor!r} cannot be started: {error.strerror}",
            hint="set EDITOR to one that is installed",
        ) from error
    if done.returncode != 0:
        raise UsageError(
            f"the editor ended with exit code {done.returncode}: nothing was changed",
            hint="edit it again",
        )


def _read(path: Path) -> str:
    try:
        raw = files.read_all(files.through_links(str(path)), "the text", bytes_max=EDITED_BYTES_MAX)
    except OSError as error:
        raise UsageError(
            f"the text in {path} cannot be read: {error.strerror}", hint="nothing was changed"
        ) from error
    return raw.decode("utf-8", "replace")
