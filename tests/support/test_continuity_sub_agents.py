"""What is said of an agent's sub-agents follows from its events."""

from __future__ import annotations

import pytest
from tests.support.continuity.sub_agents import CHILD_SAYS, shown_of_sub_agent

from upthread.core.events import (
    ChildEnded,
    ChildStarted,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
)
from upthread.core.types import UpstreamSessionId

OWN, CHILD = UpstreamSessionId("s"), UpstreamSessionId("c")
CALL = ToolCallAnnounced(upstream_session_id=OWN, call_id="1", title="task")
STARTED = ChildStarted(
    upstream_session_id=OWN, child_upstream_session_id=CHILD, role="explore", call_id="1"
)
RESULT = ToolCallUpdated(upstream_session_id=OWN, call_id="1", status="completed")
SAID = TextReceived(upstream_session_id=CHILD, text=CHILD_SAYS)


def test_a_child_that_streams_is_known_while_it_works():
    titled = TitleChanged(upstream_session_id=CHILD, title="Looking")
    ended = ChildEnded(upstream_session_id=OWN, child_upstream_session_id=CHILD)
    shown = shown_of_sub_agent([CALL, STARTED, SAID, titled, RESULT, ended], OWN)
    assert shown == "known while it works; words, title; its end is ok"


def test_a_child_of_which_only_the_result_tells_is_known_with_it():
    shown = shown_of_sub_agent([CALL, STARTED, RESULT, SAID], OWN)
    assert shown == "known with its result; words; its end is not told"
    assert shown_of_sub_agent([CALL, RESULT], OWN) == "nothing"


def test_a_childs_words_in_its_parents_session_are_refused():
    with pytest.raises(AssertionError):
        shown_of_sub_agent([TextReceived(upstream_session_id=OWN, text=CHILD_SAYS)], OWN)
