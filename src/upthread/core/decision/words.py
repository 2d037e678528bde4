"""Decisions in words: the one place where a decision becomes the line that a person reads.

The command line, the hooks, the MCP server, the audit and the library all say a decision through
here. The reasons come in as the words that `reasons_in_words` made of them when it was taken.

The price, first here, is tokens to resume a session beside tokens to brief a fresh one, as values.
Either begins with what any session of that agent reads before our words, its own prompt and its
tools: far more than most briefings. It is learned from what the first request of a session really
read, and told in both figures; while nobody knows it, no ratio of the two is believed.

Tokens held come from the agent's own reports; where it says nothing, from what was said, and then
they are marked `~`. A provider that still has a session's prefix in its cache reads it at about a
tenth of the price of tokens it has to read anew; how long it keeps it stands in the agent's row,
with its source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from upthread.core.agents import AGENTS, Cache

CacheState: TypeAlias = Literal["warm", "cold", "unknown"]

CHARACTERS_PER_TOKEN = 4
"""Of English text and code, roughly; no tokenizer is right for all models, and most are large."""

THOUSAND = 1_000


ANY_CACHE = Cache(
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
        if not self.resume or not self.window_tokens:
            return None
        return self.resume.count / self.window_tokens

    @property
    def shown(self) -> Price:
        """The price as people see it: nothing while nobody knows the agent's own part."""
        return self if self.fixed else NOTHING_PRICED

    @property
    def times_cheaper(self) -> float | None:
        """How many times fewer tokens a briefing takes, None where a figure is unknown.

        That of the agent's own part, too: without it a briefing seems to cost next to nothing.
        """
        if not (self.resume and self.briefing and self.fixed):
            return None
        return self.resume.count / max(self.briefing.count, 1)


NOTHING_PRICED = Price()


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


def with_fixed(words: Tokens, fixed: Tokens | None) -> Tokens:
    """Return what a model reads of our words in a session that has the agent's own before them.

    Both ways have that part, or one would look cheaper by just that.
    """
    own = fixed.count if fixed else 0
    return Tokens(count=own + words.count, is_estimate=True)


def fixed_part(read: int, *, characters: int, is_estimate: bool = False) -> Tokens | None:
    """Return the part of what a session read that is the agent's own; None if it cannot be told.

    `characters` are those of our words. With `is_estimate`, `read` is what the session holds, of an
    agent that does not count its requests.
    """
    words = estimated(characters).count
    own = read - words
    # Our words are estimated: what is left of them may be nothing, or mostly their error.
    is_known = own > (words if is_estimate else 0)
    return Tokens(count=own, is_estimate=is_estimate) if is_known else None


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


# --- decisions in words ---------------------------------------------------------------------------

FIRST = "first"
RESUME = "resume"
RESUME_WITH_UPDATE = "resume_with_update"
RESUME_WITH_REPLAY = "resume_with_replay"
START_FRESH = "start_fresh_with_briefing"
REFUSE = "refuse"

FRAMEWORK = "framework"
"""The decision and the reason of a turn that an agent framework drove through its own store."""

_DONE = {
    FRAMEWORK: "KEPT for its framework",
    "forked": "FORKED {session}",
    FIRST: "STARTED {session}",
    RESUME: "RESUMED {session}",
    RESUME_WITH_UPDATE: "RESUMED {session} with an update",
    RESUME_WITH_REPLAY: "ROLLED OVER to {session} with replay",
    START_FRESH: "STARTED FRESH {session} with a briefing",
    REFUSE: "REFUSED",
}
_WOULD = {
    FIRST: "start a first session",
    RESUME: "resume {session}",
    RESUME_WITH_UPDATE: "resume {session} with an update",
    RESUME_WITH_REPLAY: "roll over to a new session with replay",
    START_FRESH: "start a fresh session with a briefing",
    REFUSE: "refuse",
    FRAMEWORK: "leave it to its framework",
}
_SOME_SESSION = {RESUME_WITH_REPLAY: "a new session"}
"""What stands for a session whose id nobody knows yet."""

