"""What agents say that they change in a file is read in each form they say it in."""

import pytest

from upthread.surfaces.page.edits import (
    EDITS_MAX,
    LINES_COMPARED_MAX,
    DiffLine,
    Edit,
    diff_of,
    edits_in,
)


@pytest.mark.parametrize(
    ("arguments", "edits"),
    [
        (
            {"file_path": "a.py", "old_string": "1", "new_string": "2"},
            (Edit("a.py", before="1", after="2"),),
        ),
        (
            {"filePath": "a.py", "oldString": "1", "newString": "2"},
            (Edit("a.py", before="1", after="2"),),
        ),
        ({"path": "a.py", "content": "new\n"}, (Edit("a.py", after="new\n"),)),
        (
            {"file_path": "a", "edits": [{"old_string": "1"}, {"new_string": "2"}]},
            (Edit("a", before="1"), Edit("a", after="2")),
        ),
        (
            {"changes": [{"path": "a", "diff": "@@\n-1\n+2", "kind": {"type": "update"}}]},
            (Edit("a", patch="@@\n-1\n+2"),),
        ),
        ({"changes": {"a": {"unified_diff": "+1"}, "b": 3}}, (Edit("a", patch="+1"),)),
        ({"patchText": "*** Begin Patch"}, (Edit("", patch="*** Begin Patch"),)),
        ({"command": "ls"}, ()),
        ({"content": "no path"}, ()),
        ("text", ()),
        (None, ()),
        ({"edits": "text", "path": 3}, ()),
    ],
)
def test_an_edit_is_read_in_each_form(arguments, edits):
    assert edits_in(arguments) == edits


def test_no_more_edits_are_shown_than_a_page_has_room_for():
    many = {"path": "a", "edits": [{"new_string": str(n)} for n in range(EDITS_MAX + 5)]}
    assert len(edits_in(many)) == EDITS_MAX


def test_lines_that_stay_are_shown_only_near_those_that_change():
    before = "\n".join(map(str, range(40)))
    after = before.replace("\n2\n", "\ntwo\n").replace("\n30\n", "\n30\nmore\n")
    lines = list(diff_of(Edit("a", before=before, after=after)))
    assert DiffLine("removed", "2") in lines
    assert DiffLine("added", "two") in lines
    assert DiffLine("added", "more") in lines
    assert DiffLine("place", "…") in lines
    assert DiffLine("same", "15") not in lines


def test_long_texts_are_shown_one_after_the_other():
    long = "\n".join(map(str, range(LINES_COMPARED_MAX)))
    lines = list(diff_of(Edit("a", before=long, after="1")))
    assert {line.kind for line in lines[:-1]} == {"removed"}
    assert lines[-1] == DiffLine("added", "1")


def test_a_patch_is_shown_by_the_signs_of_its_lines():
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-1\n+2\n 3"
    kinds = ["place", "place", "place", "removed", "added", "same"]
    lines = ["--- a", "+++ b", "@@ -1 +1 @@", "1", "2", "3"]
    assert list(diff_of(Edit("a", patch=patch))) == list(zip(kinds, lines, strict=True))
