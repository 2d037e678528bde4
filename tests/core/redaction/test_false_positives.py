"""What redaction takes away from ordinary code and prose: less than one line in ten thousand."""

import hashlib
import os
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED, SOAK

from upthread.core.redaction.redactor import Redactor

SUFFIXES = frozenset(".py .pyi .md .rst .txt .toml .json .js .ts .html .sh .sql .cfg".split())
SAMPLE_BYTES = 1_000_000
SOAK_BYTES = 34_000_000
"""The whole promise."""

LINES_PER_FALSE_POSITIVE = 10_000
FILE_BYTES_MAX = 1_000_000
REPOSITORY = Path(__file__).resolve().parents[3]


OWN = (REPOSITORY / "docs", REPOSITORY / "src")
INSTALLED = map(Path, map(sysconfig.get_path, ("stdlib", "purelib")))
ALL = (*OWN, REPOSITORY / ".agents" / "node_modules", *INSTALLED)
"""Our own docs and source, the standard library, and what the project's files install."""


def corpus(places: Iterable[Path]) -> Iterator[bytes]:
    """Yield files in a fixed random order, so that the first megabytes are of everything."""
    named: dict[bytes, Path] = {}
    for place in places:
        for directory, below, files in os.walk(place):  # a walk by `Path` takes ten times as long
            below[:] = [name for name in below if name != "site-packages"]
            for name in files:
                if os.path.splitext(name)[1] in SUFFIXES:  # noqa: PTH122
                    shown = f"{directory.removeprefix(str(place))}/{name}"
                    named[hashlib.sha256(shown.encode()).digest()] = Path(directory, name)
    for _, path in sorted(named.items()):
        if path.is_file() and path.stat().st_size < FILE_BYTES_MAX:
            yield path.read_bytes()


@pytest.mark.parametrize(
    ("places", "bytes_wanted"),
    [
        pytest.param(OWN, 300_000, id="our own"),
        pytest.param(ALL, SAMPLE_BYTES, marks=EXTENDED, id="a sample"),
        pytest.param(ALL, SOAK_BYTES, marks=SOAK, id="everything"),
    ],
)
def test_fewer_than_one_line_in_ten_thousand_is_touched(
    places: tuple[Path, ...], bytes_wanted: int, capsys: pytest.CaptureFixture[str]
) -> None:
    redactor = Redactor(b"k" * 32)
    lines = touched = size = 0
    began_s = time.process_time()
    for content in corpus(places):
        redacted = redactor.redact_bytes(content)
        lines += content.count(b"\n") + 1
        size += len(content)
        touched += redacted.count(b"[redacted:") - content.count(b"[redacted:")
        if size >= bytes_wanted:
            break
    took_s = time.process_time() - began_s
    with capsys.disabled():
        print(  # noqa: T201  # the figure that is promised
            f"\n{touched} placeholders in {lines:,} ordinary lines: {touched / lines * 10_000:.2f}"
            f" in 10,000 ({size / 1e6:.0f} MB, {size / 1e6 / took_s:.0f} MB/s)"
        )
    assert size >= bytes_wanted
    assert touched * LINES_PER_FALSE_POSITIVE < lines
