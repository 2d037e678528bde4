"""Files that a line of shell reads by code: in another language, in a loop, in `$(< file)`. Pure.

Read from the text as it stands: what a program would have to be run to tell is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LANGUAGES: Final = frozenset(
    {"python", "python3", "node", "nodejs", "deno", "bun", "ruby", "perl", "php", "lua"}
)

_OPENED: Final = re.compile(
    r"""
    \b(?:open|Path|read_text|read_bytes|readFile(?:Sync)?|file_get_contents|slurp
       |(?:File|IO)\.(?:read|open|readlines|foreach))
    \(\s*[rbf]?\\?['"](?P<file>[^'"$`{}\\\n]{1,400})\\?['"]
    (?:\s*,\s*\\?['"](?P<mode>[\w+]{1,4})\\?['"])?
    """,
    re.VERBOSE,
)
_WRITTEN: Final = re.compile(r"\s*\)\s*\.\s*write_")
_SUBSTITUTED: Final = re.compile(r"\$\(\s*<\s*(?P<file>[\w./@+-]+)\s*\)")
_LOOP: Final = re.compile(
    r"\bfor\s+(?P<name>\w+)\s+in\s+(?P<words>[^;\n$`]{1,4000}?)\s*[;\n]\s*do\b"
    r"(?P<body>.*?)\bdone\b",
    re.DOTALL,
)


def opened_in(line: str) -> Iterator[str]:
    """Yield the files that code in a line opens to read, by the names it gives in full."""
    for found in _OPENED.finditer(line):
        # `r+` is not among them: it reads as well.
        is_writing = set(found["mode"] or "") & {"w", "a", "x"} or _WRITTEN.match(line, found.end())
        if not is_writing:
            yield found["file"]


def substituted_in(line: str) -> Iterator[str]:
    """Yield the files whose content stands in the place of `$(< file)`."""
    yield from (found["file"] for found in _SUBSTITUTED.finditer(line))


def looped_over(line: str) -> Iterator[str]:
    """Yield a loop's body for each word that it goes through, with that word in its place."""
    for found in _LOOP.finditer(line):
        named = re.compile(rf"\$(?:{found['name']}\b|\{{{found['name']}\}})")
        for word in found["words"].split():
            # By a function: a backslash in the word would else be taken for a reference to a group.
            yield named.sub(lambda _found, word=word: word, found["body"])
