"""Private keys as blocks of lines, whatever stands before and behind each of them.

A file is rarely shown bare: tools number its lines, name its path, quote, indent, mark or colour
them, and put what they say into JSON or source code. So a block is not one expression. From a
marker the lines are walked, and a line is one of the key's when a run of base64 closes it; what
stands before the run is the gutter, whatever it is. Blocks are PEM's (RFC 7468), OpenPGP's (RFC
9580), OpenSSH's and PuTTY's. A key that was cut is one, too: without its end, without its
beginning, or from a first line that only a private key has.

The middle of a key alone, which is what a tool shows that reads a part of a file, looks like any
other base64: lines of the width that keys have, one after the other, are taken for one unless they
stand in a block that says it is something else.
"""

import re
import string
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

Spans: TypeAlias = Iterator[tuple[int, int]]

KEY_LINES_MAX = 1024
"""A key of 16,384 bits has 200 lines."""

STRANGE_LINES_MAX = 6
"""So many lines in a row that are no key's may stand within one: headers, blanks, separators."""

RUN_BYTES_MIN = 24
WRAPPED_RUN_BYTES_MIN = 6
"""Of a line right below the beginning of a key, where hardly ever a word stands alone."""

LONG_RUN_BYTES = 40
"""A run of so many needs no digit in it to be a key's."""

MIDDLE_LINES_MIN = 3
GUTTERS_ALIKE_FROM = 2
"""The gutter of the first line may be written down already: text comes in pieces."""

DISTINCT_MIN = 24
"""A line by chance has some forty different characters."""

KEY_WIDTHS = frozenset({64, 70})
"""Of PEM and of OpenSSH; PuTTY's and OpenPGP's are 64, too."""

TAGS_MAX = 4
TAG_BYTES_MAX = 12

KEY_BLOCK = (
    r"(?:BEGIN|END)(?:[ +]|%20)(?:[A-Z0-9 +]|%20)*PRIVATE(?:[ +]|%20)KEY"
    r"|PuTTY-User-Key-File-|Private-Lines:|Private-MAC:"
    r"|b3BlbnNzaC1rZXktdjE|MHcCAQEE|MIGkAgEBBD|MIHcAgEBBE|CAQAwBQYDK2V"
    r"|IBAAK[BC]|IBADANBgkqhkiG9w0BAQEF|AgEAMB[A-Z]GByqGSM49|BgkqhkiG9w0BBQ"
)
"""What a text has that holds one, as an expression of RE2: where it is not found, nothing is."""

KEY_BODY = r"[A-Za-z0-9+/]{64}"
"""The same for the middle of one."""

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=%\\"
_BEHIND = b" \t\r\"'`,;|\\+)]}.*$" + bytes(range(0x80, 0x100))
"""What may follow a line's run: quotes, joints of source code, frames, an ellipsis."""

_BETWEEN = rb"\r?\n|\r|\\{1,16}(?:[nr]|u000[aAdD])|%0[AaDd]|&#(?:1[03]|x[aAdD]);|<br ?/?>"
"""From one line to the next: in a file, in JSON at any depth, in a URL, in HTML."""

_PAINT = rb"(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,16}[A-Za-z]"
_KINDS = (string.ascii_uppercase.encode(), string.ascii_lowercase.encode(), b"0123456789")
_NUMBER = rb" *[0-9]+"
_RUN = re.compile(rb"[A-Za-z0-9+/=%\\]+")
_SPACE = rb"(?:[ +]|%20)"
_LABEL = rb"(?:[A-Z0-9 +]|%20){0,60}?PRIVATE" + _SPACE + rb"KEY(?:" + _SPACE + rb"BLOCK)?"
_FIRST_LINE = (
    rb"(?:b3BlbnNzaC1rZXktdjE"  # openssh-key-v1
    rb"|MII[A-Z][A-Za-z0-9+/]{2}(?:IBAAK[BC]|IBADANBgkqhkiG9w0BAQEF)"  # RSA, PKCS 1 and 8; DSA
    rb"|MIIB[uv][A-Za-z0-9+/]IBAAKB"
    rb"|MHcCAQEE|MIGkAgEBBD|MIHcAgEBBE"  # SEC 1: P-256, P-384, P-521
    rb"|MI[GH][A-Za-z0-9+/]AgEAMB[A-Z]GByqGSM49"  # the same as PKCS 8
    rb"|M[CEF][0-9a-zA-Z]CAQAwBQYDK2V"  # Ed25519, X25519 and their like
    rb"|MI[A-Z][A-Za-z0-9+/]{1,6}BgkqhkiG9w0BBQ)"  # PKCS 8, encrypted
    rb"[A-Za-z0-9+/=]{8}"
)
_FOLDED = (
    rb"(?: {1,4}[A-Za-z0-9+/]{24,}={0,2})+"
    rb"(?: {1,4}[A-Za-z0-9+/]{1,23}(?:={1,2}|(?=\s*(?:-----END|\Z))))?"
)
"""A key's lines put into one, as agents do that make a title of a prompt."""

