"""What we use of google-re2, which ships no types."""

from collections.abc import Iterator
from enum import IntEnum

class Options:
    class Encoding(IntEnum):
        UTF8 = 1
        LATIN1 = 2

    case_sensitive: bool
    encoding: Encoding
    literal: bool
    log_errors: bool
    max_mem: int

class _Match:
    def end(self) -> int: ...
    def span(self, group: int = 0) -> tuple[int, int]: ...
    def start(self) -> int: ...

class _Pattern:
    groups: int
    def finditer(self, text: bytes) -> Iterator[_Match]: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...
    def search(self, text: bytes, pos: int = 0) -> _Match | None: ...

class Set:
    @classmethod
    def SearchSet(cls, options: Options | None = None) -> Set: ...
    def Add(self, pattern: bytes) -> int: ...
    def Compile(self) -> None: ...
    def Match(self, text: bytes) -> list[int] | None: ...

class error(Exception): ...  # noqa: N818, N801  # its name there

def compile(pattern: bytes, options: Options | None = None) -> _Pattern: ...