_PLAIN = (["none_yet"], ["unchanged"])
"""Reasons that say nothing beyond the decision itself."""

_FOLLOWING = frozenset({"unchanged", "no_session"})
"""Reasons that say nothing more once another one stands before them, or would contradict it."""

RECOGNISED = {
    "complete": "the turn was cut off; its reply was complete and is taken over",
    "incomplete": "the turn did not come to its end; it goes on from there",
    "absent": "the session does not hold the turn's prompt, which is sent to it again",
    "undecidable": "the turn was cut off; what became of its prompt cannot be told",
}
"""Why a turn goes on that was cut off, by what its agent's history says of its prompt."""

NAMED = "named"
"""The reason where a main session itself goes on with a sub-agent: nothing was decided."""

NOT_FOLLOWED = "not_followed"
"""The reason where an agent began a new session, and not what it was told to go on with."""

UNSEEN = "unseen"
"""The reason of a call that nothing was decided of, for want of a hook that saw it begin."""

UNKNOWN_SESSION = "unknown_session"
"""The further reason of a call whose model named a session that its agent does not have."""

FOREIGN_SESSION = "foreign_session"
"""The further reason of a call in a session that stands for no conversation, or is in use."""

OTHER_ROLE = "other_role"
"""The further reason of a call that goes on in a role's session as another role."""

TOKENS_MAX = "tokens_max"
"""The reason under which a prompt is refused, and a run parked, that would spend too much."""

OTHER_PROFILE = "other_profile"
"""The reason under which a prompt is refused, or parked where only the running agent tells."""

READ_BACK = "read_back"
"""The reason of a turn that only the agent's own session had: nothing was decided here."""

OTHER_REASONS = {
    FRAMEWORK: "its agent framework drives it, and nothing is decided here",
    READ_BACK: "it was read back from the agent's own session, which alone had it",
    "child": "a sub-agent was started",
    "adopted": "a person handed it over",
    "adopted_another": "a person handed over another session",
    "forked": "a person forked it off another conversation",
    "unknown": "the reason was not kept",
    NAMED: "the main session goes on with it by itself",
    "recorded_only": "it is only recorded",
    UNKNOWN_SESSION: "the call named a session that the agent does not have",
    FOREIGN_SESSION: "the call named a session that is no role's now, or is in use",
    OTHER_ROLE: "the call asks for another role in it",
    NOT_FOLLOWED: "the agent did not go on with the session that it was told to",
    "sent_back": "its sub-agent can be written to, and has its history",
    UNSEEN: "nothing was decided: no hook saw the call begin, or it gave up",
}
"""Reasons that no rule of the handshake has, for what it did not decide: of links as well."""

RECORDED_BESIDE = "goes on in a session that is {what}, only recorded"
NO_ROLES = "no role's now"
NOT_RESUMED = "NOT RESUMED: {why}"
NO_SESSION_TOOK_IT = "no session took the prompt"
NOT_DONE = "NOT {done}"
"""Of a decision where no session took the prompt: nothing was resumed or started."""

UNDECIDED = "UNDECIDED"
"""What a hook's line says where nothing was decided, and of calls that went on without a word."""

UNDECIDED_LINE = f"upthread: {UNDECIDED}"
"""How the line begins for a call that no hook could record. Agents keep it in their own stores."""

CHANGED_NAMED_MAX = 3
"""How many changed files a line names; the rest are counted."""

TOLD_FROM_TOKENS = 2_000
"""A session that holds less is cheap either way, and the line stays short."""


def done_in_words(decision: str, session: str | None) -> str:
    """`RESUMED ses_…`; without a session where there is none. `session` stands on one line."""
    known = _DONE.get(decision)
    if known is None:
        return decision.replace("_", " ")
    return " ".join(known.format(session=session or _SOME_SESSION.get(decision, "")).split())


