import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from upthread.core.decision.freshness import (
    FILES_OF_CALL_MAX,
    PATH_CHARACTERS_MAX,
    Examination,
    ExaminedFile,
    Reading,
    examination_of,
    kept_path,
    known_after,
    reading_of,
)
from upthread.core.types import ErasedPart, TextPart, ToolCallPart, ToolResultPart

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


FILES = (
    ExaminedFile(path="a.py", how="shown", state="hashed"),
    ExaminedFile(path="src/b.py", how="wrote", state="hashed"),
)


def ran(line: str | None, *, kind: str = "execute", title: str = "", cwd: str = "") -> ToolCallPart:
    arguments = {"command": line, "workdir": cwd} if line is not None else None
    return ToolCallPart(
        call_id=f"{kind} {line}", title=title or str(line), tool_kind=kind, arguments=arguments
    )


def failed(part: ToolCallPart) -> ToolResultPart:
    return ToolResultPart(call_id=part.call_id, status="failed", text="")


def commands_not_known(*parts: object) -> int:
    return reading_of([parts], FILES, root=ROOT).commands_not_known  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "part",
    [
        ran("cat a.py"),
        ran("cat *.py src/*.py"),
        ran("cat b.py", cwd="src"),
        ran("cat /dev/null && echo done"),
        ran("cat a.py", kind="other"),
        ran(None, kind="other", title="mcp__tracker__list"),
        ran(None, kind="edit", title="Edit a.py"),
        ToolCallPart(call_id="r", title="read", tool_kind="read", locations=("a.py",)),
        TextPart(text="cat c.py"),
    ],
)
def test_what_names_all_it_reads_leaves_nothing_open(part):
    assert reading_of([[part]], FILES, root=ROOT) == Reading(files=2)


@pytest.mark.parametrize(
    "part",
    [
        ran("pytest -q"),
        ran("cat c.py"),
        ran("cat b.py"),
        ran("cat *.txt"),
        ran("make", kind="other"),
        ran("rg x", kind="read"),
        ran("rg x", kind="search"),
        ran(None, title="something"),
    ],
)
def test_a_command_of_which_it_is_not_known_what_it_read_is_counted(part):
    found = reading_of([[part]], FILES, root=ROOT)
    assert found == Reading(files=2, commands_not_known=1)


def test_a_cd_holds_for_the_next_command_where_the_agents_shell_keeps_it():
    parts = [ran("cd src"), ran("cat b.py"), ran("cd .. && ls"), ran("cat a.py"), ran("cd /tmp")]
    parts += [ran("cat ./a.py"), ran("cd nowhere"), failed(ran("cd nowhere")), ran("cat a.py ")]
    found = reading_of([parts], FILES, root=ROOT, keeps_directory=True)
    assert found == Reading(files=2)
    assert reading_of([parts], FILES, root=ROOT).commands_not_known == 1
    turns = [[ran("cd src")], [ran("cat a.py")]]
    assert reading_of(turns, FILES, root=ROOT, keeps_directory=True) == Reading(files=2)
    found = examination_of(ran("cat b.py"), root=ROOT, directory=f"{ROOT}/src")
    assert found == Examination(how="shown", paths=("src/b.py",))


@pytest.mark.parametrize(
    ("line", "text", "is_open"),
    [
        ("cat a.py c.py", "y\ncat: c.py: No such file or directory", False),
        ("head 'c.py'", "head: cannot open 'c.py' for reading: No such file or directory", False),
        ("grep -rh x . c.py", "y\ngrep: c.py: No such file or directory", True),
        ("diff -r src lib", "y", True),
    ],
)
def test_a_command_that_failed_showed_nothing_of_a_file_that_is_missing(line, text, is_open):
    part = ran(line)
    assert commands_not_known(part, printed(part, text, "failed")) == is_open


def test_a_reader_that_failed_showed_nothing_and_a_program_that_failed_may_have():
    reader, program = ran("cat c.py"), ran("pytest -q")
    assert commands_not_known(reader, failed(reader), program, failed(program)) == 1


