"""Which repository a directory is in: git's own answer where it may be believed, else a refusal.

upthread.boundary.git.places, pointing, reading and references.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.world import git, make_repository

from upthread.boundary.git.files import named_in
from upthread.boundary.git.places import find_place, is_reference, read_head
from upthread.errors import UpthreadError, UsageError
from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.repository import (
    find_repository,
    git_facts,
    ignored_git_variables,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "project")
    (root / "below").mkdir()
    return root


def told_by_git(where: Path, *arguments: str) -> str:
    return git(where, "rev-parse", *arguments)


@pytest.mark.extended
def test_a_main_tree_a_linked_one_and_a_submodule_are_found_as_git_finds_them(root, tmp_path):
    inner = make_repository(tmp_path / "inner")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(root, "commit", "-qm", "sub")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "topic")
    for where in (root, root / "below", root / "sub", tmp_path / "tree"):
        place = find_place(str(where))
        assert place.top == told_by_git(where, "--show-toplevel")
        assert place.git_directory == told_by_git(where, "--absolute-git-dir")
        common = Path(where, told_by_git(where, "--git-common-dir")).resolve()
        assert place.common_directory == str(common)
        assert read_head(place).commit == told_by_git(where, "HEAD")


def test_a_dot_git_file_to_another_project_does_not_make_a_folder_pass_for_it(root, tmp_path):
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text(f"gitdir: {root}/.git\n")
    with pytest.raises(UsageError, match="does not name this folder") as caught:
        find_repository(stranger)
    assert "core.worktree" in caught.value.hint
    assert "does not name this folder" in git_facts(stranger).fault
    assert tree_digest(stranger) == ""


def test_nor_does_one_to_a_linked_tree_of_it_nor_a_link(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "topic")
    for number, lay in enumerate(
        (
            lambda at: (at / ".git").write_text(f"gitdir: {root}/.git/worktrees/tree\n"),
            lambda at: (at / ".git").symlink_to(root / ".git"),
            lambda at: (at / ".git").symlink_to(root / ".git" / "worktrees" / "tree"),
        )
    ):
        stranger = tmp_path / f"stranger{number}"
        stranger.mkdir()
        lay(stranger)
        with pytest.raises(UsageError):
            find_repository(stranger)


def test_a_git_directory_that_shares_another_ones_is_refused(root: Path, tmp_path: Path) -> None:
    stranger = make_repository(tmp_path / "stranger")
    (stranger / ".git" / "commondir").write_text(f"{root}/.git\n")
    with pytest.raises(UsageError, match="names a repository that does not hold it"):
        find_repository(stranger)


def test_a_git_directory_in_the_folder_under_another_name_is_the_folders_own(root, tmp_path):
    folder = tmp_path / "folder"
    git(tmp_path, "clone", "-q", "--bare", str(root), str(folder / ".bare"))
    (folder / ".git").write_text("gitdir: ./.bare\n")
    git(folder, "worktree", "add", "-q", "one")
    for where in (folder, folder / "one"):
        found = find_repository(where)
        assert found.identity.root_commit == git(root, "rev-parse", "HEAD")
        assert git_facts(where).branch == git(where, "branch", "--show-current")
    (folder / ".bare" / "commondir").write_text(f"{root}/.git\n")
    with pytest.raises(UsageError):
        find_repository(folder)


HARMFUL = "it's; touch harm; $(touch harm) `touch harm`"


@pytest.mark.parametrize("name", ["tree", HARMFUL, "a\ntouch harm\n\x1b[2J"])
def test_a_git_directory_kept_apart_counts_when_it_names_its_tree_by_the_cure(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    tree, apart = tmp_path / name, tmp_path / f"apart {name}".partition("\n")[0]
    subprocess.run(["git", "init", "-q", f"--separate-git-dir={apart}", str(tree)], check=True)
    with pytest.raises(UsageError) as caught:
        find_repository(tree)
    assert caught.value.hint.isprintable(), "one line that does nothing else"
    subprocess.run(["sh", "-c", caught.value.hint.partition("kept apart: ")[2]], check=True)
    assert not (tmp_path / "harm").exists()
    assert not name.isprintable() or find_repository(tree).root == tree


def test_a_linked_tree_that_was_moved_is_refused_with_the_cure(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "topic")
    (tmp_path / "tree").rename(tmp_path / "moved")
    with pytest.raises(UsageError) as caught:
        find_repository(tmp_path / "moved")
    assert "git worktree repair" in caught.value.hint
    git(tmp_path / "moved", "worktree", "repair")
    assert find_repository(tmp_path / "moved").identity == find_repository(root).identity


def test_core_worktree_moves_nothing(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    git(root, "config", "core.worktree", str(tmp_path / "secrets"))
    assert find_repository(root / "below").root == root


def test_a_folder_that_looks_like_a_bare_repository_is_none(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", str(root / "packages"))
    (root / "packages" / "app").mkdir()
    assert find_repository(root / "packages" / "app").root == root
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "bare"))
    assert find_repository(tmp_path / "bare").identity.root_commit is None
    assert git_facts(tmp_path / "bare").repository is None


def test_a_name_with_line_feeds_is_a_name(tmp_path: Path) -> None:
    odd = make_repository(tmp_path / 'a\nb"\\ü')
    assert find_repository(odd).root == odd
    assert git_facts(odd).repository == str(odd)
    (odd / "x\ny").write_text("x")
    assert tree_digest(odd)


def test_the_remote_is_the_plain_value_of_the_repositorys_own_file(root, tmp_path):
    (tmp_path / "more").write_text('[remote "origin"]\nurl = https://evil.invalid/x\n')
    git(root, "config", "remote.origin.url", "git@example.org:a/b.git")
    git(root, "config", "include.path", str(tmp_path / "more"))
    assert find_repository(root).identity.remote == "example.org/a/b"


GIVING = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away takes root")


def give_away(root):
    for path in (root, *root.rglob("*")):
        os.chown(path, 12345, 12345)


@GIVING
def test_a_repository_of_another_user_is_refused_until_the_person_trusts_it(tmp_path, monkeypatch):
    root = make_repository(tmp_path / "some $(body)'s")
    trusted = find_repository(root)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    give_away(root)
    with pytest.raises(UsageError, match="dubious ownership") as caught:
        find_repository(root)
    assert "dubious ownership" in git_facts(root).fault
    cure = caught.value.hint.rpartition(": ")[2]
    subprocess.run(["sh", "-c", cure], check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert find_repository(root) == trusted
    (tmp_path / ".gitconfig").write_text("[safe]\ndirectory = *\ndirectory =\n")
    with pytest.raises(UsageError, match="dubious ownership"):
        find_repository(root)
    (tmp_path / ".gitconfig").write_text("")
    git(tmp_path, "config", "--file", str(root / ".git" / "config"), "safe.directory", "*")
    with pytest.raises(UsageError, match="dubious ownership"):
        find_repository(root)


@GIVING
@pytest.mark.parametrize("way", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "COUNT", "a link"])
def test_a_persons_trust_counts_as_git_finds_it_in_the_environment(tmp_path, monkeypatch, way):
    root = make_repository(tmp_path / "theirs")
    give_away(root)
    (tmp_path / "link").symlink_to(root)
    for name, value in {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "0"}.items():
        monkeypatch.setenv(name, value)
    for name in ("SUDO_UID", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    if way.startswith("GIT_"):
        (tmp_path / "ci.config").write_text(f"[safe]\ndirectory = {root}\n")
        monkeypatch.setenv(way, str(tmp_path / "ci.config"))
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
        trusted = tmp_path / "link" if way == "a link" else root
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(trusted))
    if way == "a link":
        with pytest.raises(UsageError, match="dubious ownership"):
            find_repository(root)
    else:
        assert git(root, "rev-parse", "--show-toplevel") == str(root), "the oracle"
        assert find_repository(root).root == root


@GIVING
@pytest.mark.parametrize("number", ["0", "1"])
@pytest.mark.parametrize("persons", ["/dev/null", "{}/none/own"])
def test_the_cure_helps_also_where_the_persons_file_cannot_be_written(
    tmp_path, monkeypatch, persons, number
):
    root = make_repository(tmp_path / "their own")
    give_away(root)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", persons.format(tmp_path))
    for name, value in {"COUNT": number, "KEY_0": "user.name", "VALUE_0": "Vera"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    with pytest.raises(UsageError) as caught:
        find_repository(root)
    export, *given = shlex.split(caught.value.hint.rpartition(": ")[2])
    assert export == "export"
    for each in given:
        monkeypatch.setenv(*each.split("=", 1))
    assert git(root, "rev-parse", "--show-toplevel") == str(root), "the oracle"
    assert find_repository(root).root == root


@GIVING
@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}//", "{}/*", "{}/../*", "/*", "/", "*", "/x"])
def test_a_spelling_of_trust_counts_where_the_installed_git_takes_it(
    tmp_path, monkeypatch, spelling
):
    root = make_repository(tmp_path / "theirs")
    give_away(root)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "own"))
    git(tmp_path, "config", "--file", "own", "safe.directory", spelling.format(root))
    asked = ["git", "-C", str(root), "rev-parse"]
    is_taken = subprocess.run(asked, capture_output=True, check=False).returncode == 0
    assert is_taken != bool(git_facts(root).fault)


@GIVING
@pytest.mark.parametrize("is_within", [False, True])
def test_a_bare_repository_of_another_user_is_refused_until_trusted(
    tmp_path, monkeypatch, is_within
):
    root = make_repository(tmp_path / "own")
    bare = (root if is_within else tmp_path) / "bare.git"
    git(root, "clone", "--bare", str(root), str(bare))
    assert git_facts(bare).repository == (str(root) if is_within else None)
    os.chown(bare, 12345, 12345)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "own.config"))
    with pytest.raises(UsageError, match="dubious ownership") as caught:
        find_repository(bare / "refs")
    subprocess.run(["sh", "-c", caught.value.hint.rpartition(": ")[2]], check=True)
    assert git(bare, "rev-parse", "--git-dir"), "the oracle"
    assert not git_facts(bare / "refs").fault


@pytest.mark.parametrize(
    ("below", "named", "said"),
    [
        ("own", {"GIT_DIR": ".git"}, ""),
        ("own", {"GIT_DIR": "{}/own/.git", "GIT_WORK_TREE": "{}/own"}, ""),
        ("own/x", {"GIT_DIR": "../.git", "GIT_COMMON_DIR": "{}/own/.git"}, ""),
        ("own", {"GIT_DIR": "{}/other/.git"}, "GIT_DIR ignored"),
        ("own", {"GIT_WORK_TREE": "{}"}, "GIT_WORK_TREE ignored"),
        ("", {"GIT_DIR": "{}/own/.git"}, "in no repository"),
        ("own/x", {"GIT_CEILING_DIRECTORIES": "/a:{}/own"}, "GIT_CEILING_DIRECTORIES ignored"),
        ("own/x", {"GIT_CEILING_DIRECTORIES": "{}:{}/own/x"}, ""),
    ],
)
def test_variables_by_which_git_sees_another_repository_are_named(tmp_path, below, named, said):
    (make_repository(tmp_path / "own") / "x").mkdir()
    make_repository(tmp_path / "other")
    environment = {name: value.format(tmp_path, tmp_path) for name, value in named.items()}
    notice = ignored_git_variables(tmp_path / below, environment)
    assert said in notice
    assert bool(said) == bool(notice)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def a_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def to_a_folder(path: Path) -> None:
    path.symlink_to("/etc")


def to_nowhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def nothing(path: Path) -> None:
    path.write_text("")


def of_no_reference(path: Path) -> None:
    path.write_text("ref: nothing\n")


def out_of_the_references(path: Path) -> None:
    path.write_text("ref: refs/heads/../../x\n")


def of_a_pipe(path: Path) -> None:
    path.write_text("ref: refs/heads/pipe/main\n")
    os.mkfifo(path.parent / "refs" / "heads" / "pipe")


def of_what_is_gone(path: Path) -> None:
    path.write_text("gitdir: /nowhere/at/all\n")


def not_there(path: Path) -> None:
    assert not path.exists()


ANY = (fifo, endless, huge, a_link, a_loop, to_a_folder, to_nowhere, nothing)
NOT_READ = (
    *[("HEAD", lay) for lay in (*ANY, a_folder, not_there)],
    *[("HEAD", lay) for lay in (of_no_reference, out_of_the_references, of_a_pipe)],
    *[("refs/heads/main", lay) for lay in ANY],
    *[("refs/heads", lay) for lay in (fifo, endless, a_link, a_loop, to_nowhere)],
)


def refused_for_good(asked: Path) -> None:
    for where in (asked, asked / "below"):
        with pytest.raises(UpthreadError) as caught:
            find_repository(where)
        assert caught.value.exit_code == 1
        assert ".git" in caught.value.message
        assert caught.value.hint
        assert git_facts(where).fault
        assert git_facts(where).commit is None
        assert tree_digest(where) == ""


@pytest.mark.parametrize(
    ("name", "lay"), NOT_READ, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_repository_of_which_head_cannot_be_read_is_never_taken_for_another_project(
    root: Path, name: str, lay: Callable[[Path], None]
) -> None:
    path = root / ".git" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    lay(path)
    refused_for_good(root)


@pytest.mark.parametrize("lay", [*ANY, of_what_is_gone], ids=lambda lay: lay.__name__)
def test_a_dot_git_that_leads_to_no_repository_is_not_passed_by(root, tmp_path, lay):
    (root / ".git").rename(tmp_path / "away")
    lay(root / ".git")
    refused_for_good(root)


def test_a_folder_that_no_repository_was_in_is_passed_by(root: Path) -> None:
    """What a sandbox leaves that keeps agents out of `.git`: git passes it by, too."""
    (root / "below" / ".git").mkdir()
    assert find_repository(root / "below").root == root
    (root / "below" / ".git" / "hooks").mkdir()
    assert find_repository(root / "below").root == root


def test_a_file_that_is_no_pointer_names_no_git_directory(root: Path) -> None:
    assert named_in(str(root / "README")) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("refs/heads/main", True),
        ("refs/heads/a/b-c.d", True),
        ("main", False),
        ("refs/heads/../../x", False),
        ("refs/heads/a b", False),
        ("refs/heads/a\nb", False),
        ("refs/heads/.a", False),
        ("refs/heads/a.lock", False),
        ("refs/heads/", False),
        ("refs//a", False),
    ],
)
def test_a_reference_is_a_name_git_takes(name: str, expected: bool) -> None:
    found = subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0
    assert is_reference(name) is expected
    assert found or not expected


def test_a_packed_reference_is_found(root: Path) -> None:
    before = git_facts(root)
    git(root, "pack-refs", "--all")
    assert not (root / ".git" / "refs" / "heads" / "main").exists()
    assert git_facts(root) == before


def test_head_that_leads_in_a_circle_is_a_fault(root: Path) -> None:
    (root / ".git" / "refs" / "heads" / "main").write_text("ref: refs/heads/main\n")
    assert "circle" in git_facts(root).fault