def became_in_words(decision: str, because: str, *, was_refused: bool) -> tuple[str, str]:
    """Return what became of a decision, and why. `was_refused`: no session took the prompt.

    For example `RESUMED`, or `NOT RESUMED` and `no session took the prompt; decided: …`.
    """
    done = done_in_words(decision, None)
    if not was_refused:
        return done, because
    return NOT_DONE.format(done=done), f"{NO_SESSION_TOOK_IT}; decided: {because}"


def intention_in_words(decision: str, session: str | None) -> str:
    """What would be done now: `resume ses_…`."""
    return _WOULD.get(decision, decision).format(session=session or "")


def reasons_in_words(reasons: Sequence[str], say: Callable[[str], str]) -> str:
    """Return reason codes as sentences, the deciding one first; `say` words one of them."""
    # The deciding one always stays: it may be one of these itself.
    telling = [reason for reason in reasons[1:] if reason not in _FOLLOWING]
    return "; ".join(say(reason) for reason in (*reasons[:1], *telling))


def because_in_words(
    reasons: Sequence[str], say: Callable[[str], str], *, changed: Sequence[str], changed_count: int
) -> str:
    """Return why a decision was taken, with the files that changed; empty for a plain one.

    `changed` are their names, each on one line.
    """
    if list(reasons) in _PLAIN:
        return ""
    words = reasons_in_words(reasons, say)
    if not changed:
        return words
    named = ", ".join(changed[:CHANGED_NAMED_MAX])
    left = changed_count - len(changed[:CHANGED_NAMED_MAX])
    return f"{words} ({named}" + (f" and {left} more)" if left > 0 else ")")


def price_in_words(price: Price) -> str:
    """`41k tokens to resume, cache cold; ~22k to brief, 20k of either the agent's own prompt`.

    Empty while nobody knows what the agent reads by itself: our words are the smaller part.
    """
    if not (price.resume and price.briefing and price.fixed):
        return ""
    cache = "" if price.cache == "unknown" else f", cache {price.cache}"
    own = f"{price.fixed.in_words} of either the agent's own prompt"
    brief = f"{price.briefing.in_words} to brief"
    return f"{price.resume.in_words} tokens to resume{cache}; {brief}, {own}"


def lacking_in_words(turns: int, fault: str, gone: str) -> str:
    """Return what a record and the agent's session lack of each other; empty for nothing.

    Or why nobody can tell. The rules say the same of any number.
    """
    said: list[str] = []
    if turns:
        number = "1 turn" if turns == 1 else f"{turns} turns"
        those = "it is" if turns == 1 else "they are"
        said.append(f"the agent's session has {number} that this record lacks; {those} read back")
    elif fault:
        said.append(f"the agent's session could not be compared with this record: {fault}")
    if gone:
        said.append(f"the agent's session lacks {gone}, which this record has; it is told of that")
    return "; ".join(said)


def cost_in_words(price: Price) -> str:
    """Return the price where it is worth a place in the line, else empty."""
    is_told = price.resume is not None and price.resume.count >= TOLD_FROM_TOKENS
    return price_in_words(price) if is_told else ""


def decision_line(
    whose: str, decision: str, session: str | None, *, turn_number: int, because: str, cost: str
) -> str:
    """Return the one line that says which decision was taken, for whom, and why.

    `whose` is the conversation's name as `conversation_name` gives it, `turn_number` counts from 1.
    """
    # The first needs no number, and says that it is the first by its decision.
    number = f" · {ordinal(turn_number)} turn" if turn_number > 1 else ""
    why = f": {because}" if because else ""
    price = f" ({cost})" if cost else ""
    return f"{whose}: {done_in_words(decision, session)}{number}{why}{price}"


def conversation_name(address: str, instance_name: str) -> str:
    """`spec-42/planner (Kael-planner)`; the address alone while it has no name."""
    return f"{address} ({instance_name})" if instance_name else address


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
