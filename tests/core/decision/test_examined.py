import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from upthread.core.decision.examined import (
    FILES_OF_CALL_MAX,
    PATH_CHARACTERS_MAX,
    Examination,
    ExaminedFile,
    examination_of,
    kept_path,
    known_after,
)
from upthread.core.types import ToolCallPart

ROOT = "/srv/project"


def call(kind: str, *locations: str, title: str = "", arguments: object = None) -> ToolCallPart:
    return ToolCallPart(
        call_id="c",
        title=title,
        tool_kind=kind,
        arguments=arguments,  # type: ignore[arg-type]
        locations=locations,
    )


@pytest.mark.parametrize(
    ("part", "how", "paths"),
    [
        (call("read", f"{ROOT}/a.py"), "read", ("a.py",)),
        (call("read", "src/../a.py", "a.py"), "read", ("a.py",)),
        (call("read", "/etc/hosts"), "read", ("/etc/hosts",)),
        (call("edit", "a.py", "b.py"), "wrote", ("a.py", "b.py")),
        (call("delete", "a.py"), "wrote", ("a.py",)),
        (call("move", "a.py", "b.py"), "wrote", ("a.py", "b.py")),
        (call("read", arguments={"filePath": "a.py"}), "read", ("a.py",)),
        (call("other", title="Read", arguments={"file_path": "a.py"}), "read", ("a.py",)),
        (call("other", title="MultiEdit", arguments={"file_path": "a"}), "wrote", ("a",)),
        (call("other", title="NotebookEdit", arguments={"notebook_path": "n"}), "wrote", ("n",)),
        (
            call("other", title="write_file", arguments={"absolute_path": "/x/n"}),
            "wrote",
            ("/x/n",),
        ),
        (
            call("other", title="apply_patch", arguments={"changes": {"a": {}, "b": {}}}),
            "wrote",
            ("a", "b"),
        ),
    ],
)
def test_a_call_tells_what_it_read_or_wrote(part, how, paths):
    assert examination_of(part, root=ROOT) == Examination(how=how, paths=paths)


@pytest.mark.parametrize(
    "part",
    [
        call("execute", "a.py"),
        call("search", ROOT),
        call("fetch", "https://example.org"),
        call("other", "a.py", title="Ask planner"),
        call("read"),
        call("read", arguments=["a.py"]),
        call("read", arguments={"path": 7}),
        call("read", ""),
        call("read", "/dev/zero", "/proc/kmsg", "/sys/x"),
    ],
)
def test_what_names_no_file_examines_none(part):
    assert examination_of(part, root=ROOT) is None


def test_a_call_that_names_too_many_files_is_cut():
    many = examination_of(call("read", *(f"{n}.py" for n in range(999))), root=ROOT)
    assert many is not None
    assert len(many.paths) == FILES_OF_CALL_MAX


def known(path: str, digest: str, *, mtime_ns: int | None = 50) -> ExaminedFile:
    return ExaminedFile(
        path=path, how="read", state="hashed", size_bytes=1, mtime_ns=mtime_ns, digest=digest
    )


def test_what_says_nothing_new_is_not_kept_again():
    assert known_after(known("a", "1"), before=None) == known("a", "1")
    assert known_after(known("a", "1"), before=known("a", "1")) is None
    assert known_after(known("a", "2"), before=known("a", "1")) == known("a", "2")


def test_reading_again_does_not_undo_having_written():
    wrote = replace(known("a", "1"), how="wrote")
    assert known_after(known("a", "1"), before=wrote) is None
    assert known_after(known("a", "2"), before=wrote) == replace(wrote, digest="2")
    assert known_after(wrote, before=known("a", "1")) == wrote


@pytest.mark.parametrize("kind", ["execute", "read", "other"])
def test_a_command_shows_what_its_words_say_it_reads(kind):
    part = call(kind, arguments={"command": "sed -n 1,9p src/a.py; cat /etc/hosts", "cwd": ROOT})
    assert examination_of(part, root=ROOT) == Examination(
        how="shown", paths=("src/a.py", "/etc/hosts")
    )


def test_a_command_is_run_where_its_call_says():
    part = call("execute", arguments={"command": ["cat", "a.py"], "workdir": "src"})
    assert examination_of(part, root=ROOT) == Examination(how="shown", paths=("src/a.py",))


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
