"""What an agent writes to stderr, on its way into a file."""

import os

from tests.core.redaction.secrets_of import planted

from upthread.agents._process import TAIL_BYTES, StderrLog
from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)


def test_a_secret_in_pieces_reaches_neither_the_file_nor_the_tail(tmp_path):
    path = tmp_path / "err.log"
    with path.open("ab", buffering=0) as file:
        log = StderrLog(file, REDACTOR)
        secret = planted(8)[6][1]
        for piece in (f"using {secret[:9]}", secret[9:], " now\nlast wor"):
            log.write(piece.encode())
            assert secret not in log.tail()
        assert path.read_text() == f"using {REDACTOR.redact(secret)} now\nlast "
        assert log.tail().endswith("last wor")
        log.close()
    assert path.read_text().endswith("last wor")


def test_the_tail_is_the_end_and_no_longer():
    log = StderrLog(None, None)
    log.write(b"x" * 5_000 + b"the end\n")
    assert len(log.tail()) == TAIL_BYTES - 1
    assert log.tail().endswith("xthe end")
    log.close()


def test_a_file_that_takes_no_more_is_said_in_the_tail():
    log = StderrLog(os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0), None)
    log.write(b"hello\n")
    log.write(b"again\n")
    assert log.tail() == "hello\nagain (no more of its stderr is kept: No space left on device)"
    log.close()