_END = rb"-{0,5} ?END" + _SPACE + _LABEL + rb" ?-{0,5}|Private-MAC: ?[0-9a-f]{1,128}"
_MARKER = (
    rb"(?P<begin>-{4,5} ?BEGIN" + _SPACE + _LABEL + rb" ?-{0,5}"
    rb"|PuTTY-User-Key-File-[0-9]:[^\r\n\\]{0,80})"
    rb"|(?P<end>" + _END + rb")"
    rb"|(?P<first>Private-Lines: ?[0-9]{1,4}|(?<![A-Za-z0-9/=])" + _FIRST_LINE + rb")"
)


class _Line(Struct, frozen=True):
    """A line from `start` to `end`; its run of base64, if it ends with one, begins at `run`."""

    start: int
    end: int
    run: int
    run_end: int


def key_blocks(content: bytes) -> Spans:
    """Yield where private keys stand, left to right."""
    taken = 0
    for marker, before, after in _markers(content):
        # It lies in the key before it, whose end it is.
        if marker.start() < taken:
            continue
        start, end = marker.span()
        if marker.lastgroup == "end":
            start = _backwards(content, start, max(before, taken))
        else:
            end = _forwards(content, marker, after)
        # A marker alone, as prose and code have it, is no key.
        if (start, end) != marker.span():
            yield start, end
            taken = end


def key_middles(content: bytes) -> Spans:
    """Yield where lines stand that may be the middle of a private key."""
    block: list[_Line] = []
    last, is_named = b"", False
    for line in _all_lines(content):
        text = content[line.start : line.end]
        gutter = _gutter(content, line)
        if _is_of_a_width(content, line) and (len(block) < GUTTERS_ALIKE_FROM or gutter == last):
            block.append(line)
            last = gutter
            continue
        # A block that says what it is, such as a certificate, is no private key.
        if not is_named and b"-----END" not in text:
            yield from _middle(block)
        is_named = b"-----BEGIN" in text or (is_named and not block and not text.strip())
        block = [line] if _is_of_a_width(content, line) else []
        last = gutter
    if not is_named:
        yield from _middle(block)


def is_key_line(line: bytes) -> bool:
    """Return whether a line may be one of a private key's body."""
    return _is_key_line(line, _line(line, 0, len(line)))


# --- below: how --------------------------------------------------------------------------------


def _markers(content: bytes) -> list[tuple[re.Match[bytes], int, int]]:
    """Return the markers, each with where the one before it ends and the next one begins.

    No further is looked, so that all looks together are as long as the text.
    """
    found = list(re.finditer(_MARKER, content))
    after: dict[str, int] = dict.fromkeys(("begin", "end", "first"), len(content))
    afters: list[int] = []
    for marker in reversed(found):
        kind = str(marker.lastgroup)
        # Never past the next beginning: else each marker would look through all that follows.
        afters.append(min(after[kind], after["begin"]))
        after[kind] = marker.start()
    before = 0
    bounded: list[tuple[re.Match[bytes], int, int]] = []
    for marker, limit in zip(found, reversed(afters), strict=True):
        bounded.append((marker, before, limit))
        before = marker.end() if marker.lastgroup != "first" else before
    return bounded


def _forwards(content: bytes, marker: re.Match[bytes], limit: int) -> int:
    """Return where the key ends that begins at a marker, the marker's own end where none does."""
    end = begun = marker.end()
    place, strange, gutter = begun, 0, b""
    if marker.lastgroup == "first":
        place = marker.start()
        run = _RUN.match(content, place, limit)
        end = run.end() if run and run.end() - place > LONG_RUN_BYTES else end
    folded = re.compile(_FOLDED).match(content, end, limit)
    end = folded.end() if folded else end
    for line in _lines_from(content, place, limit):
        closing = re.compile(_END).search(content, line.start, line.end)
        if closing:
            last = _line(content, line.start, closing.start())  # a whole key may stand on it
            return closing.end() if end > begun or _is_key_line(content, last) else begun
        # Until the first of them, headers and blanks may stand below the beginning.
        is_wrapped = marker.lastgroup == "begin" and (end == begun or not strange)
        if (is_wrapped and _is_wrapped(content, line)) or _is_key_line(content, line):
            end, strange, gutter = max(end, line.run_end), 0, _gutter(content, line)
        elif end > begun and not strange and _is_last(content, line, gutter):
            end, strange = line.run_end, 1
        else:
            strange += 1
        # Else a marker in prose would have all base64 behind it taken for its key.
        if strange > STRANGE_LINES_MAX:
            break
    return end


