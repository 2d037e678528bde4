"""Sub-agents: each starts once, before it says anything, and ends once."""

from upthread.agents._children import Children
from upthread.core.names import ROLE_UNKNOWN
from upthread.core.types import Outcome


def test_a_child_is_started_once_and_the_prompts_own_thread_is_none():
    family = Children("own")
    (started,) = family.start("a", parent="own", role="explorer", call_id="c")
    assert (started.role, started.call_id) == ("explorer", "c")
    assert family.start("a", parent="own") == ()
    assert family.start("own", parent="a") == ()
    (nested,) = family.start("b", parent="a")
    assert (nested.upstream_session_id, nested.role) == ("a", ROLE_UNKNOWN)


def test_a_child_ends_once_and_may_be_given_more_work():
    family = Children("own")
    family.start("a", parent="own")
    (ended,) = family.end("a", Outcome.OK)
    assert (ended.upstream_session_id, ended.outcome) == ("own", Outcome.OK)
    assert family.end("a", Outcome.OK) == ()
    assert family.working == set()
    family.goes_on("a")
    family.goes_on("a stranger")
    assert family.working == {"a"}
