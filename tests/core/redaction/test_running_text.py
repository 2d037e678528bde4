"""How much of a running text may be written down before the rest has come."""

import random
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.core.redaction.secrets_of import planted
from tests.support.sets import EXTENDED

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import HELD_CHARACTERS_MAX, RedactedStream, settled_length

REDACTOR = Redactor(b"k" * 32)
PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from([text for _, _, text in planted(76)]),
    st.sampled_from(["\n", " ", "a word ", "-----BEGIN RSA PRIVATE KEY-----\n", "password: "]),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


@example("password: \n\n\x1fAIzarUZoL8g5ubbbPIa84yRnBUbHoWC8FJowoRo", [11, 1])
@example("\x1f0AIzarUZoL8g5ubbbPIa84yRnBUbHoWC8FJowoRo", [])
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
        ("a line\nthe password is hun", "a line\n"),
        ("DB_PASSWORD=abc and", ""),
        ("the password was\nsaid a line before", ""),
        ("a\nuse Maple-Stairs_19 as", "a\n"),
        ("the password\nis on the next line", ""),
        ("a\n- name: DB_PASSWORD\n  value: hun", "a\n"),
        ("a\nlogin bob\n12: password hun", "a\n"),
        ("a\n1: " + "Ab3" * 20 + "\n2: " + "Cd4" * 20 + "\n3: E", "a\n"),
        ("a\nPuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n", "a\n"),
        ("a\nPuTTY-User-Key-File-3: x\nPrivate-MAC: 0a\nb c", None),
        ("a\n-----BEGIN CERTIFICATE-----\nMII\nb c", None),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n", "a\n"),
        ("a\n-----BEGIN X PRIVATE KEY-----\nM\n-----END X PRIVATE KEY-----\nb c", "a\n"),
        ("-----BEGIN X PRIVATE KEY-----\nM\n-----END X PRIVATE KEY-----", ""),
    ],
)
def test_what_may_turn_into_a_secret_waits(text, settled):
    expected = text[:-1] if settled is None else settled
    assert text[: settled_length(text)] == expected


@pytest.mark.parametrize("word", ["x", "password ", "-----BEGIN"])
def test_no_more_than_so_much_ever_waits(word):
    text = word * HELD_CHARACTERS_MAX
    assert len(text) - settled_length(text) <= HELD_CHARACTERS_MAX


# --- bytes redacted as they come, in bounded memory -----------------------------------------------


@given(st.binary(max_size=300), st.integers(min_value=1, max_value=20))
def test_what_holds_no_secret_comes_through_byte_for_byte(content, length):
    stream = RedactedStream(REDACTOR)
    pieces = [content[at : at + length] for at in range(0, len(content), length)]
    through = b"".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert through == REDACTOR.redact_bytes(content)


@EXTENDED
def test_a_secret_in_pieces_is_found_whatever_the_pieces():
    chance = random.Random(3)
    for _, secret, text in planted(76):
        stream, through, rest = RedactedStream(REDACTOR), b"", f"before {text}\nafter\n".encode()
        while rest:
            length = chance.randrange(1, 9)
            through += stream.feed(rest[:length])
            rest = rest[length:]
        through += stream.finish()
        assert secret.encode() not in through
        assert through.startswith(b"before ")
        assert through.endswith(b"\nafter\n")


def test_what_waits_can_be_looked_at_and_stays():
    stream = RedactedStream(REDACTOR)
    assert stream.feed(b"done\nthe last wor") == b"done\nthe last "
    assert stream.waiting() == b"wor"
    assert stream.waiting() == b"wor"
    assert stream.finish() == b"wor"
    assert stream.finish() == b""


@EXTENDED
def test_no_more_than_so_much_waits():
    stream = RedactedStream(REDACTOR)
    for _ in range(HELD_CHARACTERS_MAX // 4096 + 2):
        stream.feed(b"x" * 4096)
    assert len(stream.waiting()) <= HELD_CHARACTERS_MAX


HUNDRED_MB = """
import re, sys
from upthread.core.redaction.running_text import RedactedStream
from upthread.core.redaction.redactor import Redactor

redactor = Redactor(b"k" * 32)
line = "a line of sixty-four characters, as logs have them, no more....\\n"
if sys.argv[1] == "stream":
    stream, size = RedactedStream(redactor), 0
    for number in range(1600):
        size += len(stream.feed(line.encode() * 1024))
    size += len(stream.finish())
else:
    text = line * 1_600_000
    assert redactor.redact(text) is text
    size = len(redactor.redact(text + "DB_PASSWORD=correcthorse\\n"))
# of this program alone: what getrusage tells begins with what its parent had
print(size, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@EXTENDED
def test_a_hundred_megabytes_take_bounded_memory():
    """A stream holds what waits; a part that is in memory already costs its size a few times."""
    for how, kilobytes_max in (("stream", 150_000), ("part", 700_000)):
        done = subprocess.run(
            [sys.executable, "-c", HUNDRED_MB, how], capture_output=True, text=True, check=True
        )
        size, kilobytes = map(int, done.stdout.split())
        assert size >= 100_000_000
        assert kilobytes < kilobytes_max, (how, kilobytes)
