"""The key a database is encrypted with: where it is kept, read and made.

`file:PATH` is a file of 32 bytes, which belongs on another disk than the database; `keyring:NAME`
an entry of the operating system's keyring, through the library of that name, an extra.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Final

from upthread.client.file_permissions import make_key, read_key
from upthread.config import Settings
from upthread.errors import ConfigError, UsageError
from upthread.store.address import is_postgres
from upthread.store.sqlite.database import KEY_BYTES

FILE: Final = "file:"
KEYRING: Final = "keyring:"
SERVICE: Final = "upthread"
"""Under which the keyring lists our keys."""

_LOST: Final = (
    "put it back from a copy, for without it the database cannot be read; "
    "the first one is made by `upthread encrypt`"
)


def key_of(settings: Settings) -> bytes | None:
    """Return the key of the settings' database, None where it is not encrypted.

    ConfigError when it is not where the configuration says. Blocking.
    """
    # A server encrypts for itself.
    if settings.encryption_key is None or is_postgres(settings.database):
        return None
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        return read_key(Path(name).expanduser(), mend=_LOST)
    told = _keyring().get_password(SERVICE, name)
    if told is None:
        raise ConfigError(f"the keyring has no key {name!r} of {SERVICE}", hint=_LOST)
    return _from_hex(told, name)


def made_key(settings: Settings) -> bytes:
    """Return the key of the settings' database, made where there is none yet. Blocking.

    UsageError when the configuration does not say where it is to be.
    """
    if settings.encryption_key is None:
        raise UsageError(
            "nothing says where the key is to be kept",
            hint='write encryption_key = "file:/a/path/elsewhere" or "keyring:NAME" at the top of '
            "your config.toml (see docs/privacy.md)",
        )
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        make_key(Path(name).expanduser())
    elif _keyring().get_password(SERVICE, name) is None:
        _keyring().set_password(SERVICE, name, os.urandom(KEY_BYTES).hex())
    # Read back, so that a key is used only once it is known to be kept.
    key = key_of(settings)
    assert key is not None
    return key


def _kind_and_name(source: str) -> tuple[str, str]:
    for kind in (FILE, KEYRING):
        if source.startswith(kind) and source != kind:
            return kind, source.removeprefix(kind)
    raise ConfigError(
        f"encryption_key = {source!r} says no place", hint='say "file:PATH" or "keyring:NAME"'
    )


def _from_hex(told: str, name: str) -> bytes:
    try:
        key = bytes.fromhex(told)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"what the keyring has under {name!r} is no key", hint=_LOST)
    return key


def _keyring() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as error:
        raise UsageError(
            f"the keyring needs a library that is not here: {error}",
            hint="pip install 'upthread[keyring]', or keep the key in a file: file:PATH",
        ) from error
    module: ModuleType = keyring
    return module
