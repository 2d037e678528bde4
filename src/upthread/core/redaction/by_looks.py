"""Secrets that their looks alone give away: words as nobody writes them by hand.

Tokens and passwords stand anywhere: alone on a line, in a table, as the third argument of a call.
In one made by chance capitals, small letters, digits and signs take turns; what people write has
words in it. Less is asked of a word behind `password` or `token` on its line, or alone on one of
the next two. What is known to be none by what stands before it stays: a hash, an id, a public key.
So do the lines of a longer block of base64, which key_blocks.py judges.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterator
from itertools import pairwise, permutations
from typing import Final

from upthread.core.lazy_regex import regex
from upthread.core.redaction.contexts import hides_a_secret
from upthread.core.redaction.expressions import Expression

BYTES_MIN: Final = 20
BYTES_MAX: Final = 200
"""Longer ones are pictures, signatures, encrypted thoughts."""

SIGNED_BYTES_MIN: Final = 10
"""With a sign in it, as a password has: `!`, `#`, `%`."""

ANNOUNCED_BYTES_MIN: Final = 8
"""Behind a word that announces a secret."""

BEFORE_BYTES_MAX: Final = 40
ANNOUNCED_WITHIN_BYTES: Final = 160
PASSWORD_BYTES_MAX: Final = 64
LINE_OF_A_BLOCK_BYTES_MIN: Final = 40
SWITCHES_MIN: Final = 0.4
STRANGE_MAX: Final = 0.4
WRITTEN_MAX: Final = 0.5
"""Of a word's characters: how often the kind changes, which by chance is at six of ten; how many
are neither letter nor digit; how many are in runs that a person would write."""

GUTTER_BYTES_MAX: Final = 12

_CHARACTER: Final = r"[A-Za-z0-9+/_~.%!#^*?@&$-]"
LOOKS: Final = "|".join(
    f"{one}{_CHARACTER}*{two}{_CHARACTER}*{three}"
    for one, two, three in permutations(("[A-Z]", "[a-z]", "[0-9]"))
)
"""What a text has that holds one, as an expression of RE2: where it is not found, nothing is."""

ANNOUNCING: Final = (
    r"passw|passphrase|(?:\b|_)pass\b|pwd|(?:\b|_)pw\b|secret|token|credential|creds\b|\bpsk\b"
    r"|\beap\b|identify|\bauth\b|authtok|mot de passe|contrase|kennwort|passwort|senha|wachtwoord"
    r"|(?:\b|_)pat\b|(?:api|access|private|license)[ _-]?key|\bpin\b|\bclave\b|zugangsdaten"
)
"""What stands before a secret on its line, and may stand apart from it."""

_PASSWORD_CHARACTER: Final = rb"[^\s\"'`(){},;<>|\\\[\]]"
_ALONE_BELOW: Final = regex(
    rb"(?:[^\S\n]{0,40}\n[^\S\n]{0,40}){1,2}(" + _PASSWORD_CHARACTER + rb"{8,64})"
    rb"[^\S\n]{0,40}(?:\n|\Z)"
)
_ESCAPE: Final = rb"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|\x1b?\[[0-9;]{1,12}m|"
"""Matched by itself, for its letters are no part of the word behind."""

_WORD: Final = regex(_ESCAPE + rb"(" + _CHARACTER.encode() + rb"{10,}={0,2})")
_PASSWORD: Final = regex(_ESCAPE + rb"(?:[\w.-]{0,40}[=:]+)?(" + _PASSWORD_CHARACTER + rb"{8,64})")
_QUOTED: Final = regex(rb"[\"'](?P<within>[^\s\"'`()\[\],:\\<>]{12,64})\\?[\"']")
_CHOSEN: Final = regex(rb"(?=.*[A-Za-z]{3})(?=.*[0-9].*[0-9])(?=.*[!#%^*@&?+$])[\w!#%^*@&?+$-]+")
_PART: Final = regex(rb"[^/]+")
_KINDS: Final = bytes(
    b"U"[0]
    if 0x41 <= byte <= 0x5A
    else b"l"[0]
    if 0x61 <= byte <= 0x7A
    else b"d"[0]
    if 0x30 <= byte <= 0x39
    else b"s"[0]
    for byte in range(256)
)
_SIGNS: Final = b"!#%^*?@&$"
_BEFORE: Final = b" \t\r\n\"'`=>({[|,:"
_BEHIND: Final = b" \t\r\n\"'`<)}]|,;\\&"
_WRITTEN: Final = regex(rb"[A-Z][a-z]{2,}|[a-z]{4,}|[A-Z]{6,}")
_NONE: Final = regex(
    rb"(?:[a-z]{2,}[_-])+0?[0-9A-Za-z]+|(?:[A-Z][A-Za-z]+[0-9]?-)+-?[a-z0-9]+"  # `toolu_01…`
    rb"|[A-Z]{1,4}_kw.*|AAAA[BCE]3Nza.*"  # GitHub's ids, a public key of SSH
    rb"|.*%(?:2[0-9ACDE]|3[0-9A-CEF]|[014-9A-F][0-9A-F]).*"  # a text as URLs write it, base64 apart
    rb"|[A-Za-z_](?:[a-z0-9_]*|\w*[a-z]{3}\w*)(?:\.[\w$-]+)+(?:#.*)?"  # names
    rb"|(?:[^/]*/){7}.*|.*/[A-Z][a-z]{4}.*|.*/[a-z]{4,}|[A-Za-z]+:(?://|[A-Za-z]).*"  # paths, URLs
    rb"|.*(?:a-z|A-Z|A-F|0-9).*|[$][A-Z].*|%.*%|.*IPv[46].*"  # expressions, variables
    rb"|.*(?:&&|[?][.]|!0|[?].*:).*"  # code without blanks
    rb"|[+.~/#?-].*|.*=[?].*|.*[?]=+"  # headers of mail
    rb"|[\w./-]*@[0-9]+[.][0-9].*|.*@[\w-]+(?:\.[a-z]+)+"  # versions, addresses
)
_OF_SOMETHING_ELSE: Final = regex(
    rb"(?i)(?:id|cursor|hash|sum|digest|integrity|etag|sha-?[0-9]*|md5|fingerprint|pub"
    rb"|public[\w-]*|signature|thumbprint|h1|url|path|file|href|src|base64|bytes|version)"
    rb"[\"']?[ \t]*[:=,][ \t]*b?[\"']?\Z"
)
_LINE_OF_A_BLOCK: Final = regex(rb"[A-Za-z0-9+/=]{40,}")


def words_by_chance(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where words stand that look made by chance, those that are announced last."""
    for start, end, is_behind_escape in _words(_WORD.finditer(content)):
        before = content[max(0, start - BEFORE_BYTES_MAX) : start]
        is_within = before and before[-1] not in _BEFORE and not is_behind_escape
        if not (is_within or content[end : end + 1] not in _BEHIND or _is_public(before)):
            yield from _alone(content, start, end)
    for quoted in _QUOTED.finditer(content):
        if _is_by_chance(quoted["within"], BYTES_MIN) and not _is_public(
            content[max(0, quoted.start() - BEFORE_BYTES_MAX) : quoted.start()]
        ):
            yield quoted.span("within")
    for _, behind in _announcing().spans(content):
        line, _, _ = content[behind : behind + ANNOUNCED_WITHIN_BYTES].partition(b"\n")
        line_end = behind + len(line)
        # A word is looked at to its end: within one an escape would be taken for letters.
        within = _PASSWORD.finditer(content, behind, line_end + PASSWORD_BYTES_MAX)
        for start, end, _ in _words(within):
            if start < line_end:
                yield from _behind(content, start, end)
        if below := _ALONE_BELOW.match(content, line_end):
            yield from _behind(content, *below.span(1))