def _backwards(content: bytes, marker: int, limit: int) -> int:
    """Return where the key's lines begin that end at a marker: the marker where there are none."""
    start, strange = marker, -1  # before the marker stands its own gutter
    for line in _lines_before(content, limit, marker):
        if _is_key_line(content, line):
            start, strange = line.run, 0
        else:
            strange += 1
        if strange > 1:  # the last line of a key is a short one
            break
    return start


def _lines_from(content: bytes, start: int, limit: int) -> Iterator[_Line]:
    for _ in range(KEY_LINES_MAX):
        between = re.compile(_BETWEEN).search(content, start, limit)
        end = between.start() if between else limit
        yield _line(content, start, end)
        if between is None:
            return
        start = between.end()


def _lines_before(content: bytes, limit: int, end: int) -> Iterator[_Line]:
    for between in reversed(
        list(re.compile(_BETWEEN).finditer(content, limit, end))[-KEY_LINES_MAX:]
    ):
        yield _line(content, between.end(), end)
        end = between.start()
    if end > limit:
        yield _line(content, limit, end)


def _line(content: bytes, start: int, end: int) -> _Line:
    text = content[start:end]
    if b"[" in text:
        # By as many blanks: places in the line stay those in the text.
        text = re.sub(_PAINT, lambda found: b" " * len(found[0]), text)
    text = text.rstrip(_BEHIND)
    # HTML closes lines by tags; bounded, as a line may be nothing but tags.
    for _ in range(TAGS_MAX):
        tag = text.rfind(b"<", max(0, len(text) - TAG_BYTES_MAX))
        if tag < 0 or not text.endswith(b">"):
            break
        text = text[:tag].rstrip(_BEHIND)
    run = len(text.rstrip(_BASE64))
    tab = text.rfind(rb"\t", run)  # as JSON writes it; its letter is one of base64's
    return _Line(start, end, start + (run if tab < 0 else tab + 2), start + len(text))


def _is_key_line(content: bytes, line: _Line) -> bool:
    run = content[line.run : line.run_end]
    # A rule of dashes or of one letter is a separator.
    if len(run) < RUN_BYTES_MIN or run.count(run[:1]) == len(run):
        return False
    # A shorter run without a digit may be a word, such as a name in code.
    return len(run) >= LONG_RUN_BYTES or run.translate(None, b"0123456789+=") != run


def _is_wrapped(content: bytes, line: _Line) -> bool:
    """Return whether a line is nothing but a short run, as of a key that was wrapped narrower."""
    run = content[line.run : line.run_end]
    is_varied = run.count(run[:1]) < len(run)
    is_alone = not content[line.start : line.run].strip()
    return len(run) >= WRAPPED_RUN_BYTES_MIN and is_varied and is_alone


def _is_last(content: bytes, line: _Line, gutter: bytes) -> bool:
    """Return whether a line behind a key's is its last: a shorter run behind the same gutter."""
    length = line.run_end - line.run
    is_short = 0 < length < RUN_BYTES_MIN and _gutter(content, line) == gutter
    is_cut = line.end == len(content)  # the text ends in the middle of it
    return is_short and (is_cut or length % 4 == 0 or content[line.run : line.run + 1] == b"=")


def _all_lines(content: bytes) -> Iterator[_Line]:
    start = 0
    for between in re.compile(_BETWEEN).finditer(content):
        yield _line(content, start, between.start())
        start = between.end()
    yield _line(content, start, len(content))


def _is_of_a_width(content: bytes, line: _Line) -> bool:
    run = content[line.run : line.run_end]
    if len(run) not in KEY_WIDTHS:
        return False
    # A path or a hexadecimal digest of that width lacks one of these kinds.
    kinds = (run.translate(None, kind) != run for kind in _KINDS)
    return all(kinds) and len(set(run)) > DISTINCT_MIN


def _middle(block: list[_Line]) -> Spans:
    if len(block) >= MIDDLE_LINES_MIN:
        yield block[0].run, block[-1].run_end


def _gutter(content: bytes, line: _Line) -> bytes:
    return re.sub(_NUMBER, b"#", content[line.start : line.run])
