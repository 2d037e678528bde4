"""A decision is said in the same words wherever a person reads it."""

import pytest

from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.rules import RULES
from upthread.core.decision.words import done_in_words, intention_in_words
from upthread.core.types import Conversation, ConversationId, ConversationKey, ProjectId, TurnId
from upthread.runtime.turns.delegation import TurnStarted

CONVERSATION = Conversation(
    conversation_id=ConversationId("con_1"),
    key=ConversationKey(
        project_id=ProjectId("prj_1"), workstream="spec-42", role="planner", slot=1
    ),
    generation=1,
    base_name="Kael",
    opened_at_ms=0,
)


@pytest.mark.parametrize("following", [(), ("unchanged",), ("no_session", "unchanged")])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.reason)
def test_the_line_has_the_words_of_the_decision_and_of_its_reasons(rule, following):
    reasons = (rule.reason, *following)
    started = TurnStarted(
        conversation=CONVERSATION,
        turn_id=TurnId("trn_1"),
        decision=rule.decision,
        reasons=reasons,
        agent="opencode",
        upstream_session_id="",
        turn_number=2,
    )
    assert done_in_words(rule.decision, "") in started.line
    is_plain = rule.reason in {"none_yet", "unchanged"} and not following
    assert is_plain or reasons_in_words(reasons) in started.line
    assert intention_in_words(rule.decision, "")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.reason)
def test_no_line_says_that_nothing_stands_against_what_it_has_a_reason_against(rule):
    line = reasons_in_words((rule.reason, "unchanged"))
    assert rule.reason == "unchanged" or "nothing has changed since" not in line
