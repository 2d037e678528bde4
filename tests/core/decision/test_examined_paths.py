"""Which names are kept of files, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.decision.examined_paths import PATH_CHARACTERS_MAX, kept_path

ROOT = "/srv/project"


@pytest.mark.parametrize(
    ("name", "root", "kept"),
    [
        ("/srv/project-two/a", ROOT, "/srv/project-two/a"),
        ("../other/a", ROOT, "/srv/other/a"),
        ("a", "/", "a"),
        ("/srv/project/", ROOT, None),
        ("/srv/project/./b//c", "/srv/project/", "b/c"),
    ],
)
def test_a_path_inside_is_kept_relative_so_that_a_moved_directory_is_no_change(name, root, kept):
    assert kept_path(name, root=root) == kept


@pytest.mark.extended
@given(st.text(max_size=30))
def test_no_name_is_kept_that_climbs_out_as_a_relative_path(name):
    kept = kept_path(name, root=ROOT)
    assert kept is None or not kept.startswith("../")


@pytest.mark.parametrize(
    "name",
    ["", "a\0b", "x" * (PATH_CHARACTERS_MAX + 1), "/proc/self/status", "/dev/tty", ".", ROOT],
)
def test_a_name_of_no_file_that_is_looked_at_is_not_kept(name):
    assert kept_path(name, root=ROOT) is None
