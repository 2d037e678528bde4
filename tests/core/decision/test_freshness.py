"""What has changed since a session worked: each change is found, counted, and told on its line.

Nothing that could not be looked at is called changed.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from upthread.core.decision.freshness import (
    LISTED_MAX,
    READ_AGAIN,
    ChangedFile,
    ExaminedFile,
    Freshness,
    Shift,
    Surroundings,
    change_lines,
    changed_files,
    freshness,
    matches,
    render_changes,
)

HERE = Surroundings(
    working_directory="/srv/app",
    agent="opencode",
    agent_version="1.18",
    model="m",
    configuration="d1",
    repository="/srv/app",
    branch="main",
    commit="c0ffee",
)


def file(path: str = "a.py", digest: str = "1") -> ExaminedFile:
    return ExaminedFile(
        path=path, how="read", state="hashed", size_bytes=1, mtime_ns=1, digest=digest
    )


def gone(path: str = "a.py") -> ExaminedFile:
    return ExaminedFile(path=path, how="read", state="missing")


def closed(path: str = "a.py") -> ExaminedFile:
    return ExaminedFile(path=path, how="read", state="unreadable")


def large(size: int = 9, mtime_ns: int | None = 5) -> ExaminedFile:
    return ExaminedFile(
        path="a.py", how="read", state="too_large", size_bytes=size, mtime_ns=mtime_ns
    )


@pytest.mark.parametrize(
    ("known", "now", "how"),
    [
        (file(), file(), None),
        (file(), replace(file(), mtime_ns=9, size_bytes=9), None),
        (file(), file(digest="2"), "changed"),
        (file(), gone(), "deleted"),
        (gone(), file(), "created"),
        (gone(), gone(), None),
        (file(), closed(), "unreadable"),
        (closed(), closed(), None),
        (closed(), file(), "changed"),
        (closed(), gone(), "deleted"),
        (large(), large(), None),
        (large(), large(size=10), "changed"),
        (large(), large(mtime_ns=6), "changed"),
        (large(mtime_ns=None), large(), None),
        (large(), file(), "changed"),
        (file(), replace(gone(), state="no_file"), "changed"),
    ],
)
def test_each_pair_of_states_is_a_change_or_none(known, now, how):
    changed = changed_files([known], [now])
    assert [each.how for each in changed] == ([] if how is None else [how])


def test_a_path_nobody_looked_at_is_not_called_changed():
    assert changed_files([file("a"), file("b")], [file("b", "2")]) == (
        ChangedFile(path="b", how="changed"),
    )


def test_changes_are_counted_whole_and_listed_critical_ones_first():
    many = [f"src/{number:03}.py" for number in range(80)]
    found = freshness(
        known=[file(path) for path in (*many, "z/schema.sql", "same")],
        now=[*(file(path, "2") for path in (*many, "z/schema.sql")), file("same")],
        was=HERE,
        here=HERE,
        critical=["*.sql"],
    )
    assert (found.examined_count, found.changed_count, found.critical_count) == (82, 81, 1)
    assert len(found.changed) == LISTED_MAX
    assert found.changed[0] == ChangedFile(path="z/schema.sql", how="changed", is_critical=True)
    assert [each.path for each in found.changed[1:]] == many[: LISTED_MAX - 1]


def moved(was: Surroundings | None, here: Surroundings, *gone_now: str) -> Freshness:
    return freshness(known=[], now=[], was=was, here=here, places_gone=frozenset(gone_now))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"at_ms": 99}, Freshness()),
        ({"branch": "x"}, Freshness(branch=Shift(was="main", now="x"))),
        ({"branch": None}, Freshness(branch=Shift(was="main", now=None))),
        ({"commit": "bad"}, Freshness(commit=Shift(was="c0ffee", now="bad"))),
        ({"agent_version": "2"}, Freshness(agent_version=Shift(was="1.18", now="2"))),
        ({"agent_version": ""}, Freshness()),
        ({"model": "n"}, Freshness(model=Shift(was="m", now="n"))),
        ({"model": None}, Freshness()),
        ({"configuration": "d2"}, Freshness(is_configuration_changed=True)),
        ({"configuration": ""}, Freshness()),
        ({"agent": "codex"}, Freshness()),
        (
            {"working_directory": "/srv/b"},
            Freshness(directory=Shift(was="/srv/app", now="/srv/b")),
        ),
        ({"branch": None, "commit": None, "git_fault": "f"}, Freshness(git_fault="f")),
    ],
)
def test_each_thing_that_moved_is_told(changes, found):
    assert moved(HERE, replace(HERE, **changes)) == found


def test_where_nothing_was_known_before_nothing_is_said_of_it():
    assert moved(None, HERE) == Freshness()
    was = replace(HERE, branch=None, commit=None, git_fault="fatal")
    assert moved(was, HERE) == Freshness()


def test_a_renamed_directory_moved_and_a_removed_worktree_is_missing():
    elsewhere = replace(HERE, working_directory="/srv/new", repository="/srv/new")
    renamed = moved(HERE, elsewhere, "/srv/app")
    assert renamed.directory == Shift(was="/srv/app", now="/srv/new")
    assert not renamed.is_directory_missing
    worktree = replace(HERE, working_directory="/work/beside")
    assert moved(worktree, HERE, "/work/beside").is_directory_missing
    assert not moved(worktree, HERE).is_directory_missing
    plain = replace(HERE, repository=None, branch=None, commit=None)
    assert not moved(plain, elsewhere, "/srv/app").is_directory_missing


@pytest.mark.parametrize(
    ("glob", "path", "is_match"),
    [
        ("spec.md", "spec.md", True),
        ("spec.md", "docs/spec.md", True),
        ("/spec.md", "spec.md", True),
        ("docs/spec.md", "a/docs/spec.md", False),
        ("*.sql", "db/1.sql", True),
        ("*.sql", "db/1.sqlx", False),
        ("db/*.sql", "db/deep/1.sql", False),
        ("db/**/*.sql", "db/deep/er/1.sql", True),
        ("db/**/*.sql", "db/1.sql", True),
        ("db/**", "db/deep/1.sql", True),
        ("**", "anything/at/all", True),
        ("migrations", "db/migrations/1.sql", True),
        ("migrations/", "migrations/1.sql", True),
        ("v?.txt", "v1.txt", True),
        ("v?.txt", "v12.txt", False),
        ("a.b", "axb", False),
        ("[x].py", "x.py", False),
        ("[x].py", "[x].py", True),
        ("*.py", "/abs/x.py", True),
        ("a\nb", "a\nb", True),
        ("a", "a\n", False),
    ],
)
def test_globs_match_names_and_paths(glob, path, is_match):
    assert matches(glob, path) is is_match


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_a_glob_and_none_raises(glob, path):
    assert matches(glob, path) in {True, False}


FILES = st.lists(
    st.builds(file, path=st.sampled_from("abcdefgh"), digest=st.sampled_from("12")),
    unique_by=lambda each: each.path,
)


@pytest.mark.extended
@given(FILES, FILES, st.sampled_from([(), ("a",), ("*",)]))
def test_a_file_is_stale_exactly_when_its_content_differs(known, now, critical):
    found = freshness(known=known, now=now, was=HERE, here=HERE, critical=critical)
    before = {each.path: each.digest for each in known}
    after = {each.path: each.digest for each in now}
    differing = {path for path in before.keys() & after.keys() if before[path] != after[path]}
    assert {each.path for each in found.changed} == differing
    assert found.changed_count == len(differing)
    expected = {"": 0, "a": len(differing & {"a"}), "*": len(differing)}["".join(critical)]
    assert found.critical_count == expected


# --- the words that say it ------------------------------------------------------------------------


def test_what_changed_is_a_list_of_sentences_and_what_to_do_about_it():
    found = Freshness(changed=(ChangedFile(path="a.py", how="deleted"),), changed_count=3)
    assert change_lines(found) == ("`a.py`: deleted", "and 2 more of the files you had read")
    assert render_changes(found).endswith(READ_AGAIN)
    assert render_changes(Freshness()) == ""
