"""The price: tokens to resume a session beside tokens to brief a fresh one. Values only.

Either begins with what any session of that agent reads before our words, its own prompt and its
tools: far more than most briefings. It is learned from what the first request of a session really
read, and told in both figures; while nobody knows it, no ratio of the two is believed.

Tokens held come from the agent's own reports; where it says nothing, from what was said, and then
they are marked `~`. A provider that still has a session's prefix in its cache reads it at about a
tenth of the price of tokens it has to read anew; how long it keeps it stands in the agent's row,
with its source.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from upthread.core.agents import AGENTS, Cache

CacheState: TypeAlias = Literal["warm", "cold", "unknown"]

CHARACTERS_PER_TOKEN: Final = 4
"""Of English text and code, roughly; no tokenizer is right for all models, and most are large."""

THOUSAND: Final = 1_000


ANY_CACHE: Final = Cache(
    warm_s=0,
    cold_s=86_400,
    source="the longest retention any provider documents, 24 hours: "
    "https://developers.openai.com/api/docs/guides/prompt-caching",
)
"""For an agent of which nothing is known."""


class Tokens(Struct, frozen=True, kw_only=True):
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


class Price(Struct, frozen=True, kw_only=True):
    """What each way would cost; None where nothing is known. `window_tokens` is the model's.

    `fixed` is the part of either that is the agent's own, None where nobody knows it.
    """

    resume: Tokens | None = None
    briefing: Tokens | None = None
    fixed: Tokens | None = None
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
        """How many times fewer tokens a briefing takes, None where a figure is unknown.

        That of the agent's own part, too: without it a briefing seems to cost next to nothing.
        """
        if self.resume is None or self.briefing is None or self.fixed is None:
            return None
        return self.resume.count / max(self.briefing.count, 1)


NOTHING_PRICED: Final = Price()


class Spending(Struct, frozen=True, kw_only=True):
    """What may be spent in all, what was spent so far, and what the next turn takes at least.

    `next_turn` is None where nothing is known of it.
    """

    tokens_max: int
    spent: Tokens
    next_turn: Tokens | None = None

    @property
    def is_over(self) -> bool:
        """Whether all is spent, or the next turn would pass what may be."""
        # Unknown counts as nothing: nobody is refused for a figure that nobody has.
        least = self.next_turn.count if self.next_turn else 0
        return self.spent.count >= self.tokens_max or self.spent.count + least > self.tokens_max


def estimated(characters: int) -> Tokens:
    """Return the tokens of so many characters, rounded up, marked as an estimate."""
    return Tokens(count=-(-characters // CHARACTERS_PER_TOKEN), is_estimate=True)


def held(*, reported: int | None, characters: int, fixed: Tokens | None = None) -> Tokens:
    """Return the tokens a session holds: as the agent reported, else estimated, its own with it."""
    if reported is not None:
        # What an agent reports has its own part in it already.
        return Tokens(count=reported, is_estimate=False)
    # Either figure has the agent's own part, or one way would look cheaper by just that.
    return with_fixed(estimated(characters), fixed)


def with_fixed(words: Tokens, fixed: Tokens | None) -> Tokens:
    """Return what a model reads of our words in a session that has the agent's own before them."""
    own = fixed.count if fixed else 0
    return Tokens(count=own + words.count, is_estimate=True)


def fixed_part(*, first_read: int | None, held: int | None, characters: int) -> Tokens | None:
    """Return what an agent reads before our words, of a session that is new; None if unknown.

    `characters` are those of our words. Its first request tells; where the agent does not count its
    requests, what the session holds is at least near, and is marked.
    """
    read = first_read if first_read is not None else held
    if read is None:
        return None
    # Our words are estimated, and may come out longer than all that was read.
    own = max(0, read - estimated(characters).count)
    return Tokens(count=own, is_estimate=first_read is None)


def cache_of(agent: str) -> Cache:
    """Return how long an agent's provider keeps a prefix."""
    # A person may configure an agent that has no row here.
    row = AGENTS.get(agent)
    return row.cache if row and row.cache else ANY_CACHE


def cache_state(agent: str, *, idle_s: float | None, is_same_prefix: bool = True) -> CacheState:
    """Return whether a session's prefix is still cached, `idle_s` after its last turn.

    Another model, version or set of instructions begins with another prefix, which no cache has.
    """
    if not is_same_prefix:
        return "cold"
    if idle_s is None or idle_s < 0:  # a clock that was set back tells nothing
        return "unknown"
    cache = cache_of(agent)
    if idle_s > cache.cold_s:
        return "cold"
    # Between the two times nobody knows.
    return "warm" if idle_s <= cache.warm_s else "unknown"
