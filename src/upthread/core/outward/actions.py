"""An action beyond this machine: its family, and what it is done to. Pure.

Two wordings of one action are equal here. What a wording leaves out is None: `git push` may mean
any remote, so it may be the same as a push to one. To look once too often costs a question; to look
once too seldom does the action twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Action:
    """One action. `target` has a place for each thing it is done to; None where nothing says it."""

    family: str
    target: tuple[str | None, ...] = ()

    @property
    def in_words(self) -> str:
        """The family and what is known of its target: `push origin main`."""
        return " ".join((self.family, *(each for each in self.target if each)))

    def may_be(self, other: Action) -> bool:
        """Return whether both may be one action: nothing that both say differs."""
        return self.family == other.family and all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip_longest(self.target, other.target)
        )
