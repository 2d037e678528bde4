from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.codec import encode_json
from upthread.core.decision.freshness import ChangedFile, Freshness, Shift
from upthread.core.decision.handshake import decide, in_words, is_known
from upthread.core.decision.model import DECISIONS, AgentLimit, HandshakeInputs, Limits
from upthread.core.decision.rollover import LOST, ROLLOVER
from upthread.core.decision.rules import DECIDED_FOR, RULES
from upthread.core.decision.words import (
    FIRST,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    Price,
    Spending,
    Tokens,
)
from upthread.core.types import ConversationId, Outcome

OWN = ConversationId("con_own")
OTHER = ConversationId("con_other")
IDS = st.sampled_from([OWN, OTHER, ConversationId("con_third")])
DIGESTS = st.none() | st.sampled_from(["d1", "d2"])

SHIFTS = st.none() | st.just(Shift(was="a", now="b"))
COUNTS = st.integers(0, 8)
SOME_TOKENS = st.builds(Tokens, count=st.integers(0, 200_000), is_estimate=st.booleans())
TOKENS = st.none() | SOME_TOKENS
FRESHNESS = st.builds(
    Freshness,
    examined_count=COUNTS,
    changed_count=COUNTS,
    critical_count=st.integers(0, 2),
    branch=SHIFTS,
    commit=SHIFTS,
    directory=SHIFTS,
    agent_version=SHIFTS,
    model=SHIFTS,
    is_directory_missing=st.booleans(),
    are_files_unknown=st.booleans(),
    is_configuration_changed=st.booleans(),
    git_fault=st.sampled_from(["", "", "fatal: bad object HEAD"]),
)
PRICES = st.builds(
    Price,
    resume=TOKENS,
    briefing=TOKENS,
    fixed=TOKENS,
    cache=st.sampled_from(["warm", "cold", "unknown"]),
    window_tokens=st.none() | st.sampled_from([0, 100_000, 200_000]),
)
LIMITS = st.builds(
    Limits,
    files_changed_max=st.integers(0, 6),
    resume_tokens_max=st.none() | st.just(100_000),
    brief_if_times_cheaper=st.none() | st.just(10.0),
)
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "conversation_id": IDS,
    "agent": st.sampled_from(["opencode", "codex"]),
    "continuity": st.sampled_from(["resume", "fresh", "auto"]),
    "turns": st.integers(0, 3),
    "current_agent": st.none() | st.sampled_from(["opencode", "codex"]),
    "holder": st.none() | st.just("pid 1 on here"),
    "spending": st.none()
    | st.builds(Spending, tokens_max=st.integers(0, 9), spent=SOME_TOKENS, next_turn=TOKENS),
    "tree_holder": st.none() | st.just("pid 2 on here"),
    "turns_lacking": st.none() | st.just(2),
    "not_compared": st.sampled_from(["", "", "it cannot be read"]),
    "turns_gone": st.sampled_from(["", "", "turn 2"]),
    "was_interrupted": st.booleans(),
    "was_unheard": st.booleans(),
    "is_session_empty": st.booleans(),
    "is_fresh_asked": st.booleans(),
    "callers": st.lists(IDS, max_size=4).map(tuple),
    "depth_max": st.integers(1, 4),
    "session_lost": st.none() | st.sampled_from(list(Outcome)),
    "is_refused": st.booleans(),
    "condition_before": DIGESTS,
    "condition_now": DIGESTS,
    "opens_only_within": st.booleans(),
    "attaches_none": st.booleans(),
    "relays": st.integers(0, 4),
    "freshness": FRESHNESS,
    "price": PRICES,
    "limits": LIMITS,
    "agent_limit": st.none()
    | st.builds(
        AgentLimit,
        reason=st.sampled_from([Outcome.RATE_LIMITED, Outcome.CREDIT_EXHAUSTED]),
        until_ms=st.none() | st.sampled_from([1, 2**42]),
    ),
    "takes_no_session": st.booleans(),
    "other_host": st.none() | st.just("elsewhere"),
    "other_profile": st.sampled_from(["", "CODEX_HOME=/work"]),
    "surroundings": st.none(),
}
INPUTS = st.builds(HandshakeInputs, **DRAWN)


def changed(count: int, *, critical: int = 0) -> dict[str, object]:
    files = tuple(ChangedFile(path=f"{n}.py", how="changed") for n in range(count))
    return {
        "freshness": Freshness(
            examined_count=9, changed=files, changed_count=count, critical_count=critical
        )
    }


