"""Secrets that have neither a name nor a vendor's prefix: words that look random.

For example a key that `az … -o tsv` prints alone on a line, or a password as an argument of a call.
In a random word capitals, small letters and digits alternate, because a generator made the word. An
identifier alternates less, because it contains runs of letters. A word near a label such as
`password` may be shorter, or one that a person chose, for example `Maple-Stairs_19`.

A random word is not always a secret. A name before the word can show that, for example `integrity`
or `node_id`. The lines of a longer base64 block are left to key_blocks.py.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
import string
from collections.abc import Iterator
from itertools import chain, pairwise, permutations
from typing import Final

from upthread.core.redaction.contexts import WORDS
from upthread.core.redaction.expressions import Expression
from upthread.core.redaction.values import hides_a_secret

BYTES_MIN: Final = 20
BYTES_MAX: Final = 200
"""Longer words are images, signatures or encrypted reasoning."""

SIGNED_BYTES_MIN: Final = 10
"""For a word with a sign, for example `!` or `#`, because passwords contain signs."""

LABELLED_BYTES_MIN: Final = 8

SWITCHES_MIN: Final = 0.4
"""How often the kind of character changes, per byte. In a random word the rate is about 0.6."""

PUNCTUATION_MAX: Final = 0.4
LETTER_RUNS_MAX: Final = 0.5
"""The largest part of a random word that may be punctuation, or letters as in written words."""

NAME_BYTES_MAX: Final = 40
LABEL_REACH_BYTES: Final = 160
LABELLED_BYTES_MAX: Final = 64
BLOCK_LINE_BYTES_MIN: Final = 40
GUTTER_BYTES_MAX: Final = 12

_CHARACTER: Final = r"[A-Za-z0-9+/_~.%!#^*?@&$-]"
MIXED_WORD: Final = (
    "|".join(
        f"{one}{_CHARACTER}*{two}{_CHARACTER}*{three}"
        for one, two, three in permutations(("[A-Z]", "[a-z]", "[0-9]"))
    )
    + r"|[\xc3-\xdf][\x80-\xbf]\S*[0-9]"
)
"""An expression of RE2 that every text with a random word matches, so other texts are skipped."""

LABEL: Final = (
    r"passw|passphrase|(?:\b|_)pass\b|pwd|(?:\b|_)pw\b|secret|token|credential|creds\b|\bpsk\b"
    r"|\beap\b|identify|auth\b|authtok|mot de passe|contrase|kennwort|passwort|senha|wachtwoord"
    r"|(?:\b|_)pat\b|(?:api|access|private|license)[ _-]?key|\bpin\b|\bclave\b|zugangsdaten"
    r"|\blog(?:ged)?[ -]?(?:in|on)\b|\bsign in\b|anmeld|connexion|密钥|密鑰|ключ|логин|ログイン"
    r"|登录|\b(?:ssh|wi-?fi|wlan|vpn|admin|root|ftp|user(?:name)?|account|benutzer|usuario|puk"
    r"|acc\S{1,2}s\b|acceso|accesso|zugang|toegang|utilisateur|pre-?shared|key (?:is|ist|for))\b|"
    + WORDS["SPOKEN"]
)
"""A label of a secret. Other words may stand between both, for example `the password is …`."""

_KINDS: Final = bytes.maketrans(
    f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}{string.punctuation}".encode(),
    b"U" * 26 + b"l" * 26 + b"d" * 10 + b"p" * len(string.punctuation),
)
_SIGNS: Final = b"!#%^*?@&$"
_LETTER_RUN: Final = rb"[A-Z][a-z]{2,}|[a-z]{4,}|[A-Z]{6,}"
_CHOSEN_PASSWORD: Final = (
    rb"(?=.*[A-Za-z\x80-\xff]{3})(?:(?=.*[0-9].*[0-9])(?=.*[!#%^*@&?+$])"
    rb"|(?=.*[A-Z\x80-\xff])(?=.*[a-z\x80-\xff]{3})(?=.*[0-9])(?=.+[!#%^*@&?+$~=]"
    rb"|.+[_./:-].*[0-9]{2,}[a-z]?\Z|.+-.*_|.+\..*_|.+/.*/.*[0-9]\Z))"
    rb"[\w!#%^*@&?+$~=./:\x80-\xff-]+"
)
"""A password that a person chose, for example `LanternWalnut576@un` or `Maple-Stairs_19`."""

_ORDINARY: Final = (
    rb"(?:[a-z]{2,}[_-])+0?[0-9A-Za-z]+|(?:[A-Z][A-Za-z]+[0-9]?-)+-?[a-z0-9]+"  # `toolu_01…`
    rb"|.*[.][a-z]{2,4}|[A-Z]{1,4}(?:_[A-Za-z0-9]{1,14})+|[\w/-]+[.]\w+:[0-9]+"  # files, macros
    rb"|[A-Za-z]+:[0-9]+|(?:[a-z_.-]+|[A-Z_]+)=.{0,8}|[A-Za-z_.-]+=[0-9.]+|ChaCha20-.*|.*EXAMPLE.*"
    rb"|[A-Z_]+=/[\w.-]+/.*"  # a directory in an environment
    rb"|[A-Za-z]+[+][A-Z]+[0-9]?|AAAA[BCE]3Nza.*|[A-Z]{2}[0-9a-f]{32}"  # of GitHub, SSH, Twilio
    rb"|.*%(?:2[0-9ACDE]|3[0-9A-CEF]|[014-9A-F][0-9A-F]).*"  # percent-encoding, except of base64
    rb"|(?!.*[.][A-Z][a-z]{2,}[_-][0-9]+\Z)"
    rb"[A-Za-z_](?:[a-z0-9_]*|\w*[a-z]{3}\w*)(?:\.[\w$-]+)+(?:#.*)?"  # dotted names
    rb"|(?:[^/]*/){7}.*|(?!.*/[0-9]{1,2}\Z).*/[A-Z][a-z]{4}.*|.*/[a-z]{4,}"
    rb"|[A-Za-z]+:(?://|[A-Za-z]).*"  # paths, URLs
    rb"|.*(?:a-z|A-Z|A-F|0-9).*|[$][A-Z].*|%.*%|.*IPv[46].*"  # expressions, variables
    rb"|.*(?:&&|[?][.]|!0|[?].*:).*"  # minified code
    rb"|[+.~/#?@*&-].*|.*=[?].*|.*[?]=+"  # mail headers
    rb"|.*/[\w.-]+#[0-9]+|[a-z_-]+#[0-9]+|.*[0-9]{12}:.*"  # issues, ARNs
    rb"|[\w./-]*@[0-9]+[.][0-9].*|.*@[\w-]+(?:\.[a-z]+)+(?:[:/].*)?|.*-(?:v[0-9.]+|[0-9]+[.][0-9.]+)"
)
_PUBLIC_NAME: Final = (
    rb"(?i)(?:id|cursor|hash|sum|digest|integrity|etag|sha-?[0-9]*|md5|fingerprint|pub"
    rb"|public[\w-]*|signature|thumbprint|h1|url|path|file|href|src|base64|bytes|version)"
    rb"[\"']?[ \t]*[:=,][ \t]*b?[\"']?\Z"
)
_BASE64_LINE: Final = rb"[A-Za-z0-9+/=]{40,}"

_ESCAPE: Final = rb"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|\x1b?\[[0-9;]{1,12}m|"
"""An escape is a match of its own, because otherwise its letters would belong to the next word."""

_BEFORE: Final = b" \t\r\n\"'`=>({[|,:"
_AFTER: Final = b" \t\r\n\"'`<)}]|,;\\&"
_BARE_WORD: Final = _ESCAPE + rb"(" + _CHARACTER.encode() + rb"{10,}={0,2})"
_QUOTED_WORD: Final = rb"[\"']([^\s\"'`()\[\],:\\<>]{12,64})\\?[\"']"
_LABELLED_CHARACTER: Final = rb"(?:[^\x00-\x20\"'`(){},;<>|\\\[\]\x7f-\xff]|[\xc3-\xdf][\x80-\xbf])"
_LABELLED_WORD: Final = (
    _ESCAPE + rb"(?:(?<=\\[nrt])|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=[0-9;[]m)"
    rb"|(?<![\w!#%^*@&?+$~./:-]))(?:[\w.-]{0,40}[=:]+)?(?=\S*[0-9])("
    + _LABELLED_CHARACTER
    + rb"{8,})"
)
_REACH: Final = re.compile(rb"[^\n]*(?:\n[^\w\n]*){0,2}[^\n]*")
"""The rest of a label's line, and the next line that is not blank."""

