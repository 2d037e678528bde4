"""With what a session is opened in its agent's own interface, and why with nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.states import MainSession, of_link
from upthread.core.types import CHAIN_LENGTH_MAX, readable_chain
from upthread.testing.store_conformance import samples

LINK = structs.replace(samples.link(1, "a1"), agent="claude-code")


def test_a_session_opens_with_its_agents_own_command_where_it_worked():
    command = ("claude", "--resume", "1")
    found = of_link(LINK, command=command)
    assert (found.command, found.working_directory) == (command, LINK.working_directory)


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


# --- core/chain -----------------------------------------------------------------------------------


IDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=2)
PADDED = st.builds(lambda pad, text: pad + text + pad, st.sampled_from(["", " ", "\n"]), IDS)


@pytest.mark.parametrize(
    ("chain", "appended", "expected"),
    [
        (("A", "B"), "B", ("A", "B")),
        (("A", "B", "C"), "A", ("B", "C", "A")),
        ((), "  ", ()),
        ((), " A ", ("A",)),
        (("A",), "", ("A",)),
        (("A",), " A\n", ("A",)),
    ],
)
def test_the_vectors_of_the_rule_hold(
    chain: tuple[str, ...], appended: str, expected: tuple[str, ...]
):
    assert readable_chain((*chain, appended)) == expected


def test_of_seventeen_distinct_ids_the_last_sixteen_are_read():
    ids = [f"ses_{number}" for number in range(17)]
    assert readable_chain(ids) == tuple(ids[-16:])


@pytest.mark.extended
@given(st.lists(PADDED, max_size=60))
def test_a_chain_holds_the_last_distinct_ids_in_the_order_they_were_last_seen(ids: list[str]):
    seen_last = list(dict.fromkeys(text.strip() for text in reversed(ids)))[::-1]
    assert readable_chain(ids) == tuple(seen_last[-CHAIN_LENGTH_MAX:])