def priced(
    resume: int | None,
    *,
    briefing: int | None = None,
    fixed: int | None = 1_000,
    cache: str = "cold",
    **limits: object,
) -> dict[str, object]:
    def tokens(count: int | None) -> Tokens | None:
        return None if count is None else Tokens(count=count, is_estimate=True)

    price = Price(
        resume=tokens(resume),
        briefing=tokens(briefing),
        fixed=tokens(fixed),
        cache=cache,  # type: ignore[arg-type]
        window_tokens=100_000,
    )
    return {"price": price, "limits": Limits(**limits)}  # type: ignore[arg-type]


RULES_BY_REASON = {rule.reason: rule for rule in RULES}
REFUSALS = ("own_or_ancestor", "depth", "busy", "tree_busy", "tokens_max")
MOVED = Shift(was="main", now="feature/x")
DIRECTORY_GONE = Freshness(directory=MOVED, is_directory_missing=True)
RECONFIGURED = Freshness(is_configuration_changed=True)
SIX_MAY_CHANGE = Limits(files_changed_max=6)
briefed = partial(priced, briefing=2_000)
FULL = priced(70_000)
ONLY_WITHIN = (RESUME_WITH_REPLAY, "sub_agent_session")


def spent(count: int) -> dict[str, object]:
    return {"spending": Spending(tokens_max=9, spent=Tokens(count=count, is_estimate=False))}


def inputs(**changes: object) -> HandshakeInputs:
    """A role with a session that nothing stands against."""
    usual: dict[str, object] = {
        "conversation_id": OWN,
        "agent": "opencode",
        "continuity": "resume",
        "turns": 1,
        "current_agent": "opencode",
    }
    return HandshakeInputs(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("profile", "before"),
    [
        ("CODEX_HOME=/work", "env CODEX_HOME=/work"),
        ("XDG_DATA_HOME=/x", "env -uOPENCODE_DB XDG_DATA_HOME=/x"),
        ("OPENCODE_DB=/x/a.db", "env OPENCODE_DB=/x/a.db"),
    ],
)
def test_the_cure_for_another_profile_takes_away_the_variable_that_would_win(profile, before):
    hint = decide(inputs(other_profile=profile)).hint
    assert f"with {before} before the command" in hint