def _words(found: Iterator[re.Match[bytes]]) -> Iterator[tuple[int, int, bool]]:
    """Yield where each word begins and ends, and whether an escape is right before it."""
    escape_end = -1
    for each in found:
        if each[1] is None:
            escape_end = each.end()
        else:
            yield *each.span(1), each.start() == escape_end


@functools.cache
def _announcing() -> Expression:
    return Expression(rf"(?i)(?:{ANNOUNCING})[\w+/]*")


def _alone(content: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    word = content[start:end].rstrip(b".")
    if _is_by_chance(word, BYTES_MIN) and not _is_in_a_block(content, start, end):
        yield start, start + len(word)
    elif content.startswith(b"://", start - 1):
        for part in _PART.finditer(word):
            if _is_by_chance(part.group(), BYTES_MIN):
                yield start + part.start(), start + part.end()


def _behind(content: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    word = content[start:end].rstrip(b".:")
    is_chosen = _CHOSEN.fullmatch(word) and not _NONE.fullmatch(word)
    is_secret = is_chosen or _is_by_chance(word, ANNOUNCED_BYTES_MIN)
    if is_secret and not _is_public(content[max(0, start - BEFORE_BYTES_MAX) : start]):
        yield start, start + len(word)


def _is_by_chance(word: bytes, bytes_min: int) -> bool:
    size = len(word)
    kinds = word.translate(_KINDS)
    capitals, small, digits = map(kinds.count, (b"U", b"l", b"d"))
    if word.translate(None, _SIGNS) != word:
        bytes_min = min(bytes_min, SIGNED_BYTES_MIN)
    return (
        min(capitals, small, digits) > 0
        and (min(capitals, small) > 1 or bytes_min == ANNOUNCED_BYTES_MIN)
        and bytes_min <= size <= BYTES_MAX
        and sum(kind != next_kind for kind, next_kind in pairwise(kinds)) >= SWITCHES_MIN * size
        and kinds.count(b"s") <= STRANGE_MAX * size
        and sum(map(len, _WRITTEN.findall(word))) <= WRITTEN_MAX * size
        and not _NONE.fullmatch(word)
        and not _is_text(word)
    )


def _is_public(before: bytes) -> bool:
    return _OF_SOMETHING_ELSE.search(before) is not None


def _is_text(word: bytes) -> bool:
    """Whether a word is the base64 of something to read: then it is judged by what that says."""
    try:
        text = base64.b64decode(word + b"=" * (-len(word) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    is_readable = "".join(text.split()).isprintable()
    return is_readable and not hides_a_secret(word) and not any(words_by_chance(text.encode()))


def _is_in_a_block(content: bytes, start: int, end: int) -> bool:
    """Whether the line before or behind is one of base64, too."""
    reach = end - start + GUTTER_BYTES_MAX
    beside = content[max(0, start - reach) : start], content[end : end + reach]
    return end - start >= LINE_OF_A_BLOCK_BYTES_MIN and any(
        b"\n" in text and _LINE_OF_A_BLOCK.search(text) for text in beside
    )
