from upthread.core.decision.model import DECISIONS, REFUSE, HandshakeInputs
from upthread.core.decision.rules import RULES
from upthread.core.types import ConversationId


def test_every_rule_leads_to_a_known_decision_and_says_why():
    assert {rule.decision for rule in RULES} == set(DECISIONS)
    assert all(rule.says and not rule.says.endswith(".") for rule in RULES)


def test_each_refusal_has_a_cure_and_nothing_else_has():
    assert all(bool(rule.hint) == (rule.decision == REFUSE) for rule in RULES)


def test_the_last_rule_applies_whatever_there_is():
    inputs = HandshakeInputs(conversation_id=ConversationId("con"), agent="a", continuity="auto")
    assert RULES[-1].applies(inputs)
    assert [rule.reason for rule in RULES].count("unchanged") == 1
