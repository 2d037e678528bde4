"""Proof: what every provider would say, before any of them is asked."""

from __future__ import annotations

from tests.core.history.histories import Histories, call, history, message, text

from upthread.core.history.proof import PROVIDERS, proof
from upthread.core.history.repair import repair
from upthread.core.types import UnknownPart


def test_a_repaired_history_is_valid_for_every_provider():
    for seed in range(100):
        proved = proof(repair(Histories(seed).damaged()).history)
        assert proved == dict.fromkeys(PROVIDERS, ())


def test_an_open_call_is_refused_by_every_provider():
    proved = proof(history(message("user", text("a")), message("assistant", call("c"))))
    assert all(proved[provider] for provider in PROVIDERS)


def test_a_history_without_words_is_valid():
    notes = history(message("user", UnknownPart(kind="plan", raw=None)))
    assert proof(notes) == dict.fromkeys(PROVIDERS, ())
