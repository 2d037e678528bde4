"""The record's file: `backup`, `restore` and `encrypt`.

A restore shows what the copy lacks and asks; the present file is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

from upthread.client.database_files import (
    Lacking,
    Restored,
    back_up,
    plan_restore,
    restore,
)
from upthread.client.encryption import key_of, made_key
from upthread.config import Settings, load_settings
from upthread.errors import UsageError
from upthread.store.address import file_path, is_postgres
from upthread.store.sqlite.encryption import change_key, has_key
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.input import DECLINED, UNCHANGED, confirm
from upthread.surfaces.cli.terminal.neutral import command, one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted


def backup(call: Call, target: str | None) -> int:
    """Copy the database, while others write."""
    made = back_up(_settings(call), None if target is None else Path(target))
    if call.output.is_json:
        call.output.json(
            {
                "database": str(made.database),
                "backup": str(made.backup),
                "size_bytes": made.size_bytes,
                "key": None if made.key is None else str(made.key),
                "encryption_key": made.encryption_key,
            }
        )
        return 0
    call.output.line(f"{made.backup}: {made.size_bytes:,} bytes, copied and checked", "green")
    if made.key is not None:
        call.output.line(f"{made.key}: the key of its redactions")
    if made.encryption_key is not None:
        call.output.note(
            f"it is encrypted with the key in {made.encryption_key}, which is not copied: without "
            "that key nobody can read it",
            "yellow",
        )
    return 0


def put_back(call: Call, source: str, *, is_yes: bool, is_dry_run: bool) -> int:
    """Put a backup in the place of the database, which is kept aside."""
    settings, file = _settings(call), Path(source)
    # Compared before the question, so that a person sees what the copy lacks while they can say no.
    if not is_dry_run:
        require_person("nobody puts a backup in the place of the record", "restore", source)
    if is_dry_run or not is_yes:
        plan = plan_restore(settings, file)
        if not call.output.is_json:
            _show(call.output, plan)
        if is_dry_run:
            return _told(call.output, plan, is_done=False)
        if not confirm(
            call.output, f"Put {plan.backup} in the place of {plan.database}?", declined=UNCHANGED
        ):
            return DECLINED
    done = restore(settings, file)
    if is_yes and not call.output.is_json:
        _show(call.output, done)
    return _told(call.output, done, is_done=True)


def _settings(call: Call) -> Settings:
    return load_settings(Path.cwd(), environment=os.environ, database=call.database)


def _show(output: Output, found: Restored) -> None:
    if found.unread:
        output.note(f"what it lacks cannot be told: {found.unread}", "yellow")
    for each in found.lacking:
        name = conversation_name(each.conversation)
        output.row((f"{one_line(name)}: ", "bold"), (one_line(_lacking_in_words(each)), ""))
        output.command("  ", _cure(each))


def _lacking_in_words(lacking: Lacking) -> str:
    turns = f"{counted(lacking.turns, 'turn')} more than the backup" if lacking.turns > 0 else ""
    if lacking.is_known:
        return f"{turns}, which {lacking.agent} has in {lacking.session}"
    session = f"goes on in {lacking.session} of {lacking.agent}, which the backup does not know"
    return "; ".join(filter(None, (turns, session)))


def _cure(lacking: Lacking) -> str:
    address = lacking.conversation.key.address
    if lacking.is_known:
        return command("upthread", "tell", address, "…")
    return command("upthread", "adopt", address, lacking.session)


def _told(output: Output, found: Restored, *, is_done: bool) -> int:
    if output.is_json:
        output.json(
            {
                "database": str(found.database),
                "backup": str(found.backup),
                "kept": None if found.aside is None else str(found.aside),
                "is_restored": is_done,
                "lacking": [_shape(each) for each in found.lacking],
                "not_compared_because": found.unread or None,
            }
        )
        return 0
    if is_done:
        output.line(f"{found.database}: is now the backup {found.backup}", "green")
        if found.aside is not None:
            output.line(f"what was there is kept: {found.aside}")
    return 0


def _shape(lacking: Lacking) -> dict[str, object]:
    return {
        "address": lacking.conversation.key.address,
        "conversation_id": lacking.conversation.conversation_id,
        "turns": lacking.turns,
        "agent": lacking.agent or None,
        "upstream_session_id": lacking.session or None,
        "is_session_known": lacking.is_known,
    }


def encrypt(call: Call, *, is_removed: bool, is_yes: bool) -> int:
    """Encrypt the database with the key the configuration names, or decrypt it."""
    require_person("nobody changes the encryption", "encrypt", *(["--remove"] * is_removed))
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    path = _path_of(settings)
    # A database that has a key already needs that one: a new one in its place would hide the loss.
    is_keyed = path.is_file() and not has_key(path, None)
    # Made before anything is asked: a key that cannot be kept must be known of first.
    key = key_of(settings) if is_removed or is_keyed else made_key(settings)
    if key is None:
        raise UsageError(
            f"{path} has no key to be taken out of", hint="your config.toml says no encryption_key"
        )
    before, after = (key, None) if is_removed else (None, key)
    # Done before, perhaps by a run that was killed after the file was in place.
    if not path.is_file() or has_key(path, after):
        return _tell_encryption(call, path, settings, is_encrypted=not is_removed, is_changed=False)
    question = _encryption_question(path, settings, is_removed=is_removed)
    if not is_yes and not confirm(call.output, question, hint="say --yes"):
        return DECLINED
    change_key(path, before=before, after=after)
    return _tell_encryption(call, path, settings, is_encrypted=not is_removed, is_changed=True)


def _path_of(settings: Settings) -> Path:
    if is_postgres(settings.database):
        raise UsageError(
            "a PostgreSQL database is encrypted by its server",
            hint="see docs/operations.md; this is for a SQLite file",
        )
    return file_path(settings.database)


def _encryption_question(path: Path, settings: Settings, *, is_removed: bool) -> str:
    if is_removed:
        return f"Write {path} anew without encryption?"
    return (
        f"Encrypt {path} with the key in {settings.encryption_key}? "
        "Without that key nobody can read it again, so keep a copy of it."
    )


def _tell_encryption(
    call: Call, path: Path, settings: Settings, *, is_encrypted: bool, is_changed: bool
) -> int:
    if call.output.is_json:
        call.output.json(
            {
                "database": str(path),
                "is_encrypted": is_encrypted,
                "is_changed": is_changed,
                "encryption_key": settings.encryption_key,
            }
        )
        return 0
    state = "encrypted" if is_encrypted else "not encrypted"
    if not path.is_file():
        call.output.line(f"{path}: not there yet; it will be {state}")
    else:
        call.output.line(f"{path}: {state}" if is_changed else f"{path}: {state} already")
    if is_changed and not is_encrypted:
        call.output.line("now take encryption_key out of your config.toml")
    return 0
