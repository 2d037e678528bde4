from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.chain import CHAIN_LENGTH_MAX, append, readable

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
    assert append(chain, appended) == expected


def test_of_seventeen_distinct_ids_the_last_sixteen_are_read():
    ids = [f"ses_{number}" for number in range(17)]
    assert readable(ids) == tuple(ids[-16:])


def test_the_chain_of_nothing_is_empty():
    assert readable([]) == ()


@given(st.lists(PADDED, max_size=60))
def test_a_readable_chain_holds_the_last_distinct_ids_in_the_order_they_were_last_seen(
    ids: list[str],
):
    seen_last = list(dict.fromkeys(text.strip() for text in reversed(ids)))[::-1]
    assert readable(ids) == tuple(seen_last[-CHAIN_LENGTH_MAX:])


@given(st.lists(PADDED, max_size=40), PADDED)
def test_an_appended_id_is_last_and_there_once(ids: list[str], new: str):
    chain = append(readable(ids), new)
    assert chain[-1] == new.strip()
    assert len(set(chain)) == len(chain) <= CHAIN_LENGTH_MAX
    assert append(chain, new) == chain


@given(st.lists(PADDED, max_size=40))
def test_no_two_neighbours_are_equal(ids: list[str]):
    assert all(before != after for before, after in pairwise(readable(ids)))
