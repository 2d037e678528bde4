"""Files of others: whatever a name leads to, it is an ordinary file, or refused at once."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from upthread.boundary import files
from upthread.boundary.files import FileRefusedError, written_by_others

LIMIT = 1000
CONTENT = b"You are the planner.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository, with a secret beside it."""
    inside = tmp_path / "clone"
    (inside / "agents").mkdir(parents=True)
    (inside / "agents" / "planner.md").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(b"the secret\n")
    return inside


def read(tree: Path, path: str) -> bytes:
    return files.read_all(files.within(str(tree), path), path, bytes_max=LIMIT)


def why_not(open_it: Callable[[], object]) -> str:
    with pytest.raises(OSError, match=r".") as caught:
        open_it()
    return str(caught.value.strerror)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- what is allowed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".claude/agents", "../agents"),
        (".claude", "."),
        (".claude/agents", "../x/../agents"),
        (".claude/agents", "{tree}/agents"),
    ],
)
def test_a_link_within_the_tree_counts_for_what_it_leads_to(tree, link, target):
    (tree / "x").mkdir()
    place = tree / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(target.format(tree=tree))
    with no_descriptor_left():
        assert read(tree, f"{'.claude/agents'}/planner.md") == CONTENT
        assert files.names_within(str(tree), ".claude/agents", names_max=9) == ["planner.md"]


def test_the_tree_itself_may_be_reached_through_a_link_and_without_a_right_to_list_it(tree):
    (tree.parent / "way").symlink_to(tree)
    tree.chmod(0o711)
    assert read(tree.parent / "way", "agents/planner.md") == CONTENT


# --- what is not --------------------------------------------------------------------------------


def leading_out(tree: Path) -> dict[str, str]:
    return {
        "agents/env.md": "/proc/self/environ",
        "agents/shadow.md": "/etc/shadow",
        "agents/secret.md": "../../secret",
        "agents/zero.md": "/dev/zero",
        "agents/tty.md": "/dev/tty",
        "agents/root.md": "/proc/self/root/etc/passwd",
        "agents/cwd.md": "/proc/self/cwd",
        "agents/back.md": f"../../{tree.name}x/../{tree.name}/agents/planner.md",
        "agents/beside.md": f"{tree}x/planner.md",
    }


@pytest.mark.parametrize("name", leading_out(Path("clone")))
def test_a_link_that_leads_out_of_the_tree_is_refused_without_a_look_there(tree, name):
    (tree / name).symlink_to(leading_out(tree)[name])
    with no_descriptor_left():
        assert "leads out of" in why_not(lambda: read(tree, name))


def test_a_folder_on_the_way_that_leads_out_is_refused_for_each_file_and_for_its_names(tree):
    (tree / ".claude").symlink_to("..")
    (tree / ".codex").symlink_to("/etc")
    with no_descriptor_left():
        assert "leads out of" in why_not(lambda: read(tree, ".claude/secret"))
        assert "leads out of" in why_not(lambda: read(tree, ".codex/hostname"))
        assert "leads out of" in why_not(
            lambda: files.names_within(str(tree), ".claude", names_max=9)
        )


def test_links_that_go_round_are_refused(tree):
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    (tree / "deep").symlink_to("deep/deep")
    for each in ("a", "deep"):
        assert "circle" in why_not(lambda each=each: read(tree, each))


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's whole path may be too long for one
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("make", [make_fifo, make_socket, Path.mkdir])
def test_what_is_no_ordinary_file_is_refused_at_once_in_each_way_of_opening(tree, make):
    path = tree / "thing"
    make(path)
    (tree / "link").symlink_to("thing")
    with no_descriptor_left():
        for open_it in (
            lambda: read(tree, "thing"),
            lambda: read(tree, "link"),
            lambda: files.direct(str(path)),
            lambda: files.through_links(str(tree / "link")),
            lambda: files.read_start(str(path), 10),
        ):
            assert "no ordinary file" in why_not(open_it)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx"])
def test_a_device_is_refused_whatever_way_it_is_named(tree, device):
    (tree.parent / "link").symlink_to(device)
    for open_it in (
        lambda: files.direct(device),
        lambda: files.through_links(str(tree.parent / "link")),
        lambda: files.streamed(device),
    ):
        assert "device" in why_not(open_it)


def test_a_link_is_refused_where_a_name_has_to_be_the_file_itself(tree):
    (tree / "link").symlink_to("agents/planner.md")
    assert why_not(lambda: files.direct(str(tree / "link"))).startswith("it is a link")
    assert files.read_start(str(tree / "link"), 3) == CONTENT[:3]


# --- how much -----------------------------------------------------------------------------------