@pytest.mark.parametrize(
    ("changes", "decision", "reason"),
    [
        ({}, RESUME, "unchanged"),
        ({"continuity": "auto"}, RESUME, "unchanged"),
        ({"was_interrupted": True}, RESUME, "interrupted"),
        ({"was_interrupted": True, "was_unheard": True}, RESUME, "unheard"),
        ({"turns": 0, "current_agent": None}, FIRST, "none_yet"),
        ({"turns": 0}, RESUME, "unchanged"),  # a session that was adopted
        ({"current_agent": None}, RESUME_WITH_REPLAY, "no_session"),
        ({"current_agent": "codex"}, RESUME_WITH_REPLAY, "other_agent"),
        ({"other_host": "build-3"}, RESUME_WITH_REPLAY, "other_host"),
        ({"is_refused": True}, RESUME_WITH_REPLAY, "refused"),
        ({"other_profile": "CODEX_HOME=/work"}, REFUSE, "other_profile"),
        ({"other_profile": "CODEX_HOME=/work", "is_fresh_asked": True}, START_FRESH, "asked"),
        ({"opens_only_within": True}, RESUME_WITH_REPLAY, "sub_agent_session"),
        ({"opens_only_within": True, "was_interrupted": True}, *ONLY_WITHIN),
        ({"opens_only_within": True, "is_fresh_asked": True}, START_FRESH, "asked"),
        ({"continuity": "fresh"}, START_FRESH, "policy"),
        ({"is_fresh_asked": True}, START_FRESH, "asked"),
        ({"condition_before": "d1", "condition_now": "d2"}, START_FRESH, "input_changed"),
        ({"condition_before": "d1"}, START_FRESH, "input_changed"),
        ({"condition_before": "d1", "condition_now": "d1"}, RESUME, "unchanged"),
        ({"condition_now": "d2"}, RESUME, "unchanged"),
        ({"session_lost": Outcome.MISSING, "current_agent": None}, RESUME_WITH_REPLAY, "missing"),
        (
            {"session_lost": Outcome.EXPIRED, "turns": 0, "current_agent": None},
            RESUME_WITH_REPLAY,
            "expired",
        ),
        # A refusal comes before what else there is.
        ({"holder": "pid 1", "is_fresh_asked": True}, REFUSE, "busy"),
        ({"tree_holder": "pid 1", "continuity": "fresh"}, REFUSE, "tree_busy"),
        (spent(9), REFUSE, "tokens_max"),
        (spent(8), RESUME, "unchanged"),
        ({"callers": (OWN,)}, REFUSE, "own_or_ancestor"),
        ({"callers": (OWN, OTHER)}, REFUSE, "own_or_ancestor"),
        ({"callers": (OTHER,) * 3, "current_agent": None}, REFUSE, "depth"),
        ({"callers": (OTHER,) * 2}, RESUME, "unchanged"),
        ({"callers": (OTHER,), "depth_max": 1}, REFUSE, "depth"),
        # The base rule: 0; 1 to 5; more than 5; any critical one.
        (changed(0), RESUME, "unchanged"),
        ({"freshness": Freshness(are_files_unknown=True)}, RESUME, "files_unknown"),
        (changed(1), RESUME_WITH_UPDATE, "files_changed"),
        (changed(5), RESUME_WITH_UPDATE, "files_changed"),
        (changed(6), START_FRESH, "many_changed"),
        (changed(1, critical=1), START_FRESH, "critical_changed"),
        ({**changed(6), "is_session_empty": True}, FIRST, "session_empty"),
        ({"is_session_empty": True, "continuity": "fresh"}, START_FRESH, "policy"),
        (changed(6, critical=1), START_FRESH, "critical_changed"),
        ({**changed(6), "limits": SIX_MAY_CHANGE}, RESUME_WITH_UPDATE, "files_changed"),
        ({**changed(1), "limits": Limits(files_changed_max=0)}, START_FRESH, "many_changed"),
        ({**changed(6), "was_interrupted": True}, START_FRESH, "many_changed"),
        ({**changed(2), "was_interrupted": True}, RESUME_WITH_UPDATE, "files_changed"),
        ({**changed(6), "current_agent": None}, RESUME_WITH_REPLAY, "no_session"),
        ({**changed(6), "continuity": "fresh"}, START_FRESH, "policy"),
        ({"freshness": Freshness(branch=MOVED)}, RESUME_WITH_UPDATE, "branch_changed"),
        ({"freshness": Freshness(directory=MOVED)}, RESUME_WITH_UPDATE, "directory_changed"),
        ({"freshness": DIRECTORY_GONE}, START_FRESH, "directory_missing"),
        ({"freshness": RECONFIGURED}, RESUME_WITH_UPDATE, "configuration_changed"),
        ({"freshness": Freshness(commit=MOVED)}, RESUME, "commit_changed"),
        ({"freshness": Freshness(agent_version=MOVED)}, RESUME, "agent_changed"),
        ({"freshness": Freshness(model=MOVED)}, RESUME, "agent_changed"),
        ({"freshness": Freshness(git_fault="fatal: …")}, RESUME, "git_unknown"),
        # Who asks again may know better; that nothing has changed would be wrong.
        ({"agent_limit": AgentLimit(reason=Outcome.CREDIT_EXHAUSTED)}, RESUME, "agent_limited"),
        (priced(69_999), RESUME, "unchanged"),
        (FULL, START_FRESH, "nearly_full"),
        ({**FULL, "relays": 2}, START_FRESH, "nearly_full"),
        ({**FULL, "relays": 3}, REFUSE, "relays_used_up"),
        ({**FULL, "relays": 3, "is_fresh_asked": True}, START_FRESH, "asked"),
        ({**FULL, "relays": 3, **changed(6)}, START_FRESH, "many_changed"),
        ({"is_session_empty": True, "was_interrupted": True}, FIRST, "session_empty"),
        ({"is_session_empty": True, "is_fresh_asked": True}, START_FRESH, "asked"),
        (priced(None, resume_tokens_max=1), RESUME, "unchanged"),
        (priced(40_000, resume_tokens_max=40_000), RESUME, "unchanged"),
        (priced(40_001, resume_tokens_max=40_000), START_FRESH, "too_big"),
        (briefed(40_000, brief_if_times_cheaper=20), START_FRESH, "briefing_cheaper"),
        (briefed(39_999, brief_if_times_cheaper=20), RESUME, "unchanged"),
        (briefed(40_000, fixed=None, brief_if_times_cheaper=20), RESUME, "unchanged"),
        (briefed(40_000), RESUME, "unchanged"),
        (priced(40_000, brief_if_times_cheaper=1), RESUME, "unchanged"),
        (briefed(40_000, cache="warm", brief_if_times_cheaper=1), RESUME, "unchanged"),
        (briefed(40_000, cache="unknown", brief_if_times_cheaper=1), RESUME, "unchanged"),
    ],
)
def test_each_situation_has_its_decision_and_its_first_reason(
    changes: dict[str, object], decision: str, reason: str
):
    made = decide(inputs(**changes))
    assert (made.decision, made.reasons[0]) == (decision, reason)


