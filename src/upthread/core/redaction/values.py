"""Values of secrets: the notation of the rules, which value can be one, what takes its place.

A rule stands on a line of its own, below the family of its secret and the check of the value:

    url-password, is_real:
        # PostgreSQL's, for example `postgres://app:VALUE@db`
        {SCHEME}:([^/]+)@
            {HOST}

A deeper line continues the one above it. `{NAME}` is a word of the table, which a line such as
`NAME = expression` defines. A blank outside of brackets is a blank or a tab.

A placeholder `[redacted:FAMILY:DIGEST]` stands in place of a secret. The digest is keyed and short:
under one key equal secrets look equal, and without the key nobody can try candidates. A placeholder
is safe within JSON, URLs and shell words.
"""

import base64
import binascii
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

Check: TypeAlias = Callable[[bytes], bool]
"""Whether a value can be a secret."""

RULE_INDENT = 4

_WORD = re.compile(r"\{([A-Z_]+)\}")
_LABELLED = re.compile(r"(?:^|[^|])\{(?:WORD|STRONG|PASSWORD|FLAG|ENVIRONMENT)\}(?:[^|]|$)")
"""A rule that no text without such a word can match; other rules have it as an alternative."""

_BLANK = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|( )")
"""A blank, or what a blank would be within: an escape or a bracket."""


def read_table(
    text: str, checks: Mapping[str, Check]
) -> tuple[dict[str, str], list[tuple[str, str, Check, str]]]:
    """Return the words of a table by name, and its rules: family, expression, check and need.

    The first group of the expression that matches is the secret. The need is an expression that
    every text with such a secret matches, "" where there is none.
    """
    words = {"NEED": ""}
    contexts: list[tuple[str, str, Check, str]] = []
    family = check = ""
    for line in _whole_lines(text):
        if line.startswith(" "):
            pattern = _expanded(line.strip(), words)
            needs = words["LABEL" if _LABELLED.search(line) else "NEED"]
            contexts.append((family, pattern, checks[check], needs))
        elif line.endswith(":"):
            family, _, check = line[:-1].partition(", ")
        else:
            name, _, expression = line.partition(" = ")
            words[name] = _expanded(expression, words)
    return words, contexts


def read_forms(text: str) -> tuple[tuple[str, str], ...]:
    """Return family and expression of each line, for example `npm-token npm_[a-z]{36}`."""
    forms = (line.strip().partition(" ") for line in _whole_lines(text))
    return tuple((family, pattern) for family, _, pattern in forms)


def _whole_lines(text: str) -> list[str]:
    """Return the lines without comments, each with the deeper lines that continue it."""
    lines: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if len(line) - len(bare) > RULE_INDENT:
            lines[-1] += bare
        else:
            lines.append(line)
    return lines


def _expanded(expression: str, words: Mapping[str, str]) -> str:
    with_blanks = _BLANK.sub(lambda found: found[1] or r"[ \t]", expression)
    return _WORD.sub(lambda found: words[found[1]], with_blanks)


# --- whether a value can be a secret: no name, no template, no word of a language -----------------


RANDOM_BITS_MIN = 3.0
"""Shannon entropy, in bits a character, that a value beside a context word must have."""

TEXT_BYTES_MIN = 8
JUDGED_BYTES_MAX = 512
"""How much of a value is looked at to see whether it is random."""

SAID_BYTES_MIN = 6

_SMALL_LETTERS = rb"[a-z -]{12,64}"
_RARE_PAIR = (
    rb"(?=a[oq]|b[fgkqvwxz]|c[bjqvwxz]|d[hkqwxz]|f[bghjkmqvwxz]|g[bdjkpqvwxz]|h[bcfghjkpqvwxz]"
    rb"|i[huwy]|j[^aeious]|k[hjmqrvxz]|l[hjqwxz]|m[fghjqrvwxz]|n[xz]|o[hq]|p[jqvxz]|q[^lrsu]"
    rb"|r[jqxz]|s[bjrxz]|t[jkqx]|u[hjqwyz]|v[^aceimoy]|w[bcfgjkmpqtuvwxyz]|x[bdfgjknqruvwxz]"
    rb"|y[dhjkquvxy]|z[^aeiouy])[a-z](?=[a-z])"
)
RARE_PAIRS_MIN = 2
"""In letters that form no words; of 16 random ones, 96 in 100 have two pairs that words lack."""

DISTINCT_MIN = 7
"""How many letters, or words, differ where all are random."""