def test_no_more_is_read_than_was_allowed(tree):
    (tree / "exact").write_bytes(b"x" * LIMIT)
    (tree / "over").write_bytes(b"x" * (LIMIT + 1))
    with (tree / "sparse").open("wb") as file:
        file.truncate(2**40)
    assert len(read(tree, "exact")) == LIMIT
    with no_descriptor_left():
        for each in ("over", "sparse"):
            assert f"more than {LIMIT} bytes" in why_not(lambda each=each: read(tree, each))


def test_no_more_names_are_listed_than_were_allowed(tree):
    for number in range(20):
        (tree / "agents" / f"{number}.md").touch()
    assert len(files.names_within(str(tree), "agents", names_max=21)) == 21
    with no_descriptor_left():
        assert "more than 20 names" in why_not(
            lambda: files.names_within(str(tree), "agents", names_max=20)
        )


def test_an_error_says_which_file_why_and_what_helps(tree):
    (tree / "agents" / "out.md").symlink_to("/etc/passwd")
    with pytest.raises(FileRefusedError) as caught:
        read(tree, "agents/out.md")
    assert caught.value.filename == str(tree / "agents" / "out.md")
    assert caught.value.strerror == f"a link leads out of {tree}"
    assert caught.value.cure == "put the file itself there, or remove the link"


def test_what_is_not_there_is_said_in_the_systems_words(tree):
    for path in ("none", "none/at/all", "agents/planner.md/none"):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            read(tree, path)
    with pytest.raises(FileNotFoundError):
        files.direct(str(tree / "none"))


# --- while somebody changes it ------------------------------------------------------------------


@pytest.mark.extended
def test_a_name_that_changes_while_it_is_opened_never_leads_out(tree):
    """A thousand openings while a file and a folder on the way become links, and files again."""
    (tree / "real").mkdir()
    (tree / "real" / "secret").write_bytes(CONTENT)
    stopped = threading.Event()

    def swap() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            for target in ("real", ".."):
                beside = tree / f"link{number}{len(target)}"
                beside.symlink_to(target)
                beside.replace(tree / "folder")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        while not (tree / "folder").is_symlink():
            time.sleep(0.001)
        seen = set()
        with no_descriptor_left():
            for _ in range(1000):
                try:
                    seen.add(read(tree, "folder/secret"))
                except OSError as error:
                    seen.add(type(error).__name__.encode())
    finally:
        stopped.set()
        thread.join()
    assert seen <= {CONTENT, b"FileRefusedError", b"FileNotFoundError"}
    assert {CONTENT, b"FileRefusedError"} <= seen


@pytest.mark.parametrize(
    ("place", "is_outside"),
    [
        ("a.txt", False),
        ("below/../a.txt", False),
        ("{tree}/a.txt", False),
        ("{tree}", False),
        ("..", True),
        ("{tree}-other/a.txt", True),
        ("~/.bashrc", True),
        ("/etc/passwd", True),
        (".GIT/config", True),
        ("below/.git", True),
        (".gitignore", False),
        ("a\0b", True),
    ],
)
def test_what_is_beyond_a_tree(tmp_path: Path, place: str, *, is_outside: bool) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    assert files.is_beyond(str(tree), place.format(tree=tree)) is is_outside


# --- who else may write what runs: each way it can be open to somebody is told --------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "inner" / "file").write_text("x")
    (home / "inner" / "file").chmod(0o600)
    return home


def test_a_persons_own_file_is_written_by_nobody_else(home):
    assert written_by_others(home / "inner" / "file", within=home) == ""
    assert written_by_others(home / "inner" / "not yet", within=home) == ""


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("place", ["inner/file", "inner", "."])
def test_each_place_others_may_write_is_named(home, place, mode):
    (home / place).chmod((home / place).stat().st_mode | mode)
    told = written_by_others(home / "inner" / "file", within=home)
    assert told == f"{home / place} can be written by others"


def test_above_the_home_only_what_anybody_may_replace_is_named(home):
    above = home.parent
    above.chmod(0o770)
    assert written_by_others(home / "inner" / "file", within=home) == ""
    above.chmod(0o777)
    assert written_by_others(home / "inner" / "file", within=home)
    above.chmod(0o1777)
    assert written_by_others(home / "inner" / "file", within=home) == "", "as /tmp is"
    above.chmod(0o700)


def test_a_link_in_the_files_place_is_named(home):
    (home / "inner" / "link").symlink_to(home / "inner" / "file")
    assert "symlink" in written_by_others(home / "inner" / "link", within=home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_named(home):
    os.chown(home / "inner" / "file", 65534, 65534)
    assert "belongs to user 65534" in written_by_others(home / "inner" / "file", within=home)


def test_what_has_changed_is_told_by_its_path(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_text("one")
    stamps = {str(path): files.stamp_of(str(path)) for path in paths}
    assert files.changed_since(stamps) == ""
    paths[1].write_text("it was not there")
    assert files.changed_since(stamps) == str(paths[1])
