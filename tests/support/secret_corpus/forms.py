"""Forms of secrets: how a file, a command line or an answer holds one, and one made by chance.

A form's text marks the secret: «…». `<P1>` to `<P4>` are passwords as people and password managers
make them: a word and digits, the same with a sign, letters and digits, all of these. The other
letters are those of tokens.py.
"""

import base64
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tests.support.secret_corpus.tokens import TOKENS
from tests.support.secret_corpus.written import WRITTEN

SEED = 42
PRIVATE_KEYS = "private keys"
ENCODED = "encoded to hide"
"""A family of its own: not in what is promised of plain forms."""

_ALPHABETS: Mapping[str, str] = MappingProxyType(
    {
        "A": string.ascii_letters + string.digits,
        "l": string.ascii_letters,
        "z": string.ascii_lowercase + string.digits,
        "U": string.ascii_uppercase + string.digits,
        "K": string.ascii_uppercase + "234567",
        "Q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "h": "0123456789abcdef",
        "d": string.digits,
        "b": string.ascii_letters + string.digits + "+/",
        "w": string.ascii_letters + string.digits + "_-",
    }
)
_SEGMENT = re.compile(r"<(?:([AlzUKQhdbw])([0-9]+)|P([1-4])|g)>")
_MARK = re.compile("«(.*?)»", re.DOTALL)
_WORDS = ("harbour", "Winter", "lantern", "Mango", "pewter", "Thistle", "cobalt", "Juniper")
_SIGNS = "!#@%*+?_-."


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretForm:
    """One form of one family; `make` gives its text from a seeded source of chance, «marked»."""

    family: str
    name: str
    make: Callable[[random.Random], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text with secrets in it. `secrets` are what may be left nowhere."""

    text: str
    secrets: tuple[str, ...]


def sample_of(form: SecretForm, *, seed: int = SEED) -> Sample:
    """Return a sample of a form, always the same for a seed."""
    # Reproducible, and no secret: that is what it is for.
    chance = random.Random(f"{form.family}/{form.name}/{seed}")
    marked = form.make(chance)
    secrets = tuple(piece for found in _MARK.findall(marked) for piece in found.split("\n"))
    text = marked.replace("«", "").replace("»", "")
    return Sample(text=text, secrets=tuple(each for each in secrets if _is_telling(each)))


def _is_telling(line: str) -> bool:
    """Of a key's lines, those that hold it: its marks and headers and a last rest tell nothing."""
    return bool(line) and not line.startswith("-----") and ": " not in line


def _filled(template: str) -> Callable[[random.Random], str]:
    return lambda chance: _SEGMENT.sub(lambda found: _segment(found, chance), template)


def _segment(found: re.Match[str], chance: random.Random) -> str:
    kind, length, password = found.groups()
    if kind:
        return "".join(chance.choices(_ALPHABETS[kind], k=int(length)))
    if password:
        return _password(int(password), chance)
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _password(kind: int, chance: random.Random) -> str:
    word, sign = chance.choice(_WORDS), chance.choice(_SIGNS)
    number = str(chance.randrange(12, 9999))
    match kind:
        case 1:
            return word + number
        case 2:
            return f"{word}{sign}{number}"
        case 3:
            return f"{chance.choice(string.ascii_letters)}{_mixed(chance, 8)}{number}"
        case _:
            return f"{chance.choice(string.ascii_letters)}{_mixed(chance, 10)}{sign}{number}"


def _mixed(chance: random.Random, length: int) -> str:
    return "".join(chance.choices(_ALPHABETS["A"], k=length))


# --- private keys ------------------------------------------------------------------------------


def _body(chance: random.Random, lines: int, *, first: str = "", width: int = 64) -> list[str]:
    text = first + "".join(chance.choices(_ALPHABETS["b"], k=lines * width - len(first) - 20))
    return [text[at : at + width] for at in range(0, len(text), width)]


def _pem(label: str, first: str, lines: int, *headers: str) -> Callable[[random.Random], str]:
    def make(chance: random.Random) -> str:
        body = _body(chance, lines, first=first, width=70 if "OPENSSH" in label else 64)
        head = [*headers, ""] if headers else []
        return "\n".join(
            [
                f"«-----BEGIN {label}-----",
                *head,
                *body[:-1],
                body[-1] + "==",
                f"-----END {label}-----»",
            ]
        )

    return make


def _putty(chance: random.Random) -> str:
    public, private = _body(chance, 6, first="AAAAB3NzaC1yc2E"), _body(chance, 14)
    lines = [
        *("PuTTY-User-Key-File-3: ssh-rsa", "Encryption: none", "Comment: rsa-key-20260101"),
        *("Public-Lines: 6", *public, "Private-Lines: 14"),
        *(f"«{line}»" for line in private),
        f"Private-MAC: {''.join(chance.choices('0123456789abcdef', k=64))}",
    ]
    return "\n".join(lines)


_KEYS: Mapping[str, Callable[[random.Random], str]] = MappingProxyType(
    {
        "PKCS 1": _pem("RSA PRIVATE KEY", "MIIEowIBAAKCAQEA", 25),
        "PKCS 1, encrypted": _pem(
            *("RSA PRIVATE KEY", "", 25, "Proc-Type: 4,ENCRYPTED"),
            "DEK-Info: AES-256-CBC,0123456789ABCDEF0123456789ABCDEF",
        ),
        "PKCS 8": _pem("PRIVATE KEY", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 26),
        "PKCS 8, encrypted": _pem("ENCRYPTED PRIVATE KEY", "MIIFHDBOBgkqhkiG9w0BBQ0w", 28),
        "PKCS 8, Ed25519": _pem("PRIVATE KEY", "MC4CAQAwBQYDK2VwBCIEI", 1),
        "SEC 1": _pem("EC PRIVATE KEY", "MHcCAQEEI", 3),
        "DSA": _pem("DSA PRIVATE KEY", "MIIBugIBAAKBgQ", 10),
        "OpenSSH": _pem("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU", 37),
        "OpenPGP": _pem("PGP PRIVATE KEY BLOCK", "lQ", 40, "Version: GnuPG v2"),
        "PuTTY": _putty,
    }
)

# --- encoded -----------------------------------------------------------------------------------


def _encoded(encode: Callable[[str], str]) -> Callable[[random.Random], str]:
    return lambda chance: f"x = «{encode('ghp_' + _mixed(chance, 36))}»"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_ENCODED: Mapping[str, Callable[[random.Random], str]] = MappingProxyType(
    {
        "base64 of a token": _encoded(_base64),
        "base64 of base64": _encoded(lambda token: _base64(_base64(token))),
        "base32": _encoded(lambda token: base64.b32encode(token.encode()).decode()),
        "hexadecimal": _encoded(lambda token: token.encode().hex()),
        "reversed": _encoded(lambda token: token[::-1]),
        "\\u escapes": _encoded(lambda token: "".join(f"\\u{ord(each):04x}" for each in token)),
        "percent escapes": _encoded(lambda token: "".join(f"%{ord(each):02x}" for each in token)),
        "letters apart": _encoded(" ".join),
        "base64 of user and password": lambda chance: (
            f"echo «{_base64('app:' + _password(4, chance))}» | base64 -d"
        ),
        "base64 of a key": lambda chance: (
            f"tls.key: «{_base64(_KEYS['PKCS 8'](chance).strip('«»'))}»"
        ),
    }
)


def _all_forms() -> Iterator[SecretForm]:
    for family, templates in TOKENS.items():
        for template in templates:
            yield SecretForm(family=family, name=template, make=_filled(f"«{template}»"))
    for family, templates in WRITTEN.items():
        for template in templates:
            yield SecretForm(family=family, name=template, make=_filled(template))
    for name, make in _KEYS.items():
        yield SecretForm(family=PRIVATE_KEYS, name=name, make=make)
    for name, make in _ENCODED.items():
        yield SecretForm(family=ENCODED, name=name, make=make)


FORMS = tuple(_all_forms())
"""All of them."""
