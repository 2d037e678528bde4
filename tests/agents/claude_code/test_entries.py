"""Entries of a transcript, as whoever reads one tells them apart."""

import pytest

from upthread.agents.claude_code.transcripts import is_put_in


@pytest.mark.parametrize(
    ("entry", "is_its_own"),
    [
        ({}, False),
        ({"isMeta": True}, True),
        ({"isMeta": True, "origin": {"kind": "coordinator"}}, False),
        ({"isMeta": True, "origin": "coordinator"}, True),
        ({"isMeta": False, "origin": {"kind": "human"}}, False),
    ],
)
def test_what_a_main_session_goes_on_with_is_a_prompt_and_a_note_is_none(entry, is_its_own):
    assert is_put_in(entry) is is_its_own
