"""Later: a value that is made, and its code loaded, when something of it is first asked for.

For what every opening of a project hands on and a look does not use, such as the redactor: to make
it loads more than a look does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


def later(make: Callable[[], Value], **known: object) -> Value:
    """Return what stands for a value and is used as it; `known` are attributes told beforehand."""
    return cast("Value", _Later(make, known))


class LaterMapping(Mapping[str, Value]):
    """A mapping of which the keys are known; its values are made when one of them is asked for."""

    def __init__(self, keys: Collection[str], make: Callable[[], Mapping[str, Value]]) -> None:
        self._keys = keys
        self._make = make

    def __getitem__(self, key: str) -> Value:
        if key not in self._keys:
            raise KeyError(key)
        return self._make()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class _Later:
    def __init__(self, make: Callable[[], object], known: dict[str, object]) -> None:
        self.__dict__.update(known)
        self._make = make

    def __getattr__(self, name: str) -> Any:
        value = self._make()
        self._make = lambda: value
        return getattr(value, name)
