"""`upthread encrypt`: encrypts the database, or decrypts it."""

from pathlib import Path

from upthread.client.database_files import remove_daily_backups
from upthread.client.stores import key_of, made_key
from upthread.config import Settings
from upthread.errors import UsageError
from upthread.store.address import file_path, is_postgres
from upthread.store.sqlite.backup import change_key
from upthread.store.sqlite.database import has_key
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person


@options.verb
@options.flag("--remove", "is_removed", "Write the database without encryption.")
@options.yes
def main(call: Call, *, is_removed: bool) -> None:
    """Encrypt the database with the key that your config.toml names."""
    require_person("nobody changes the encryption", "encrypt", *(["--remove"] * is_removed))
    settings = call.settings()
    if is_postgres(settings.database):
        raise UsageError(
            "a PostgreSQL database is encrypted by its server",
            hint="see docs/operations.md; this is for a SQLite file",
        )
    path = file_path(settings.database)
    # An encrypted database needs its own key: a new key would hide that the old key is lost.
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
        _tell(call, path, settings, is_encrypted=not is_removed, is_changed=False)
        return
    question = f"Write {path} anew without encryption?"
    if not is_removed:
        question = (
            f"Encrypt {path} with the key in {settings.encryption_key}? "
            "Without that key nobody can read it again, so keep a copy of it."
        )
    call.confirm(question, hint="say --yes", declined="")
    # Backups are under the old key, or under none. Removed first, so that none of them outlives a
    # kill, and again for one that was made meanwhile.
    remove_daily_backups(settings)
    change_key(path, before=before, after=after)
    remove_daily_backups(settings)
    _tell(call, path, settings, is_encrypted=not is_removed, is_changed=True)


def _tell(
    call: Call, path: Path, settings: Settings, *, is_encrypted: bool, is_changed: bool
) -> None:
    call.output.json(
        {
            "database": path,
            "is_encrypted": is_encrypted,
            "is_changed": is_changed,
            "encryption_key": settings.encryption_key,
        }
    )
    state = "encrypted" if is_encrypted else "not encrypted"
    if not path.is_file():
        call.output.line(f"{path}: not there yet; it will be {state}")
    else:
        call.output.line(f"{path}: {state}" if is_changed else f"{path}: {state} already")
    if is_changed and not is_encrypted:
        call.output.line("now take encryption_key out of your config.toml")
