"""Nothing of a repository is run or contacted, whatever it configures: upthread.boundary.git.

The real git, in the hostile clones whose attack is by git. tests/hostile enters the same clones by
every way in, and shows that a careless git does run their programs.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hostile_clones import CLONES, Canary, make_ordinary_repository
from tests.support.hostile_clones.clone import change_a_file, setting, write
from tests.support.hostile_clones.git_configuration import PROGRAM_KEYS
from tests.support.sets import EXTENDED, spread
from tests.support.world import make_repository

from upthread.errors import UpthreadError
from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.repository import (
    Worktrees,
    default_branch,
    find_repository,
    git_facts,
)

GROUPS = ("git_configuration", "git_layout", "git_transport", "names", "special_files")
GIT_CLONES = [name for name, clone in CLONES.items() if clone.group in GROUPS]
REPRESENTATIVES = (
    *("every_program", "hooks", "clean_filter", "included_configuration", "submodule"),
    *("embedded_bare_repository", "git_file", "missing_tree", "ext_transport"),
    *("waiting_attributes", "endless_git_files", "huge_index", "lying_index"),
)


def read_all(root: Path, home: Path) -> None:
    """Do all that a verb that reads does with a repository; errors are answers."""
    for place in (root, root / "packages" / "app", root / "library"):
        if not place.is_dir():
            continue
        git_facts(place)
        tree_digest(place)
        for ask in (find_repository, default_branch):
            with suppress(UpthreadError):
                ask(place)
        assert Worktrees(place, home / "worktrees").find("other") is None


def make_and_remove_tree(root: Path, home: Path) -> None:
    """Do all that a person's verbs do about working trees."""
    worktrees = Worktrees(root, home / "worktrees")
    with suppress(UpthreadError):
        made = worktrees.ensure("spec-99")
        tree_digest(Path(made.path))
        worktrees.remove("spec-99")


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path / "outside")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    make_ordinary_repository(root)
    change_a_file(root)
    return root


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", spread(GIT_CLONES, first=REPRESENTATIVES, extended=GIT_CLONES[::4])
)
def test_no_verb_runs_what_a_repository_names_or_waits_for_what_lies_there(tmp_path, canary, name):
    clone = CLONES[name]
    clone.build(tmp_path / "clone", canary)
    canary.forget()  # building the clone may run its programs
    root = tmp_path / "clone" / clone.within
    read_all(root, tmp_path)
    assert canary.runs() == (), "a verb that reads ran a program of the clone"
    make_and_remove_tree(root, tmp_path)
    assert canary.runs() == (), "making a working tree ran a program of the clone"


@pytest.mark.soak
def test_what_an_agent_configures_while_we_read_is_not_run(root: Path, canary: Canary) -> None:
    """Filters by names nobody could foresee, in a configuration that changes all the time."""
    program, done = canary.command("rewritten"), threading.Event()

    def rewrite() -> None:
        number = 0
        while not done.is_set():
            number += 1
            write(root / ".gitattributes", f"* filter=f{number}\n")
            clean = setting(f"filter.f{number}.clean", program)
            write(root / ".git" / "config", clean + setting("core.fsmonitor", program))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for number in range(20):
            write(root / "greeter.py", f"{number}\n")
            tree_digest(root)
    finally:
        done.set()
        writer.join()
    assert canary.runs() == ()


@EXTENDED
def test_what_the_environment_says_of_git_is_not_heard(root, canary, tmp_path, monkeypatch):
    before = find_repository(root), git_facts(root), tree_digest(root)
    other = make_repository(tmp_path / "other")
    program, traced = canary.command("environment"), tmp_path / "traced"
    programs = ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER", "EDITOR")
    said = {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git" / "index",
        "GIT_EXEC_PATH": tmp_path,
        "GIT_CONFIG_COUNT": 1,
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={program}'",
        **dict.fromkeys(("GIT_TRACE", "GIT_TRACE2_EVENT"), traced),
        **dict.fromkeys(programs, program),
    }
    for name, value in said.items():
        monkeypatch.setenv(name, str(value))
    assert (find_repository(root), git_facts(root), tree_digest(root)) == before
    assert canary.runs() == ()
    assert not traced.exists()


@EXTENDED
def test_git_is_not_taken_from_the_repository(root, canary, tmp_path, monkeypatch):
    for place in (root, root / "bin"):
        canary.put(place / "git", "git of the clone")
    (tmp_path / "led").symlink_to(root / "bin")
    monkeypatch.setenv("PATH", f":.:bin:{root}/bin:{tmp_path}/led:{os.environ['PATH']}")
    monkeypatch.chdir(root)
    read_all(root, tmp_path)
    make_and_remove_tree(root, tmp_path)
    assert tree_digest(root)
    assert canary.runs() == ()


FILES = """
    .git/config .git/config.worktree .git/info/attributes .git/info/exclude
    .git/info/sparse-checkout .git/objects/info/alternates .git/HEAD .git/commondir .git/gitdir
    .git/packed-refs .git/shallow .git/modules/sub/config .git/worktrees/x/gitdir
    .git/worktrees/x/commondir .git/worktrees/x/HEAD .git/worktrees/x/config.worktree
    .git/hooks/post-checkout .git/hooks/reference-transaction
    .gitattributes .gitmodules .gitignore .gitconfig .lfsconfig
    packages/HEAD packages/config packages/app/.git packages/app/.gitattributes
    sub/.git sub/.git/config git git.py upthread.py subprocess.py sitecustomize.py
""".split()
"""What an agent that may edit writes: files that git, Python and a shell read by themselves."""

KEYS = (*PROGRAM_KEYS, "core.worktree", "core.hookspath", "include.path", "extensions.partialclone")


def contents() -> st.SearchStrategy[str]:
    values = st.sampled_from(
        ["CANARY", "!CANARY", "ext::CANARY", "../more", "true", "app", "origin"]
    )
    section = st.builds(setting, st.sampled_from(KEYS), values)
    attribute = st.sampled_from(
        ["* filter=x diff=x merge=x\n", "* filter=lfs\n", "*.txt filter=y\n"]
    )
    pointer = st.sampled_from(
        ["gitdir: ../../.git\n", "gitdir: ../.git/modules/sub\n", "gitdir: /\n", "../..\n", "..\n"]
    )
    head = st.sampled_from(["ref: refs/heads/main\n", "1" * 40 + "\n", "ref: refs/heads/../../x\n"])
    program = st.just("#!CANARY\nimport os; os.system('CANARY')\n")
    text = st.one_of(section, section, attribute, pointer, head, program, st.text(max_size=20))
    return st.lists(text, min_size=1, max_size=6).map("".join)


@EXTENDED
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(st.tuples(st.sampled_from(FILES), st.booleans(), contents()), max_size=8))
def test_an_agent_that_may_edit_gets_nothing_run_whatever_it_writes(tmp_path_factory, edits):
    directory = tmp_path_factory.mktemp("edited")
    root, canary = directory / "project", Canary(directory / "outside")
    make_ordinary_repository(root)
    program = canary.command("edited")
    for name, is_anew, text in edits:
        path = root / name
        if any(above.is_file() for above in path.parents) or path.is_dir():
            continue  # an edit that fails
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if is_anew else "a", errors="surrogateescape") as file:
            file.write(text.replace("CANARY", program))
    change_a_file(root)
    read_all(root, directory)
    make_and_remove_tree(root, directory)
    assert canary.runs() == ()
