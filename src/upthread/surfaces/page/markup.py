"""Templates: the only place where text becomes HTML, so that no text can become anything else.

A template is a literal of ours with `{}` for each value. A value that is no `Markup` is somebody's
text: it is redacted, what would act or hide is shown as its escape (`core.text`), and it is
escaped. Each template is checked once: no attribute holds a URL from outside, a style or a handler.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from itertools import chain
from string import Formatter
from typing import ClassVar, LiteralString, NamedTuple, cast

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.values import PLACEHOLDER
from upthread.core.text import visible_line, visible_text
from upthread.core.types import JsonValue
from upthread.surfaces.cli.terminal.output import plain

TEXT_CHARACTERS_MAX = 100_000
"""How much of one text is shown, its beginning and its end; `--format json` has it whole."""

ATTRIBUTES = frozenset(
    "aria-hidden aria-label aria-labelledby charset class colspan content datetime dir href "
    "http-equiv id lang max min name open role scope tabindex title value".split()
)
"""What an element may have: nothing that runs, loads or styles."""

LEADING = frozenset({"href", "src", "action", "hx-get"})
"""What makes a browser ask for something."""

KNOWN_MAX = 4_096
KNOWN_CHARACTERS_MAX = 80
"""How many texts of up to so many characters are made once for all of a page."""

_VALUE = "\0"
"""Stands for a value while a template is checked."""

_REDACTED = re.compile(f"({PLACEHOLDER})")
_TAG = re.compile(r"<[a-z][a-z0-9]*([^<>]*)")
_ATTRIBUTE = re.compile(r'([a-z-]+)(?:="([^"]*)")?')
_OPEN_VALUE = re.compile(r'([a-z-]+)="([^"]*)$')


class Markup(str):
    """HTML of our own making."""

    __slots__ = ()


class _Slot(NamedTuple):
    """Where a value goes: what stands before it, and what it is there.

    `kind` is `line`, `text`, `json`, `value` of an attribute, `address` for one that leads
    somewhere, or `?open` for an attribute that may be left out.
    """

    before: str
    kind: str


class Html:
    """Fills templates. `redactor` takes the secrets out of a text before anything else is done.

    `attributes` is what an element may have, and `leads_to` how an address begins.
    """

    attributes: ClassVar[frozenset[str]] = ATTRIBUTES
    leads_to: ClassVar[tuple[str, ...]] = ("#",)

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._templates: dict[str, tuple[list[_Slot], str]] = {}
        # Most texts of a page are short and stand in it often: labels, classes, kinds, states.
        self._known = lru_cache(KNOWN_MAX)(self._made)

    def __call__(self, template: LiteralString, *values: object) -> Markup:
        """Fill a template, for example `html('<p class="note">{}</p>', text)`.

        `{}` is one line, `{:text}` a text of many lines, and `{:json}` data. None is nothing, and
        several values stand one after the other. In `<details{:open}>` the attribute is left out
        where its value is None or False.
        """
        if template not in self._templates:
            self._templates[template] = self._read(template)
        slots, end = self._templates[template]
        filled = [
            slot.before + self._shown(slot.kind, value)
            for slot, value in zip(slots, values, strict=True)
        ]
        return Markup("".join(filled) + end)

    def redacted(self, text: str) -> str:
        """Return a text without its secrets, which is going to be cut into pieces."""
        return self._redactor.redact(text)

    # --- values --------------------------------------------------------------------------------

    def _shown(self, kind: str, value: object) -> str:
        if kind == "json":
            # Secrets are known by the names that they stand under as well.
            told = plain(self._redactor.redact_json(cast("JsonValue", value)))
            return self._made("text", json.dumps(told, indent=2, ensure_ascii=False))
        if isinstance(value, Markup) and kind in {"line", "text"}:
            return value
        if value is None or (value is False and kind[0] == "?"):
            return ""
        if kind[0] == "?":
            return (
                f" {kind[1:]}" if value is True else f' {kind[1:]}="{self._made("", str(value))}"'
            )
        if isinstance(value, str | int):
            text = str(value)
            is_short = len(text) <= KNOWN_CHARACTERS_MAX
            return self._known(kind, text) if is_short else self._made(kind, text)
        return "".join([self._shown(kind, each) for each in cast("Iterable[object]", value)])

    def _made(self, kind: str, text: str) -> str:
        # Redacted first: half a secret is none that anybody would know.
        clean = self._redactor.redact(text)
        if kind == "text":
            return _marked(visible_text(_bounded(clean)))
        if kind == "line":
            return _marked(visible_line(clean))
        # Only to a place in this very page, whose names are ours.
        assert kind != "address" or text.startswith(self.leads_to), "a page leads nowhere else"
        return escape(visible_line(clean))

    # --- templates -----------------------------------------------------------------------------

    def _read(self, template: str) -> tuple[list[_Slot], str]:
        """Return the places of a template's values and what stands after the last one."""
        slots: list[_Slot] = []
        read = end = ""
        for before, name, spec, _ in Formatter().parse(template):
            read += before
            if name is None:
                end = before
            else:
                slots.append(_Slot(before, self._kind(read, spec or "")))
                read += _VALUE
        attributes = (_ATTRIBUTE.findall(tag[1]) for tag in _TAG.finditer(read))
        for name, value in chain.from_iterable(attributes):
            assert name in self.attributes, f"no element has the attribute {name!r}"
            leads = not value or value.startswith((_VALUE, *self.leads_to))
            assert name not in LEADING or leads, "a page leads nowhere else"
        return slots, end

    def _kind(self, read: str, spec: str) -> str:
        tag = read.rpartition("<")[2]
        if "<" not in read or ">" in tag:
            return spec or "line"
        if found := _OPEN_VALUE.search(tag):
            return "address" if found[1] in LEADING and not found[2] else "value"
        assert spec in self.attributes - LEADING, f"no element has the attribute {spec!r}"
        return f"?{spec}"


def _marked(shown: str) -> Markup:
    """Escape what is visible already, and mark what was taken out of it."""
    pieces = _REDACTED.split(shown)
    return Markup(
        "".join(
            f'<mark class="gone">{escape(piece)}</mark>' if index % 2 else escape(piece)
            for index, piece in enumerate(pieces)
        )
    )


def _bounded(text: str) -> str:
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    half = TEXT_CHARACTERS_MAX // 2
    left = len(text) - 2 * half
    return f"{text[:half]}\n\n… {left} characters are not shown here …\n\n{text[-half:]}"