_COMMON_WORD = (
    rb"\b(?:the|and|for|with|from|are|was|were|not|but|has|have|had|its|into|than|each|them"
    rb"|their)\b"
)
"""A word that a sentence has and the list of BIP 39 lacks."""

_DUMMIES = frozenset(
    b"password passwd pass passphrase pwd pw secret token key apikey api_key example changeme "
    b"password1 abc123 none null nil true false undefined redacted hidden masked string text "
    b"default optional username options option flag argument parameter value values required "
    b"prompt input number boolean object incomplete different invalid incorrect asks".split()
)
_TEMPLATE_STARTS = tuple(b"$ { < % * ( ... xxx XXX your".split())

_CAPITALS = rb"[A-Z_]+"
_ADDRESS = (
    rb"(?s)arn:.*|/?[A-Za-z_][A-Za-z_]*[0-9]{0,4}(?:\??[./][A-Za-z_]+[0-9]{0,4}[A-Za-z_]*)+"
    rb"|(?:[a-z_][a-z0-9_]*\.)+[A-Z][A-Za-z0-9_]*"
)
"""What code and configuration name things by: `messages_1.Messages`, `a/path/to`, an ARN."""

_NAMES_ONE = (
    rb"(?i)(?:pass|secret|token|key)[\w-]*[\"']?[ \t]*[:=][ \t]*[^\s]{6}|://[^/\s:@]+:[^/\s@]+@"
)

_NAME = (
    rb"(?s)[A-Za-z_]+[0-9]?"
    rb"|(?:u?int|float|sha|md|utf|base|aes|rsa|hmac|arg|param|test|user|bytes|string)-?[0-9]{1,3}"
    rb"|[A-Za-z_]\w*(?:(?:\??\.|::|->)[A-Za-z_]\w*)+"
    rb"|[^/]*/.*|[0-9.]+[a-z%]{0,3}|[@#:.!=].*|[a-z]+[:=].*|.*:|[A-Za-z_.-]+=|\D*[!?]"
)


_YEAR = rb"[A-Za-z](?:19|20)[0-9]{2}[^A-Za-z]?\Z|[a-z]{2}[.][A-Z][a-z]{2,}_?[0-9]+\Z"
"""Behind a word a year is a password's: names have numbers of one or two digits."""


_SAID_MIX = rb"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])(?=.*[_-]).*|[A-Za-z]{5,}[0-9]"
_SAID_NAME = (
    rb"(?i)(?-i:[A-Z-]+[0-9]+|[a-z]+(?:-[a-z]+)*-[0-9]{1,2}|[a-z0-9]+(?:_[a-z0-9]+)+)|0x.*"
    rb"|.*password[0-9]?|v?[0-9]+(?:[.-]?[a-z]+|\.[0-9.]+)*|(?:.*[_.-])?(?:b|base|utf|sha|md|aes|rsa"
    rb"|o?auth|ed|curve|argon|ipv|https?|pkcs|rfc|py|python|uint|int)-?[0-9]{1,5}(?:[^0-9].*)?"
    rb"|(?-i:[a-z_]+|[A-Z_]+)=.*|\w+:[0-9]*|(?-i:[a-z]+|[A-Z]+)[+]\w+|[^@]+@[^@]+\.[a-z]+"
    rb"|.*(?:::|arn:|key|token|/.*\.).*|[\w.-]+\.(?:[a-z]{2,4}|json|yaml|toml|html)(?::[0-9]+)?"
    rb"|.*[$@]|.*/[\w.-]+#[0-9]+|[a-z_-]+#[0-9]+|(?-i:[a-z_$])[a-z_$]*[0-9]?[a-z_$]*(?:[.][a-z_$]+[0-9]?[a-z_$]*)+"
)
"""What a sentence about passwords names: a standard, a version, a number of days, a file."""


_CHOSEN = rb"(?=[^A-Za-z\xc3-\xdf]*(?:[A-Za-z]|[\xc3-\xdf]))[A-\xff .-]*[^A-\xff .-]"
"""A letter, and a digit or a sign."""


def anything(_value: bytes) -> bool:
    """Accept every value: whoever wrote the rule knows."""
    return True


def is_real(value: bytes) -> bool:
    """Return whether a value stands for itself: no template, no name of what belongs there."""
    bare = value.strip(b"\"'`,;")
    return not (
        not bare
        or bare.lower() in _DUMMIES
        or bare.startswith(_TEMPLATE_STARTS)
        or b"EXAMPLE" in bare
        or bare.count(bare[:1]) == len(bare)
    )


def is_no_example(value: bytes) -> bool:
    """Return whether a value is not one that a vendor prints in its documentation."""
    return not value.endswith((b"EXAMPLE", b"SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"))


