"""Shows how promises were kept."""

from __future__ import annotations

from collections.abc import Mapping


def matrix(verdicts: Mapping[tuple[str, str], str]) -> str:
    """Return a table, promise by subject, of (promise name, subject name) → verdict."""
    subjects = sorted({subject for _, subject in verdicts})
    names = sorted({promise for promise, _ in verdicts}, key=_by_number)
    width = max(map(len, names), default=0)
    columns = [max(len(subject), 8) for subject in subjects]
    head = " ".join([" " * width, *(f"{a:>{w}}" for a, w in zip(subjects, columns, strict=True))])
    rows = (
        " ".join(
            [
                f"{name:<{width}}",
                *(
                    f"{verdicts.get((name, subject), '-'):>{column}}"
                    for subject, column in zip(subjects, columns, strict=True)
                ),
            ]
        )
        for name in names
    )
    return "\n".join([head, *rows])


def _by_number(name: str) -> tuple[int, str]:
    return int(name[1:].partition("_")[0]), name
