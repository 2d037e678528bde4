"""The price: tokens to resume a session beside tokens to brief a fresh one. Values only.

Tokens held come from the agent's own reports; where it says nothing, from what was said, and then
they are marked `~`. A provider that still has a session's prefix in its cache reads it at about a
tenth of the price of tokens it has to read anew; how long it keeps it is in CACHES, with sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from upthread.core.cache import state_of_cache

CacheState: TypeAlias = Literal["warm", "cold", "unknown"]

CHARACTERS_PER_TOKEN: Final = 4
"""Of English text and code, roughly; no tokenizer is right for all models, and most are large."""

THOUSAND: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRow:
    """How long an agent's provider keeps a prefix after its last use, in seconds.

    Until `warm_s` it is there; after `cold_s` it is gone; between them nobody can tell.
    """

    agent: str
    warm_s: int
    cold_s: int
    source: str


CACHES: Final = (
    CacheRow(
        agent="claude-code",
        warm_s=300,
        cold_s=3_600,
        source="5 minutes with an API key, 1 hour with a subscription, renewed by each use: "
        "https://code.claude.com/docs/en/prompt-caching",
    ),
    CacheRow(
        agent="codex",
        warm_s=300,
        cold_s=3_600,
        source="5 to 10 minutes without use, 1 hour at most: "
        "https://developers.openai.com/api/docs/guides/prompt-caching",
    ),
    CacheRow(
        agent="gemini",
        warm_s=0,
        cold_s=86_400,
        source="implicit, without a promise, gone within 24 hours: "
        "https://ai.google.dev/gemini-api/docs/caching",
    ),
)
ANY_CACHE: Final = CacheRow(
    agent="any other",
    warm_s=0,
    cold_s=86_400,
    source="the longest retention any provider documents, 24 hours: "
    "https://developers.openai.com/api/docs/guides/prompt-caching",
)
_BY_AGENT: Final[Mapping[str, CacheRow]] = MappingProxyType({row.agent: row for row in CACHES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A number of tokens; `is_estimate` where no agent counted them."""

    count: int
    is_estimate: bool

    @property
    def in_words(self) -> str:
        """`41k`, `~2k`, `~830`."""
        mark = "~" if self.is_estimate else ""
        if self.count < THOUSAND:
            return f"{mark}{self.count}"
        return f"{mark}{round(self.count / THOUSAND)}k"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What each way would cost; None where nothing is known. `window_tokens` is the model's."""

    resume: Tokens | None = None
    briefing: Tokens | None = None
    cache: CacheState = "unknown"
    window_tokens: int | None = None

    @property
    def window_share(self) -> float | None:
        """How much of its window a session fills, None where either figure is unknown."""
        if self.resume is None or not self.window_tokens:
            return None
        return self.resume.count / self.window_tokens

    @property
    def times_cheaper(self) -> float | None:
        """How many times fewer tokens a briefing takes, None where either figure is unknown."""
        if self.resume is None or self.briefing is None:
            return None
        return self.resume.count / max(self.briefing.count, 1)


NOTHING_PRICED: Final = Price()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What may be spent in all, what was spent so far, and what the next turn takes at least.

    `next_turn` is None where nothing is known of it.
    """

    tokens_max: int
    spent: Tokens
    next_turn: Tokens | None = None

    @property
    def is_over(self) -> bool:
        """Whether all is spent, or the next turn would pass what may be."""
        least = self.next_turn.count if self.next_turn else 0
        return self.spent.count >= self.tokens_max or self.spent.count + least > self.tokens_max


def estimated(characters: int) -> Tokens:
    """Return the tokens of so many characters, rounded up, marked as an estimate."""
    return Tokens(count=-(-characters // CHARACTERS_PER_TOKEN), is_estimate=True)


def held(*, reported: int | None, characters: int) -> Tokens:
    """Return the tokens a session holds: as the agent reported, else estimated."""
    if reported is not None:
        return Tokens(count=reported, is_estimate=False)
    return estimated(characters)


def cache_row(agent: str) -> CacheRow:
    """Return how long an agent's provider keeps a prefix."""
    return _BY_AGENT.get(agent, ANY_CACHE)


def cache_state(agent: str, *, idle_s: float | None, is_same_prefix: bool = True) -> CacheState:
    """Return whether a session's prefix is still cached, `idle_s` after its last turn.

    Another model, version or set of instructions begins with another prefix, which no cache has.
    """
    if not is_same_prefix:
        return "cold"
    row = cache_row(agent)
    state = state_of_cache(idle_s, warm_s=row.warm_s, cold_s=row.cold_s)
    return cast("CacheState", state)
