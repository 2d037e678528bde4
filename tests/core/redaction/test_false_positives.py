"""What redaction takes away from ordinary code and prose: less than one line in ten thousand."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from upthread.core.redaction.redactor import Redactor

SUFFIXES = frozenset(".py .pyi .md .rst .txt .toml .json .js .ts .html .sh .sql .cfg".split())
LINES_WANTED = 500_000
LINES_PER_FALSE_POSITIVE = 10_000
FILE_BYTES_MAX = 1_000_000
REPOSITORY = Path(__file__).resolve().parents[3]


def corpus() -> Iterator[bytes]:
    """Our own docs and source, the standard library, and whatever is installed."""
    places = (
        REPOSITORY / "docs",
        REPOSITORY / "src",
        *map(sysconfig.get_path, ("stdlib", "purelib")),
    )
    for place in places:
        for path in sorted(Path(place).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size < FILE_BYTES_MAX:
                yield path.read_bytes()


def test_fewer_than_one_line_in_ten_thousand_is_touched(capsys: pytest.CaptureFixture[str]) -> None:
    redactor = Redactor(b"k" * 32)
    lines = touched = size = 0
    began_s = time.process_time()
    for content in islice(corpus(), 20_000):
        redacted = redactor.redact_bytes(content)
        lines += content.count(b"\n") + 1
        size += len(content)
        touched += redacted.count(b"[redacted:") - content.count(b"[redacted:")
        if lines >= LINES_WANTED:
            break
    took_s = time.process_time() - began_s
    with capsys.disabled():
        print(  # noqa: T201  # the figure that is promised
            f"\n{touched} placeholders in {lines:,} ordinary lines: {touched / lines * 10_000:.2f}"
            f" in 10,000 ({size / 1e6:.0f} MB, {size / 1e6 / took_s:.0f} MB/s)"
        )
    assert lines >= LINES_WANTED
    assert touched * LINES_PER_FALSE_POSITIVE < lines
