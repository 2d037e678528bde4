"""The redactor: a text in, the same text out but for its secrets.

In place of a secret stands a placeholder (core/redaction/values.py). All else comes back as it
was, byte for byte, and a text without secrets is the very same object. What was redacted once does
not change when it is redacted again.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from upthread.core.redaction.values import (
    BY_LOOKS,
    PLACEHOLDER,
    anything,
    is_real,
    looks_random,
    placeholder,
)
from upthread.core.types import JsonObject, JsonValue

if TYPE_CHECKING:  # loaded for the first text that may hold a secret
    from upthread.core.redaction.expressions import AsRead, Expression, ExpressionSet
    from upthread.core.redaction.rules import Rule
    from upthread.core.redaction.values import Check

PASSES_MAX = 8
"""A secret may stand right behind another one; a line with more of them in a row goes whole."""

SHORTEST_CHARACTERS = 8
"""No shipped rule matches less, its context counted."""

NAMED_BYTES_MIN = 6
"""A shorter value is no secret, whatever its name: it could be guessed from its digest."""

NAME_CHARACTERS_MAX = 64
"""Longer names of members are judged each time anew: what is remembered stays small."""

DIGEST_CHARACTERS = 64

_HARMLESS = re.compile(
    r"[a-z_]{1,20}|[0-9.]{1,12}|[0-9a-f]{1,17}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
"""A word, a version or an id that no shipped rule matches: most hooks record nothing else."""

_LINE = "line"
_WITHOUT_HEXADECIMAL = dict.fromkeys(map(ord, "0123456789abcdef"))
_NOWHERE = (1 << 62, 1 << 62)
_CONTINUATION_BYTES_MAX = 3
_BLANKS = bytes(range(0x21))


class Span(NamedTuple):
    """Where a secret stands, in bytes, and of which family it is."""

    start: int
    end: int
    family: str


class Redactor:
    """Redacts by the shipped rules, and the user's, but for what the user allows.

    `key` makes the digests; at least 16 bytes by chance. `allowed` are expressions: a value one of
    them matches whole stays. ConfigError for an expression that RE2 does not take.
    """

    def __init__(
        self, key: bytes, *, rules: Iterable[Rule] = (), allowed: Iterable[str] = ()
    ) -> None:
        self._key = key[: hashlib.blake2b.MAX_KEY_SIZE]
        self._own = tuple(rules)
        for rule in self._own:  # one that is none is refused at once
            _expression(rule.pattern)
        self._allowed = tuple(map(_expression, allowed))

    @functools.cached_property
    def _rules(self) -> tuple[Rule, ...]:
        from upthread.core.redaction.rules import RULES  # noqa: PLC0415  # as above

        return (*RULES, *self._own)

    @functools.cached_property
    def _known(self) -> _Known:
        """Compiled for the first text: whoever only looks something up pays nothing."""
        return _known(self._rules)

    def redact(self, text: str, *, is_id: bool = False) -> str:
        """Return a text without its secrets, the same object when it has none.

        Of an id looks do not count: see `redact_id`.
        """
        # A person's own rule may match less than any that is shipped.
        if not self._own and (len(text) < SHORTEST_CHARACTERS or _HARMLESS.fullmatch(text)):
            return text
        content = text.encode("utf-8", "surrogatepass")
        if not self._may_hold_some(content):
            return text
        redacted = self.redact_bytes(content, is_id=is_id)
        return text if redacted is content else redacted.decode("utf-8", "surrogatepass")

    def redact_id(self, given: str) -> str:
        """Return an id without secrets that have a form or a name, the same object without one.

        Looks do not count, because many ids are random words, for example nanoids. A session with
        a redacted id cannot be attached again.
        """
        return self.redact(given, is_id=True)

    def redact_bytes(self, content: bytes, *, is_id: bool = False) -> bytes:
        """Return UTF-8 without its secrets, the same object when it has none."""
        # Again, until nothing is found: what stands right behind a match is only found then.
        for _ in range(PASSES_MAX):
            spans = self._spans(content, is_id=is_id)
            if not spans:
                return content
            content = self._replaced(content, spans)
        # What never comes to rest goes by whole lines: let through, it would be kept.
        return self._replaced(content, _lines_of(content, self._spans(content)))

    def redact_json(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without secrets in its texts and its names; its structure stays.

        A member's name is context: what stands under `password` is a secret. The same object when
        there is none.
        """
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return self._redact_members(value)
        if isinstance(value, Sequence):
            members = [self.redact_json(member) for member in value]
            is_same = all(new is old for new, old in zip(members, value, strict=True))
            return value if is_same else members
        return value

    def finds_nothing_in(self, texts: Iterable[str]) -> bool:
        """Return whether `redact` would leave all of these as they are, in one look.

        False also where one look cannot tell. A line end between two texts is to a shipped rule
        what the end of a text is; to a user's own it need not be, so those look one by one.
        """
        if self._own:
            return False
        # For a name such as `window_tokens` most rules would be compiled.
        left = filterfalse(_HARMLESS.fullmatch, texts)
        content = "\n".join(left).encode("utf-8", "surrogatepass")
        return not self._may_hold_some(content) or not self._spans(content)

    def digest(self, content: bytes) -> bytes:
        """Return 32 bytes that are equal for equal contents and say nothing without the key."""
        return hashlib.blake2b(content, key=self._key, digest_size=32).digest()

    # --- below: how ----------------------------------------------------------------------------

    def _redact_members(self, value: JsonObject) -> JsonValue:
        members = {self.redact(name): self._member(name, each) for name, each in value.items()}
        is_same = len(members) == len(value) and all(
            name is old_name and each is value[old_name]
            for (name, each), old_name in zip(members.items(), value, strict=True)
        )
        return value if is_same else members

    def _member(self, name: str, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            content = value.encode("utf-8", "surrogatepass")
            if self._is_secret_under(name, content):
                whole = [Span(0, len(content), "named-secret")]
                # What was redacted before stays as it is: to redact twice must change nothing.
                left = _without(whole, self._known.placeholder.spans(content))
                return self._replaced(content, left).decode() if left else value
            if name == "id" or name.endswith("_id"):
                return self.redact_id(value)
        return self.redact_json(value)

    def gather(self, value: JsonValue, texts: list[str]) -> bool:
        """Add a value's texts to the others; False where a member's name may make one a secret.

        Then one look at the texts tells for all of them what `redact_json` would, and else not.
        """
        if isinstance(value, str):
            texts.append(value)
            return True
        if isinstance(value, (dict, Mapping)):  # to ask for the abstract one alone takes longer
            return self._gather_members(value, texts)
        if isinstance(value, (list, Sequence)):
            return all(self.gather(each, texts) for each in value)
        return True

    def _gather_members(self, members: JsonObject, texts: list[str]) -> bool:
        for name, each in members.items():
            texts.append(name)
            if isinstance(each, str):  # most are: no call for these
                # Under such a name a secret need have no form: one look over all is not enough.
                if len(name) > NAME_CHARACTERS_MAX or _check_under(name) is not None:
                    return False
                # A SHA-256 by itself is no secret; among lines it could be one of a key's.
                if len(each) != DIGEST_CHARACTERS or each.translate(_WITHOUT_HEXADECIMAL):
                    texts.append(each)
            elif not self.gather(each, texts):
                return False
        return True

    def _is_secret_under(self, name: str, value: bytes) -> bool:
        check = _check_under(name) if len(name) <= NAME_CHARACTERS_MAX else _check_of(name)
        if check is None or len(value) < NAMED_BYTES_MIN or value.translate(None, _BLANKS) != value:
            return False
        return check(value) and not self._is_allowed(value)

    def _may_hold_some(self, content: bytes) -> bool:
        if self._known.places.found_in(content):
            return True
        bare = self._known.as_read(content)
        return bare is not None and bool(self._known.places.found_in(bare.text))

    def _spans(self, content: bytes, *, is_id: bool = False) -> list[Span]:
        """Return what is to be replaced, left to right, nothing overlapping."""
        found = self._found_in(content, is_id=is_id)
        # Beside the text as it is, not in its place: without a colour two words may become one.
        if bare := self._known.as_read(content):
            seen = self._found_in(bare.text, is_id=is_id)
            found += [Span(*bare.span(span.start, span.end), span.family) for span in seen]
        if not found:
            return found
        # Not what is a placeholder already: the `token=` before it would have it taken again.
        return _without(_merged(found), self._known.placeholder.spans(content))

    def _found_in(self, content: bytes, *, is_id: bool) -> list[Span]:
        found: list[Span] = []
        for place in self._known.places.found_in(content):
            rule = self._rules[place]
            if is_id and rule.family == BY_LOOKS:
                continue
            find = rule.find or _expression(rule.pattern).spans
            places = find(content)
            for start, end in places:
                value = content[start:end]
                if value and rule.check(value) and not self._is_allowed(value):
                    # Half a character would make the text one that is no UTF-8.
                    found.append(Span(*_whole_characters(content, start, end), rule.family))
        return found

    def _is_allowed(self, value: bytes) -> bool:
        return any(allowed.is_whole(value) for allowed in self._allowed)

    def _replaced(self, content: bytes, spans: Iterable[Span]) -> bytes:
        pieces: list[bytes] = []
        end = 0
        for span in spans:
            secret = content[span.start : span.end]
            stands = placeholder(span.family, secret, self._key)
            pieces += (content[end : span.start], stands)
            end = span.end
        return b"".join((*pieces, content[end:]))


class _Known(Struct, frozen=True):
    """What is the same for every redactor under the same rules, compiled once.

    `places` says which rules to look with; each is compiled when it is first found somewhere.
    """

    places: ExpressionSet
    placeholder: Expression
    as_read: Callable[[bytes], AsRead | None]


@functools.lru_cache(maxsize=4)
def _known(rules: tuple[Rule, ...]) -> _Known:
    from upthread.core.redaction.expressions import ExpressionSet, as_read, roughly  # noqa: PLC0415  # as above

    patterns = [
        rule.pattern if rule.find or rule.check is anything else roughly(rule.pattern)
        for rule in rules
    ]
    places = ExpressionSet(patterns, [rule.needs for rule in rules])
    return _Known(places=places, placeholder=_expression(PLACEHOLDER), as_read=as_read)


@functools.lru_cache(maxsize=1024)
def _expression(pattern: str) -> Expression:
    from upthread.core.redaction.expressions import Expression  # noqa: PLC0415  # as above

    return Expression(pattern)


def _check_of(name: str) -> Check | None:
    """Return what shows that a member's value is a secret, None where its name says nothing."""
    content = name.encode("utf-8", "surrogatepass")
    weak, strong = _secret_names()
    if strong.is_whole(content):
        return is_real
    return looks_random if weak.is_whole(content) else None


_check_under = functools.lru_cache(maxsize=1024)(_check_of)
"""The same, remembered: agents call the same tools with the same members all day."""


@functools.cache
def _secret_names() -> tuple[Expression, Expression]:
    from upthread.core.redaction.rules import SECRET_NAME, STRONG_NAME  # noqa: PLC0415  # as above

    return _expression(SECRET_NAME), _expression(STRONG_NAME)


def _merged(found: list[Span]) -> list[Span]:
    """Join what overlaps; the one that begins first, and of these the longest, names the family."""
    merged: list[Span] = []
    # Of those that begin at one place the longest first, so that it names the family.
    for span in sorted(found, key=lambda each: (each.start, -each.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, span.end))
        else:
            merged.append(span)
    return merged


def _without(spans: Iterable[Span], placeholders: Iterable[tuple[int, int]]) -> list[Span]:
    """Leave the placeholders that are there already: only what is around them is a secret yet."""
    left: list[Span] = []
    there = iter(placeholders)
    start, end = next(there, _NOWHERE)
    for span in spans:
        rest = span
        while end <= rest.start:
            start, end = next(there, _NOWHERE)
        while start < rest.end:
            left.append(rest._replace(end=start))
            rest = rest._replace(start=end)
            if end > rest.end:
                break
            start, end = next(there, _NOWHERE)
        left.append(rest)
    return [span for span in left if span.start < span.end]


def _whole_characters(content: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the span widened to whole characters of UTF-8: a rule of the user's sees bytes."""
    for _ in range(_CONTINUATION_BYTES_MAX):
        start -= 0 < start < len(content) and content[start] & 0xC0 == 0x80
        end += end < len(content) and content[end] & 0xC0 == 0x80
    return start, end


def _lines_of(content: bytes, spans: Iterable[Span]) -> list[Span]:
    """Return the lines that hold the spans, whole."""
    lines = [
        Span(
            content.rfind(b"\n", 0, span.start) + 1,
            len(content) if (end := content.find(b"\n", span.end)) < 0 else end,
            _LINE,
        )
        for span in spans
    ]
    return _merged(lines)