def test_a_search_may_have_read_any_file_and_names_alone_are_none():
    grep = ran(None, kind="search", title="Grep password")
    names = ran(None, kind="search", title="Glob **/*.py")
    gone = ran("x", kind="search", title="grep x")
    untitled = ToolCallPart(call_id="u", title="", tool_kind="search")
    found = reading_of([[grep, names], [untitled]], (), root=ROOT)
    assert found == Reading(files=0, searches_not_known=2)
    assert commands_not_known(gone) == 1
    assert reading_of([[grep, failed(grep)]], (), root=ROOT) == Reading(files=0)


def printed(part: ToolCallPart, text: str, status: str = "completed") -> ToolResultPart:
    return ToolResultPart(call_id=part.call_id, status=status, text=text)


OPENCODE_GREP = f"Found 2 matches\n{ROOT}/a.py:\n  Line 1: /x:\n\n{ROOT}/src/b.py:\n  Line 9: y:"


@pytest.mark.parametrize(
    ("line", "text", "paths"),
    [
        ("rg -n x", "a.py:1:x\nsrc/b.py:9:x: y\n", ("a.py", "src/b.py")),
        ("bash -lc 'git --no-pager grep x | head -5'", "a.py:x", ("a.py",)),
        (
            "cd src && grep -rnE --include=*.py x . 2>/dev/null | sort; true",
            "./b.py:x",
            ("src/b.py",),
        ),
        ("grep -rl x .", "./a.py\n./src/b.py\n", ("a.py", "src/b.py")),
        ("rg nothing", "", ()),
        ("rg nothing", "(no output)", ()),
        ("rg nothing", "(Bash completed with no output)", ()),
        (None, OPENCODE_GREP, ("a.py", "src/b.py")),
        (None, f"{OPENCODE_GREP}\n\n(Results truncated. Be more specific.)", ("a.py", "src/b.py")),
        (None, "No files found", ()),
    ],
)
def test_a_search_tells_by_its_output_whose_lines_it_showed(line, text, paths):
    part = ran(line, kind="search", title="grep")
    found = examination_of(part, root=ROOT, printed=text)
    assert tuple(each for each in (found.paths if found else ()) if each != "src") == paths
    assert reading_of([[part, printed(part, text)]], FILES, root=ROOT) == Reading(files=2)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("rg -n x", "a.py:1:x\ngone.py:1:x"),
        ("rg -n x", "a.py:1:x\n\nb.py"),
        ("rg -n x", f"a.py:1:x\n{'y' * 9_999}"),
        ("rg -C1 x", "a.py:1:x"),
        ("rg --heading x", "a.py:1:x"),
        ("grep -rh x .", "a.py:1:x"),
        ("grep -r x .", "a.py:1:x\nc.py:1:x"),
        ("rg x | cut -c1-4", "a.py"),
        ("rg x; cat $file", "a.py:x"),
        ("rg x; rg y", "a.py:x"),
        ("rg $options x", "a.py:x"),
        ("git log -p", "a.py:x"),
        ("rg x (", "a.py:x"),
        ("ls | xargs cat", ""),
        ("cat $(ls)", "a.py:"),
        ("find . -name '*.py' -exec cat {} +", ""),
        (None, f"{OPENCODE_GREP}\nand more"),
        (None, f"Found 1 matches\n{ROOT}/c.py:\n  Line 1: x"),
    ],
)
def test_a_search_whose_output_may_hold_more_leaves_its_files_open(line, text):
    part = ran(line, kind="search", title="grep")
    assert reading_of([[part, printed(part, text)]], FILES, root=ROOT) == Reading(
        files=2, commands_not_known=bool(line), searches_not_known=not line
    )


def test_a_reading_tool_that_names_no_file_leaves_its_files_open():
    assert commands_not_known(call("read")) == 1


def test_calls_whose_words_were_forgotten_are_told_apart():
    parts = [ErasedPart(kind="tool_call", call_id="c"), ErasedPart(kind="text")]
    assert reading_of([parts], FILES, root=ROOT) == Reading(files=2, calls_not_kept=1)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (Reading(files=0), "no file"),
        (Reading(files=1), "1 file"),
        (Reading(files=2, commands_not_known=2), "2 files; 2 commands whose reading is not known"),
        (
            Reading(files=3, commands_not_known=1, searches_not_known=2, calls_not_kept=1),
            "3 files; 1 command and 2 searches whose reading is not known; 1 call not kept",
        ),
    ],
)
def test_it_is_said_in_words(reading, words):
    assert reading.in_words == words
