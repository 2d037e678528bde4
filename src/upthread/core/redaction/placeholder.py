"""Placeholders: `[redacted:FAMILY:DIGEST]` stands in place of a secret.

The digest is keyed and short: under one key equal secrets look equal, and without the key nobody
can try candidates. A placeholder is safe within JSON, URLs and shell words.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

DIGEST_BYTES: Final = 4
BY_LOOKS: Final = "secret-by-looks"
"""The family of random words, which no name and no form tells."""

PLACEHOLDER: Final = r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{8}\]"

_COMPILED: Final = PLACEHOLDER


def placeholder(family: str, secret: bytes, key: bytes) -> bytes:
    """Return `[redacted:FAMILY:DIGEST]`; under one key equal secrets have equal ones."""
    # Short and keyed: enough to see that two are one, and nothing to try candidates on.
    digest = hashlib.blake2b(secret, key=key, digest_size=DIGEST_BYTES).hexdigest()
    return f"[redacted:{family}:{digest}]".encode()


def has_placeholder(text: str) -> bool:
    """Return whether something was taken out of a text."""
    return re.search(_COMPILED, text) is not None
