"""Running text: how much of what has come so far can be written down before the rest has come.

A secret may come in pieces. What may yet turn out to be one is held back: the last word, what
follows a word that announces a secret on the last line, lines before it that announce one on the
next or may be those of a private key, a key block that has no end yet. Redacting the pieces one by
one then gives what redacting them whole would have, as is done for what an agent writes to stderr.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from upthread.core.redaction.contexts import WORDS
from upthread.core.redaction.expressions import as_read
from upthread.core.redaction.key_blocks import is_key_line
from upthread.core.redaction.rules import LABEL
from upthread.core.text import PARAGRAPH

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

HELD_CHARACTERS_MAX = 24 * 1024
"""What is held back at most; a longer secret may be cut in two. The longest key behind gutters."""

LINE_ENDS_LOOKED_AT = 200
"""The end of a line tells what the next one is about."""

_BEGIN = re.compile(
    r"-----?(?: ?BEGIN(?:[A-Z0-9 +%]{0,60}PRIVATE|[A-Z0-9 +%]{0,60}\Z))"
    r"|PuTTY-User-Key-File-|Private-Lines:"
)
_END = re.compile(
    r"(?:-----END[A-Z0-9 +%]{0,60}KEY(?: BLOCK)?-----|Private-MAC: ?[0-9a-f]{1,128})\s"
)
_ANNOUNCING = re.compile(
    rf"{LABEL}|{WORDS['NEED'][4:]}|(?:^|[^\w ]) ?[$#%>] |\bPS |\bmot\b|[^\x00-\x7f]|[{{(]"
    r"|creds|key|auth|echo|\b(?:use|nimm|usa|utilise|create|alter|grant|setx?|env|[a-z]?[0-9]+ L)\b"
    r"|\b(?:docker|az|oc|cf|doctl)\b|mongo|ldap|sqlcmd|sshpass|zip\b|plink|pscp|clickhouse|identif"
    r"|mosquitto|hash|redis|://|[^\W_][!#%^*@&?+$~=_./:-][^\W_]|[a-z][0-9]|[0-9][a-z]",
    re.IGNORECASE,
)
"""A line with a secret has one of these words, so that the line is held back whole."""

_ANNOUNCING_THE_NEXT = re.compile(
    r"(?:(?:passw(?:or)?d|passwd|pass|pwd|passphrase|secrets?|tokens?|credentials?|key(?:-data)?)"
    r"(?:\\*[\"'`])?(?:[ \t]*:[ \t]*[|>]?[+-]?)?|\blogin[ \t]+\S+)[ \t]*,?[ \t]*\r?\Z"
    r"|\bey[IJK][\w.-]{10,}\\?\r?\Z"
    r"|[$#%>\u276f] .*(?:pass|secret|token|key|cred|cookie|rand\b|pwgen)|assword\W*\Z|\bcodes:",
    re.IGNORECASE,
)
"""The end of a line that says what the next one holds, or that the next one continues."""

_LABEL = re.compile(LABEL, re.IGNORECASE)

_BLANK = re.compile(r"[ \t\r\n]")
"""Not the other blanks of Unicode, because the rules do not take them for the end of a word."""


def settled_length(text: str) -> int:
    """Return how many characters of a running text can be written down now, 0 for none.

    Always all but HELD_CHARACTERS_MAX, so that what waits is bounded.
    """
    # Rules look at it as it is read, too: what is settled is settled in both.
    bare = as_read(text.encode("utf-8", "surrogatepass"))
    if bare is None:
        return _settled_length(text)
    seen = bare.text.decode("utf-8", "surrogatepass")
    settled = _settled_length(seen)
    if settled:
        kept = seen[:settled].encode("utf-8", "surrogatepass")
        _, end = bare.span(0, len(kept))
        settled = len(text.encode("utf-8", "surrogatepass")[:end].decode("utf-8", "surrogatepass"))
    # Taking escapes away makes it shorter; what waits is bounded by what has come.
    return max(settled, len(text) - HELD_CHARACTERS_MAX)


def settled_paragraphs(text: str) -> int:
    """Return how many characters can be written down now: whole paragraphs.

    A rule may need several lines, for example the head of a table above a cell. A paragraph of more
    than HELD_CHARACTERS_MAX is settled by words, as in `settled_length`.
    """
    settled = settled_length(text)
    end = text.rfind(PARAGRAPH, 0, settled)
    if end < 0:
        return settled if len(text) > HELD_CHARACTERS_MAX else 0
    return end + len(PARAGRAPH)


def _settled_length(text: str) -> int:
    from_here = max(0, len(text) - HELD_CHARACTERS_MAX)
    end, block = _open_block(text, from_here)
    settled = _settled_before(text, end, from_here)
    # Within a block that is whole nothing is cut, nor within a word right before the block.
    is_within = block[0] < settled < block[1]
    return _back_to_blank(text, block[0], from_here) if is_within else settled


def _settled_before(text: str, end: int, from_here: int) -> int:
    line = max(from_here, text.rfind("\n", from_here, end) + 1)
    earlier = _first_that_belongs(text, line, from_here)
    if earlier < line:
        return earlier
    return line if _ANNOUNCING.search(text, line, end) else _back_to_blank(text, end, line)


def _first_that_belongs(text: str, line: int, from_here: int) -> int:
    """Return where the first of the lines begins that are to be looked at with the one at hand."""
    first = at_hand = line
    while line > from_here:
        line = max(from_here, text.rfind("\n", from_here, line - 1) + 1)
        # The end alone: a line of a megabyte would else be looked through for each piece.
        end = text.index("\n", line)
        ended = text[max(line, end - LINE_ENDS_LOOKED_AT) : end]
        is_key = is_key_line(ended.encode("utf-8", "surrogatepass"))
        # Only right above, because a line with a label needs no other label.
        is_label = first == at_hand and _LABEL.search(ended)
        if is_key or is_label or "-----BEGIN" in ended or _ANNOUNCING_THE_NEXT.search(ended):
            first = line
        elif ended.strip():
            break
    return first


def _open_block(text: str, from_here: int) -> tuple[int, tuple[int, int]]:
    """Return where a key block begins that has no end yet, the end of the text without one.

    With it, where the last one before it stands that is whole.
    """
    whole = (from_here, from_here)
    begin = _BEGIN.search(text, from_here)
    while begin is not None:
        closed = _END.search(text, begin.end())
        if closed is None:
            return begin.start(), whole
        whole = (begin.start(), closed.end())
        begin = _BEGIN.search(text, closed.end())
    return len(text), whole


def _back_to_blank(text: str, end: int, from_here: int) -> int:
    """Return where the word begins that goes on at `end`."""
    while end > from_here and not _BLANK.match(text, end - 1):
        end -= 1
    return end


# --- a stream of bytes ----------------------------------------------------------------------------


class RedactedStream:
    """Redacts bytes as they come: `feed` returns what can be written, `finish` the rest.

    Holds no more than HELD_CHARACTERS_MAX bytes and the piece at hand.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes; return what can be written by now, redacted, b"" for nothing.

        Bytes that are no UTF-8 stay as they are.
        """
        # A character for each byte: a piece may end within one of UTF-8, and bytes may be none.
        self._held += piece.decode("latin-1")
        length = settled_length(self._held)
        settled, self._held = self._held[:length], self._held[length:]
        return self._redacted(settled)

    def waiting(self) -> bytes:
        """Return what is held back, redacted as if nothing followed. Changes nothing."""
        return self._redacted(self._held)

    def finish(self) -> bytes:
        """Return what is left. The stream begins anew."""
        left, self._held = self._held, ""
        return self._redacted(left)

    def _redacted(self, text: str) -> bytes:
        return self._redactor.redact_bytes(text.encode("latin-1"))
