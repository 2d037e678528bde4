"""A part of a hundred megabytes, with a NUL and half a character: the same bytes come back."""

import hashlib
from contextlib import closing

import pytest
from tests.support.shipped_stores import POSTGRES, SQLITE

from upthread.core.types import TextPart, ToolResultPart
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

STRANGE = "a\x00b \ud83d é 日本 \U0001f600\n"
HUNDRED_MEGABYTES = 100 * 1024 * 1024


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text_of(size: int) -> str:
    filler = STRANGE * (size // len(STRANGE.encode("utf-8", "surrogatepass")) + 1)
    assert len(filler.encode("utf-8", "surrogatepass")) >= size
    return filler


@pytest.mark.parametrize("backend", [SQLITE, POSTGRES], ids=lambda backend: backend.name)
@pytest.mark.parametrize(
    "size",
    [4 * 1024 * 1024, pytest.param(HUNDRED_MEGABYTES, marks=pytest.mark.soak)],
    ids=["4 MB", "100 MB"],
)
def test_a_large_part_is_stored_and_read_back_byte_for_byte(tmp_path, backend, size):
    text = text_of(size)
    expected = digest(text)
    store = backend.make(tmp_path / "store.db")
    store.commit(samples.home())
    said = ToolResultPart(call_id="c1", status="completed", text=text)
    store.commit([samples.said(1, TextPart(text=STRANGE), said)])
    store.close()
    del text, said

    with closing(backend.make(tmp_path / "store.db")) as store:
        (message,) = store.messages(CONVERSATION)
        small, large = message.parts
        assert store.verify(CONVERSATION) is None
    assert isinstance(small, TextPart)
    assert small.text == STRANGE
    assert isinstance(large, ToolResultPart)
    assert digest(large.text) == expected
