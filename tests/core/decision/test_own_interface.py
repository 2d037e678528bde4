"""With what a session is opened in its agent's own interface, and why with nothing."""

from __future__ import annotations

from upthread.core.decision.own_interface import MainSession, OwnInterface, of_link
from upthread.core.types import ConversationId, Link, UpstreamSessionId

LINK = Link(
    conversation_id=ConversationId("con_1"),
    seq=1,
    upstream_session_id=UpstreamSessionId("a1"),
    agent="claude-code",
    agent_version="2",
    working_directory="/srv",
    opened_because="none_yet",
    opened_at_ms=0,
)


def test_a_session_opens_with_its_agents_own_command_where_it_worked():
    found = of_link(LINK, command=("claude", "--resume", "1"))
    assert found == OwnInterface(command=("claude", "--resume", "1"), working_directory="/srv")


def test_a_sub_agents_session_is_reached_from_the_main_session_that_it_was_started_in():
    main = MainSession(upstream_session_id="m1", command=("claude", "--resume", "m1"), there="ask")
    found = of_link(LINK, command=("claude", "--resume", "a1"), main=main)
    assert found.command is None
    assert found.main_command == ("claude", "--resume", "m1")
    assert found.there == "ask"
    assert "only inside the main session that it was started in, m1" in found.why_not


def test_it_says_whether_the_agent_or_the_configuration_is_why_nothing_opens_it():
    none = of_link(LINK, command=None)
    gone = of_link(LINK, command=None, is_configured=False)
    assert none.why_not == "claude-code has no interface of its own"
    assert gone.why_not == "the configuration no longer names the agent claude-code"
