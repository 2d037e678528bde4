"""Which set of tests a case of a matrix belongs to.

`make test` runs unmarked tests, `make test-all` also those marked `extended`, and `make soak` also
those marked `soak`. A matrix keeps a few representatives in the first set.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

EXTENDED = pytest.mark.extended
SOAK = pytest.mark.soak


def spread(
    cases: Iterable[Any],
    *,
    first: int | Sequence[Any] = 1,
    extended: int | Sequence[Any] | None = None,
    name: Callable[[Any], str] | None = None,
) -> list[Any]:
    """Return the cases of a matrix as parameters, each marked with its set.

    `first` is a count or a list of cases for `make test`; `extended` the same for `make test-all`,
    None for all that remain. Every later case runs in `make soak` alone. A case that is a tuple is
    one parameter; `name` makes its id.

    Example: `spread(AGENTS, first=["codex"], extended=4)`.
    """
    every = list(cases)
    first_set = every[:first] if isinstance(first, int) else list(first)
    later = [case for case in every if case not in first_set]
    if extended is None:
        extended_set = later
    elif isinstance(extended, int):
        extended_set = later[:extended]
    else:
        extended_set = [case for case in later if case in extended]
    unknown = [case for case in first_set if case not in every]
    assert not unknown, f"the matrix has no such case: {unknown}"
    return [
        pytest.param(case, id=name(case) if name else None, marks=marks)
        for case, marks in (
            (case, _marks(is_first=case in first_set, is_extended=case in extended_set))
            for case in every
        )
    ]


def _marks(*, is_first: bool, is_extended: bool) -> tuple[pytest.MarkDecorator, ...]:
    if is_first:
        return ()
    return (EXTENDED,) if is_extended else (SOAK,)
