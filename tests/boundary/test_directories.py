"""A directory held open: what lies in it is read within it, and nothing else is reached."""

import os

import pytest

from upthread.boundary.directories import MORE_NAMES, open_directory, walked


@pytest.fixture
def place(tmp_path):
    inside = tmp_path / "store"
    (inside / "inner").mkdir(parents=True)
    (inside / "inner" / "a.jsonl").write_bytes(b"0123456789")
    (tmp_path / "secret").write_bytes(b"the secret\n")
    return inside


def test_names_are_told_by_what_they_are_and_nothing_is_opened(place):
    os.mkfifo(place / "pipe")
    (place / "link").symlink_to("/dev/zero")
    (place / "file").touch()
    with open_directory(str(place)) as directory:
        names = directory.names()
    assert (names.files, names.directories, names.others) == (("file",), ("inner",), 2)


def test_both_ends_of_a_file_are_read_and_what_is_between_is_not(place):
    with open_directory(str(place)) as directory, directory.within("inner") as inner:
        apart = inner.ends("a.jsonl", head_bytes=3, tail_bytes=2)
        near = inner.ends("a.jsonl", head_bytes=6, tail_bytes=8)
        small = inner.ends("a.jsonl", head_bytes=99, tail_bytes=99)
    assert (apart.head, apart.tail, apart.is_whole, apart.size_bytes) == (b"012", b"89", False, 10)
    assert (near.head, near.tail, near.is_whole) == (b"012345", b"6789", True)
    assert (small.head, small.tail, small.is_whole) == (b"0123456789", b"", True)


def test_no_link_is_followed_and_no_pipe_waited_for(place, tmp_path):
    (place / "out").symlink_to(tmp_path)
    (place / "secret").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "pipe")
    with open_directory(str(place)) as directory:
        for name in ("secret", "pipe", "inner", "nothing"):
            with pytest.raises(OSError):
                directory.ends(name, head_bytes=9, tail_bytes=9)
        with pytest.raises(OSError):
            directory.within("out")


def test_the_directory_itself_may_be_reached_by_a_link(place, tmp_path):
    (tmp_path / "moved").symlink_to(place)
    with open_directory(str(tmp_path / "moved")) as directory:
        assert directory.names().directories == ("inner",)


def test_what_is_walked_to_is_an_ordinary_file_behind_no_link(place, tmp_path):
    (place / "inner" / "b.txt").touch()
    (place / "inner" / "c.jsonl").mkdir()
    (place / "inner" / "d.jsonl").symlink_to(tmp_path / "secret")
    (place / "out").symlink_to(tmp_path)
    passed = []

    def found(top, *levels: str, **more: bool):
        names = walked(str(top), *levels, pass_over=lambda *why: passed.append(why), **more)
        return [f"{directory.path}/{name}" for directory, name in names]

    assert found(place, "*", "*.jsonl") == [f"{place}/inner/a.jsonl"]
    everything = [f"{place}/inner/{name}.jsonl" for name in "acd"]
    assert found(place, "inner", "*.jsonl", is_ordinary=False) == everything
    assert [why for why in passed if why[2]] == [
        (str(place), "no ordinary file", 1),
        *[(f"{place}/inner", "no ordinary file", 1)] * 2,
    ]
    assert {why for _, why, _ in passed} == {"no ordinary file", MORE_NAMES}
    assert found(place, "*.jsonl") == found(place / "nothing", "*") == []
    assert found(place / "inner" / "a.jsonl", "*") == []
    assert passed[-1][1].startswith("Not a directory: ")