_URL_SEGMENT: Final = rb"[^/]+"


def random_words(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of every random word in a text, in no order; two may overlap."""
    for start, word in chain(_unlabelled(content), _labelled(content)):
        if not re.search(_PUBLIC_NAME, content[max(0, start - NAME_BYTES_MAX) : start]):
            yield start, start + len(word)


def _unlabelled(content: bytes) -> Iterator[tuple[int, bytes]]:
    quoted = (found.span(1) for found in re.finditer(_QUOTED_WORD, content))
    for start, end in chain(_bare_words(content), quoted):
        word = content[start:end].rstrip(b".")
        if _is_random(word, BYTES_MIN) and not _is_in_block(content, start, end):
            yield start, word
        elif content.startswith(b"://", start - 1):
            for segment in re.finditer(_URL_SEGMENT, word):
                if _is_random(segment.group(), BYTES_MIN):
                    yield start + segment.start(), segment.group()


def _bare_words(content: bytes) -> Iterator[tuple[int, int]]:
    escape_end = 0
    for found in re.finditer(_BARE_WORD, content):
        start, end = found.span(1)
        if start < 0:
            escape_end = found.end()
        elif (start == escape_end or content[start - 1] in _BEFORE) and (
            content[end : end + 1] in _AFTER
        ):
            yield start, end


def _labelled(content: bytes) -> Iterator[tuple[int, bytes]]:
    for start, end in _after_labels(content):
        word = content[start:end].rstrip(b".:")
        if len(word) > LABELLED_BYTES_MAX or content.startswith(b"(", end):
            continue
        is_chosen = re.fullmatch(_CHOSEN_PASSWORD, word) and not re.fullmatch(_ORDINARY, word)
        if is_chosen or _is_random(word, LABELLED_BYTES_MIN):
            yield start, word


def _after_labels(content: bytes) -> Iterator[tuple[int, int]]:
    labelled_word = re.compile(_LABELLED_WORD)
    for start, end in _label_reaches(content):
        # The search continues past the reach's end, because a shortened escape is no escape.
        for found in labelled_word.finditer(content, start, end + LABELLED_BYTES_MAX):
            if found.start() >= end:
                break
            if found.start(1) >= 0:
                yield found.span(1)


def _label_reaches(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where labels reach; overlapping reaches are merged, for linear time."""
    start = end = 0
    for label, label_end in _label().spans(content):
        if content.startswith(b"[", label):
            continue
        far = max(0, label - LABEL_REACH_BYTES)
        first = content.rfind(b"\n", far, label) + 1 or far
        if first > end:
            yield start, end
            start = first
        below = _REACH.match(content, label_end, label_end + LABEL_REACH_BYTES)
        end = below.end() if below else label_end
    yield start, end


@functools.cache
def _label() -> Expression:
    # With the rest of the name, so that `ord` of `password` is no part of the secret.
    # A placeholder is no label, although `secret-by-looks` stands in it.
    return Expression(rf"(?i)\[redacted:[\w-]*|(?:{LABEL})[\w+/]*")


def _is_random(word: bytes, bytes_min: int) -> bool:
    size = len(word)
    if word.translate(None, _SIGNS) != word:
        bytes_min = min(bytes_min, SIGNED_BYTES_MIN)
    # First, because most words are too short.
    if not bytes_min <= size <= BYTES_MAX:
        return False
    kinds = word.translate(_KINDS)
    capitals, small, digits = map(kinds.count, (b"U", b"l", b"d"))
    return (
        min(capitals, small, digits) > 0
        and (min(capitals, small) > 1 or bytes_min == LABELLED_BYTES_MIN)
        and sum(kind != next_kind for kind, next_kind in pairwise(kinds)) >= SWITCHES_MIN * size
        and kinds.count(b"p") <= PUNCTUATION_MAX * size
        and sum(map(len, re.findall(_LETTER_RUN, word))) <= LETTER_RUNS_MAX * size
        and not re.fullmatch(_ORDINARY, word)
        and not _is_plain_text(word)
    )


def _is_plain_text(word: bytes) -> bool:
    """Whether a word is base64 of readable text, and that text contains no secret."""
    try:
        text = base64.b64decode(word + b"=" * (-len(word) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    is_readable = "".join(text.split()).isprintable()
    return is_readable and not hides_a_secret(word) and not any(random_words(text.encode()))


def _is_in_block(content: bytes, start: int, end: int) -> bool:
    """Whether the line before or after a long word is a base64 line too."""
    reach = end - start + GUTTER_BYTES_MAX
    beside = content[max(0, start - reach) : start], content[end : end + reach]
    return end - start >= BLOCK_LINE_BYTES_MIN and any(
        b"\n" in text and re.search(_BASE64_LINE, text) for text in beside
    )
