"""Words: all of them in one message, in any case, and lines without them are passed over."""

import io

import pytest

from upthread.agent_stores import reader as module
from upthread.agent_stores.reader import Words, texts_in
from upthread.errors import UsageError


def lines(raw: bytes, *words: str) -> list[bytes]:
    return list(Words(words).lines_of(io.BytesIO(raw)))


def test_a_line_has_all_the_words_or_is_none():
    raw = b"Retry the export\nretry\nEXPORT then Retry\n"
    assert lines(raw, "retry export") == [b"Retry the export", b"EXPORT then Retry"]
    assert lines(raw, "nothing") == []


def test_lines_are_found_whole_wherever_they_are_cut_in_reading(monkeypatch):
    raw = b"".join(b"line %d with the word\nother %d\n" % (n, n) for n in range(200))
    expected = [line for line in raw.splitlines() if b"word" in line]
    for size in (1, 7, 64, 10_000):
        monkeypatch.setattr(module, "PIECE_BYTES", size)
        assert lines(raw, "WORD") == expected
    assert lines(raw[:-1] + b" word", "word")[-1] == b"other 199 word"


def test_a_line_without_end_takes_no_memory(monkeypatch):
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 1_000)
    monkeypatch.setattr(module, "PIECE_BYTES", 100)
    assert lines(b"word " * 10_000 + b"\nword\n", "word")[-1] == b"word"


def test_a_word_is_no_expression_and_is_found_as_json_writes_it():
    raw = rb'{"text": "say \"no.*\" to C:\\x"}' + b"\n"
    for word in ('"no.*"', "C:\\x", "no.*"):
        assert lines(raw, word) == [raw.rstrip()]
    assert lines(raw, "n.") == []


def test_where_the_first_word_stands_is_counted_in_characters():
    assert Words(["größe"]).place_in("Die Größe, größer") == 4
    assert Words(["größe", "die"]).place_in("Größe") is None


@pytest.mark.parametrize("given", [[], [" "], ["x" * 1_000], ["x"] * 100])
def test_what_are_no_words_is_refused(given):
    with pytest.raises(UsageError):
        Words(given)


def test_the_texts_of_a_value_are_told_in_their_order_however_deep():
    assert list(texts_in({"a": ["x", {"b": "y"}], "c": 3, "d": "z"})) == ["x", "y", "z"]
    block = {"type": "output_text", "text": "made"}
    assert list(texts_in([block, {"type": "a kind", "size": "x"}])) == ["made", "a kind", "x"]
    deep: object = "end"
    for _ in range(20_000):
        deep = [deep]
    assert list(texts_in(deep)) == ["end"]  # type: ignore[arg-type]


def test_a_file_that_is_said_to_be_larger_than_any_disk_is_read_to_its_first_hole(tmp_path):
    path = tmp_path / "sparse.jsonl"
    path.write_bytes(b'{"text": "the word"}\n')
    with path.open("r+b") as file:
        file.truncate(10 * 1024**4)
    with path.open("rb") as stream:
        assert list(Words(["word"]).lines_of(stream)) == [b'{"text": "the word"}']
        assert stream.tell() <= 2 * module.PIECE_BYTES
