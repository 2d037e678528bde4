"""Mark-up: the only place where text becomes HTML, so that no text can become anything else.

A `Markup` is HTML of ours; every other `str` that is put into an element is somebody's text. It is
redacted, what would act or hide is shown as its escape (`core.text`), and it is escaped.
No attribute holds a URL from outside, and none a style or a handler: `element` refuses them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import ClassVar, Final, TypeAlias

from upthread.core.redaction.placeholder import PLACEHOLDER
from upthread.core.redaction.redactor import Redactor
from upthread.core.text import visible_line, visible_text
from upthread.core.types import JsonValue
from upthread.surfaces.cli.terminal.output import plain

TEXT_CHARACTERS_MAX: Final = 100_000
"""How much of one text is shown, its beginning and its end; `--format json` has it whole."""

ATTRIBUTES: Final = frozenset(
    "aria-hidden aria-label aria-labelledby charset class colspan content datetime dir href "
    "http-equiv id lang max min name open role scope tabindex title value".split()
)
"""What an element may have: nothing that runs, loads or styles."""

LEADING: Final = frozenset({"href", "src", "action", "hx-get"})
"""What makes a browser ask for something."""

KNOWN_MAX: Final = 2_048
KNOWN_CHARACTERS_MAX: Final = 80
"""How many texts of up to so many characters are made once for all of a page."""

_VOID: Final = frozenset({"meta", "br", "hr", "link", "input"})
_REDACTED: Final = re.compile(f"({PLACEHOLDER})")


class Markup(str):
    """HTML of our own making."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[str | Markup | None] | None"


class Html:
    """Makes elements. `redactor` takes the secrets out of a text before anything else is done.

    `attributes` is what an element may have, and `leads_to` how an address begins.
    """

    attributes: ClassVar[frozenset[str]] = ATTRIBUTES
    leads_to: ClassVar[tuple[str, ...]] = ("#",)

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._redact = redactor.redact
        # Most texts of a page are short and stand in it often: labels, classes, kinds, states.
        self._known_text = lru_cache(KNOWN_MAX)(self._text)
        self._known_line = lru_cache(KNOWN_MAX)(self._line)
        self._known_attribute = lru_cache(KNOWN_MAX)(self._attribute)

    def text(self, text: str) -> Markup:
        """Return somebody's text of many lines, whole up to TEXT_CHARACTERS_MAX."""
        is_short = len(text) <= KNOWN_CHARACTERS_MAX
        return self._known_text(text) if is_short else self._text(text)

    def line(self, text: str) -> Markup:
        """Return somebody's text on one line."""
        is_short = len(text) <= KNOWN_CHARACTERS_MAX
        return self._known_line(text) if is_short else self._line(text)

    def _text(self, text: str) -> Markup:
        return _marked(visible_text(_bounded(self._redact(text))))

    def _line(self, text: str) -> Markup:
        # Redacted first: half a secret is none that anybody would know.
        return _marked(visible_line(self._redact(text)))

    def redacted(self, text: str) -> str:
        """Return a text without its secrets, which is going to be cut into pieces."""
        return self._redact(text)

    def json(self, value: JsonValue) -> Markup:
        """Return somebody's data, its secrets known by the names that they stand under as well."""
        told = plain(self._redactor.redact_json(value))
        return self.text(json.dumps(told, indent=2, ensure_ascii=False))

    def element(self, name: str, /, *children: Child, **attributes: str | bool | None) -> Markup:
        """Return an element. `class_`, `http_equiv` and the like stand for what they look like.

        An attribute that is None or False is left out, one that is True has no value.
        """
        told = "".join([self._known_attribute(key, value) for key, value in attributes.items()])
        if name in _VOID:
            return Markup(f"<{name}{told}>")
        inside: list[str] = []
        for child in children:
            # A long page has half a million elements: a generator takes a quarter longer for each.
            if isinstance(child, str):
                inside.append(self._child(child))
            elif child is not None:
                inside += [self._child(each) for each in child if each is not None]
        return Markup(f"<{name}{told}>{''.join(inside)}</{name}>")

    def opening(self, name: str, /, **attributes: str | bool | None) -> Markup:
        """Return the beginning of an element that is written piece by piece."""
        told = "".join(self._known_attribute(key, value) for key, value in attributes.items())
        return Markup(f"<{name}{told}>")

    def _child(self, child: str) -> str:
        return child if isinstance(child, Markup) else self.text(child)

    def _attribute(self, key: str, value: str | bool | None) -> str:  # noqa: FBT001  # a value
        name = key.rstrip("_").replace("_", "-")
        assert name in self.attributes, f"no element has the attribute {name!r}"
        if value is None or value is False:
            return ""
        if value is True:
            return f" {name}"
        # Only to a place in this very page, whose names are ours.
        assert name not in LEADING or value.startswith(self.leads_to), "a page leads nowhere else"
        return f' {name}="{escape(visible_line(self._redact(value)), quote=True)}"'


def closing(name: str) -> Markup:
    """Return the end of an element that is written piece by piece."""
    return Markup(f"</{name}>")


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
