"""What the tools of real agents emitted for files with secrets in them, as it was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.secret_corpus import FORMS, sample_of

RECORDED = Path(__file__).parent / "recorded"

_WANTED = {"PKCS 1": "id_rsa.pem", "OpenSSH": "id_deploy", "PuTTY": "id.ppk"}
_WRITTEN = (
    '  db_password: "«<P3>»"',
    "spring.datasource.password=«<P2>»",
    'DB_PASS="«<P1>»"',
    "host=db user=app password=«<P1>»",
    "ghp_<A36>",
    "xapp-1-A<U10>-<d13>-<h64>",
)
_SAMPLES = {form.name: sample_of(form) for form in FORMS}

FILES = {name: _SAMPLES[form].text + "\n" for form, name in _WANTED.items()} | {
    "settings.conf": "host = db\n" + "\n".join(_SAMPLES[name].text for name in _WRITTEN) + "\n"
}
"""The files, by name: three keys and a configuration. None of it was ever anybody's."""

_SECRETS = tuple(
    secret for name in (*_WANTED, *_WRITTEN) for secret in _SAMPLES[name].secrets if len(secret) > 8
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the tools of one agent, in one version, gave its model."""

    agent: str
    version: str
    emitted: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a recording."""
        told = json.loads(path.read_text())
        return cls(agent=told["agent"], version=told["version"], emitted=tuple(told["emitted"]))


def secrets_in(texts: Iterable[str]) -> list[str]:
    """The secrets of the files, each line of a key one, that stand in the texts."""
    text = "\n".join(texts)
    return [secret for secret in _SECRETS if secret in text]
