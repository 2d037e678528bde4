"""Bytes redacted as they come, in bounded memory."""

import random
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from tests.core.redaction.secrets_of import planted

from upthread.core.redaction.byte_stream import RedactedStream
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import HELD_CHARACTERS_MAX

REDACTOR = Redactor(b"k" * 32)


@given(st.binary(max_size=300), st.integers(min_value=1, max_value=20))
def test_what_holds_no_secret_comes_through_byte_for_byte(content, length):
    stream = RedactedStream(REDACTOR)
    pieces = [content[at : at + length] for at in range(0, len(content), length)]
    through = b"".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert through == REDACTOR.redact_bytes(content)


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


def test_no_more_than_so_much_waits():
    stream = RedactedStream(REDACTOR)
    for _ in range(64):
        stream.feed(b"x" * 4096)
    assert len(stream.waiting()) <= HELD_CHARACTERS_MAX


HUNDRED_MB = """
import re, sys
from upthread.core.redaction.byte_stream import RedactedStream
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


def test_a_hundred_megabytes_take_bounded_memory():
    """A stream holds what waits; a part that is in memory already costs its size a few times."""
    for how, kilobytes_max in (("stream", 150_000), ("part", 700_000)):
        done = subprocess.run(
            [sys.executable, "-c", HUNDRED_MB, how], capture_output=True, text=True, check=True
        )
        size, kilobytes = map(int, done.stdout.split())
        assert size >= 100_000_000
        assert kilobytes < kilobytes_max, (how, kilobytes)