@pytest.mark.parametrize("outcome", sorted(LOST))
def test_a_session_that_was_given_up_is_replayed_and_the_cause_is_the_reason(outcome: Outcome):
    made = decide(inputs(current_agent=None, session_lost=outcome))
    assert (made.decision, made.reasons) == (RESUME_WITH_REPLAY, (outcome, "no_session"))
    assert in_words(outcome) == ROLLOVER[outcome].says


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - LOST))
def test_only_a_session_that_is_gone_for_certain_is_given_up(outcome: Outcome):
    assert decide(inputs(session_lost=outcome)).decision == RESUME


def test_what_a_session_was_opened_for_says_what_was_decided():
    found = [DECIDED_FOR.get(each) for each in ("asked", "none_yet", "adopted")]
    assert found == [START_FRESH, FIRST, None]


def test_every_input_is_drawn_here_and_comes_back_from_the_record():
    """One that is forgotten in either place would be decided by, and not be on record."""
    assert set(DRAWN) == set(HandshakeInputs.__struct_fields__)


@pytest.mark.extended
@given(INPUTS)
def test_every_situation_has_exactly_one_known_decision_with_its_reasons(given: HandshakeInputs):
    made = decide(given)
    assert made == decide(given)
    assert made.decision in DECISIONS
    assert made.reasons
    assert len(set(made.reasons)) == len(made.reasons)
    assert made.inputs["agent"] == given.agent
    assert encode_json(made.inputs)
    rules = [RULES_BY_REASON[reason] for reason in made.reasons]
    assert rules[0].decision == made.decision
    assert {rule.decision for rule in rules if not rule.is_always_told} <= {made.decision}
    assert all(rule.applies(given) for rule in rules)
    assert all(in_words(reason) for reason in made.reasons)
    if made.decision in {START_FRESH, RESUME_WITH_REPLAY}:
        assert "unchanged" not in made.reasons


@pytest.mark.extended
@given(INPUTS)
def test_a_refusal_comes_before_anything_else_and_tells_the_cure(given: HandshakeInputs):
    is_refused = (
        given.conversation_id in given.callers
        or len(given.callers) >= given.depth_max
        or given.holder is not None
        or given.tree_holder is not None
        or (given.spending is not None and given.spending.is_over)
    )
    made = decide(given)
    assert (made.reasons[0] in REFUSALS) == is_refused
    assert (made.decision == REFUSE) == (is_refused or made.reasons[0] == "relays_used_up")
    assert bool(made.hint) == (made.decision == REFUSE)
    told = {"older_record": given.turns_lacking, "not_compared": given.not_compared}
    told |= {"older_session": given.turns_gone}
    for reason, is_so in told.items():
        assert (reason in made.reasons) is (bool(is_so) and made.decision != REFUSE)


@pytest.mark.extended
@given(INPUTS)
def test_nothing_is_resumed_while_anything_stands_against_it(given: HandshakeInputs):
    decision = decide(given).decision
    share = given.price.window_share
    stands_against_it = {
        "a critical file changed": given.freshness.critical_count,
        "too many changed": given.freshness.changed_count > given.limits.files_changed_max,
        "nearly full": share is not None and share >= given.limits.window_share_max,
        "no open session of this agent": given.current_agent != given.agent,
    }
    if any(stands_against_it.values()):
        assert decision not in {RESUME, RESUME_WITH_UPDATE}, stands_against_it
    if given.is_fresh_asked or given.continuity == "fresh":
        assert not decision.startswith("resume")
    if given.freshness.changed_count:
        assert decision != RESUME
    if given.turns and not given.is_session_empty:
        assert decision != FIRST


def test_all_reasons_for_a_fresh_session_are_told_the_deciding_one_first():
    changed = {"condition_before": "d1", "condition_now": "d2"}
    made = decide(inputs(is_fresh_asked=True, continuity="fresh", **changed))
    assert made.reasons == ("asked", "policy", "input_changed")


def test_every_reason_has_words_for_a_person():
    assert len(RULES_BY_REASON) == len(RULES)
    assert all(in_words(rule.reason) == rule.says for rule in RULES)
    assert in_words("from_the_future") == "from the future"
    assert is_known("none_yet")
    assert is_known("process_died")
    assert is_known("adopted_another")
    assert not is_known("from_the_future")


def test_every_rule_leads_to_a_known_decision_and_says_why():
    assert {rule.decision for rule in RULES} == set(DECISIONS)
    assert all(rule.says and not rule.says.endswith(".") for rule in RULES)


def test_each_refusal_has_a_cure_and_nothing_else_has():
    assert all(bool(rule.hint) == (rule.decision == REFUSE) for rule in RULES)
