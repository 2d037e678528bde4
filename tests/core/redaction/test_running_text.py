"""How much of a running text may be written down before the rest has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.redaction.secrets_of import planted

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import HELD_CHARACTERS_MAX, settled_length

REDACTOR = Redactor(b"k" * 32)
PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from([text for _, _, text in planted(76)]),
    st.sampled_from(["\n", " ", "a word ", "-----BEGIN RSA PRIVATE KEY-----\n", "password: "]),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


@given(TEXTS, st.lists(st.integers(min_value=1, max_value=40)))
def test_redacting_what_is_settled_piece_by_piece_is_redacting_it_whole(text, lengths):
    kept, held, place = "", "", 0
    for length in [*lengths, len(text)]:
        held += text[place : place + length]
        place += length
        settled = settled_length(held)
        kept += REDACTOR.redact(held[:settled])
        held = held[settled:]
    kept += REDACTOR.redact(held + text[place:])
    assert kept == REDACTOR.redact(text)


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("", ""),
        ("word", ""),
        ("two words", "two "),
        ("a line\n", "a line\n"),
        ("a line\nand wo", "a line\nand "),
        ("a line\nthe password is hun", "a line\nthe "),
        ("DB_PASSWORD=abc and", ""),
        ("the password was\nsaid on the line before", "the password was\nsaid on the line "),
        ("the password\nis on the next line", ""),
        ("a\n- name: DB_PASSWORD\n  value: hun", "a\n"),
        ("a\nlogin bob\n12: password hun", "a\n"),
        ("a\n1: " + "Ab3" * 20 + "\n2: " + "Cd4" * 20 + "\n3: E", "a\n"),
        ("a\nPuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n", "a\n"),
        ("a\nPuTTY-User-Key-File-3: x\nPrivate-MAC: 0a\nb c", None),
        ("a\n-----BEGIN CERTIFICATE-----\nMII\nb c", None),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n", "a\n"),
        ("a\n-----BEGIN X PRIVATE KEY-----\nM\n-----END X PRIVATE KEY-----\nb c", None),
        ("-----BEGIN X PRIVATE KEY-----\nM\n-----END X PRIVATE KEY-----", ""),
    ],
)
def test_what_may_turn_into_a_secret_waits(text, settled):
    expected = text[:-1] if settled is None else settled
    assert text[: settled_length(text)] == expected


@given(st.sampled_from(["x", "password ", "-----BEGIN"]))
def test_no_more_than_so_much_ever_waits(word):
    text = word * HELD_CHARACTERS_MAX
    assert len(text) - settled_length(text) <= HELD_CHARACTERS_MAX