def looks_random(value: bytes) -> bool:
    """Return whether a value looks made by chance: letters and digits mixed, few of them alike."""
    # Enough to tell; a value may be as long as the text.
    value = value[:JUDGED_BYTES_MAX]
    has_digit = value.translate(None, b"0123456789") != value
    has_letter = value.upper() != value.lower()
    is_mixed = has_digit and has_letter and entropy_bits(value) >= RANDOM_BITS_MIN
    return is_mixed and is_real(value) and not re.fullmatch(_ADDRESS, value)


def is_chosen(value: bytes) -> bool:
    """Return whether a value may be a password somebody chose: not a plain word or identifier."""
    return bool(re.match(_CHOSEN, value[:JUDGED_BYTES_MAX])) and is_real(value)


def is_set(value: bytes) -> bool:
    """Return whether a value may be meant where nothing but a secret is expected.

    A word in capitals there is the name of what belongs there, as documentation has it.
    """
    return is_real(value) and not re.fullmatch(_CAPITALS, value)


def is_assigned(value: bytes) -> bool:
    """Return whether a value without quotes may be a password: code has names in its place.

    Names are told from passwords by what people put into either: a name is words, perhaps with a
    number behind, or a path to one.
    """
    is_name = re.fullmatch(_NAME, value) and (b"/" in value or not re.search(_YEAR, value))
    return (is_chosen(value) and not is_name) or is_unpronounceable(value) or is_text(value)


def is_said(value: bytes) -> bool:
    """Return whether a word of a sentence may be a password: no name of a thing, no version."""
    word = value.rstrip(b".:*_")
    is_long = len(word) >= SAID_BYTES_MIN and is_real(word)
    return is_long and bool(
        (is_given(word) or re.fullmatch(_SAID_MIX, word)) and not re.fullmatch(_SAID_NAME, word)
    )


def is_unpronounceable(value: bytes) -> bool:
    """Return whether a value is small letters that form no words, as in an app password."""
    is_small = re.fullmatch(_SMALL_LETTERS, value) and len(set(value)) >= DISTINCT_MIN
    return bool(is_small) and len(re.findall(_RARE_PAIR, value)) >= RARE_PAIRS_MIN


def is_text(value: bytes) -> bool:
    """Return whether a value is the base64 of a text, as kubectl prints passwords."""
    if len(value) % 4 or len(value) < TEXT_BYTES_MIN:
        return False
    try:
        text = base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return text.isascii() and text.decode().strip().isprintable()


def is_mnemonic(value: bytes) -> bool:
    """Return whether words may be those of a wallet: no sentence, and no list of one word."""
    return not re.search(_COMMON_WORD, value) and len(set(value.split())) >= DISTINCT_MIN


def hides_a_secret(value: bytes) -> bool:
    """Return whether a value is the base64 of a text that gives a secret a name, as `.env` does."""
    try:
        return re.search(_NAMES_ONE, base64.b64decode(value)) is not None
    except binascii.Error:
        return False


def is_given(value: bytes) -> bool:
    """Return whether a value may be a secret where a command is told one: base64 has slashes."""
    return is_assigned(value) or looks_random(value)


def is_broken(value: bytes) -> bool:
    """Return whether a value goes on in the next line: both parts look made by chance."""
    return all(looks_random(part.strip(b"\\ \t\r")) for part in value.split(b"\n"))


def is_a_pair(value: bytes) -> bool:
    """Return whether a value is the base64 of `user:password`."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except binascii.Error:
        return False
    return bool(user and colon and password) and (user + password).isascii()


def entropy_bits(value: bytes) -> float:
    """Return the Shannon entropy of a value, in bits a character; 0 for an empty one."""
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)


# --- placeholders ---------------------------------------------------------------------------------


DIGEST_BYTES = 4
BY_LOOKS = "secret-by-looks"
"""The family of random words, which no name and no form tells."""

PLACEHOLDER = r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{8}\]"

_COMPILED = PLACEHOLDER


def placeholder(family: str, secret: bytes, key: bytes) -> bytes:
    """Return `[redacted:FAMILY:DIGEST]`; under one key equal secrets have equal ones."""
    # Short and keyed: enough to see that two are one, and nothing to try candidates on.
    digest = hashlib.blake2b(secret, key=key, digest_size=DIGEST_BYTES).hexdigest()
    return f"[redacted:{family}:{digest}]".encode()


def has_placeholder(text: str) -> bool:
    """Return whether something was taken out of a text."""
    return re.search(_COMPILED, text) is not None
