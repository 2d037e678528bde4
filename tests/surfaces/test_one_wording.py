"""A decision is said in the same words wherever a person reads it."""

import pytest

from upthread.core.decision.freshness import Freshness
from upthread.core.decision.handshake import RULES, because, reasons_in_words
from upthread.core.decision.words import done_in_words, intention_in_words
from upthread.core.types import Conversation, ConversationId, ConversationKey, ProjectId, TurnId
from upthread.runtime.turns.progress import TurnStarted
from upthread.surfaces.hook.decision_line import decision_line
from upthread.surfaces.hook.hook_decision import HookDecision

CONVERSATION = Conversation(
    conversation_id=ConversationId("con_1"),
    key=ConversationKey(
        project_id=ProjectId("prj_1"), workstream="spec-42", role="planner", slot=1
    ),
    generation=1,
    base_name="Kael",
    opened_at_ms=0,
)
BINDING = {
    "workstream": "spec-42",
    "role": "planner",
    "slot": 1,
    "base_name": "Kael",
    "turns": 1,
}


@pytest.mark.parametrize("following", [(), ("unchanged",), ("no_session", "unchanged")])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.reason)
def test_the_line_is_the_same_for_the_command_line_the_library_mcp_and_hooks(rule, following):
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
    said = {
        "decision": rule.decision,
        "reasons": list(reasons),
        "because": because(reasons, Freshness()),
    }
    assert decision_line(BINDING, HookDecision(said, {}), "") == f"upthread: {started.line}"
    assert done_in_words(rule.decision, "") in started.line
    is_plain = rule.reason in {"none_yet", "unchanged"} and not following
    assert is_plain or reasons_in_words(reasons) in started.line
    assert intention_in_words(rule.decision, "")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.reason)
def test_no_line_says_that_nothing_stands_against_what_it_has_a_reason_against(rule):
    line = reasons_in_words((rule.reason, "unchanged"))
    assert rule.reason == "unchanged" or "nothing has changed since" not in line
