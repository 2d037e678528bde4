"""Nothing of a repository is run or contacted, whatever it configures: upthread.boundary.git.

The real git and a real canary. Each of these repositories has git run it, or did when this was
written: the ones that plain `git status`, `log` and `worktree add` fall for are seen to do so.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.traps import PROGRAM_KEYS, Trap, change, look, make_trap, plant_hooks, work
from tests.support.world import git, make_repository

from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.repository import find_repository, git_facts

Lay = Callable[[Trap], None]


def lay_every_program(trap: Trap) -> None:
    trap.configure(*((key, str(trap.canary)) for key in PROGRAM_KEYS if key != "remote.origin.vcs"))
    trap.configure(("hook.x.event", "post-checkout"), ("core.usebuiltinfsmonitor", "true"))


def lay_shell_commands(trap: Trap) -> None:
    trap.configure(
        *((key, f"!{trap.canary}") for key in PROGRAM_KEYS if key != "remote.origin.vcs")
    )


def lay_clean_filter(trap: Trap) -> None:
    trap.configure(("filter.x.clean", str(trap.canary)), ("filter.x.required", "true"))


def lay_process_filter(trap: Trap) -> None:
    trap.configure(("filter.x.process", str(trap.canary)))


def lay_smudge_filter(trap: Trap) -> None:
    trap.configure(("filter.x.smudge", str(trap.canary)))


def lay_lfs(trap: Trap) -> None:
    trap.configure(("filter.lfs.clean", str(trap.canary)), ("filter.lfs.process", str(trap.canary)))


def lay_filter_in_info_attributes(trap: Trap) -> None:
    (trap.root / ".gitattributes").write_text("")
    trap.append(".git/info/attributes", "* filter=x\n")
    lay_clean_filter(trap)


def lay_fsmonitor(trap: Trap) -> None:
    trap.configure(("core.fsmonitor", str(trap.canary)))


def lay_hooks(trap: Trap) -> None:
    plant_hooks(trap, trap.dot_git / "hooks")


def lay_hooks_path(trap: Trap) -> None:
    plant_hooks(trap, trap.root / "hooks")
    trap.configure(("core.hooksPath", "hooks"))


def lay_external_diff(trap: Trap) -> None:
    trap.configure(("diff.external", str(trap.canary)), ("diff.x.textconv", str(trap.canary)))


def lay_include(trap: Trap) -> None:
    (trap.root / "more").write_text(
        f'[core]\nfsmonitor = {trap.canary}\n[filter "x"]\nclean={trap.canary}'
    )
    trap.configure(("include.path", "../more"))


def lay_include_if(trap: Trap) -> None:
    (trap.root / "more").write_text(f"[core]\nfsmonitor = {trap.canary}\n")
    trap.configure(
        ("includeIf.gitdir:**.path", "../more"), ("includeIf.onbranch:main.path", "../more")
    )


def lay_worktree_configuration(trap: Trap) -> None:
    (trap.dot_git / "config.worktree").write_text(f"[core]\nfsmonitor = {trap.canary}\n")
    trap.configure(("core.repositoryformatversion", "1"), ("extensions.worktreeConfig", "true"))


def _lose_the_commits(trap: Trap, *pairs: tuple[str, str]) -> None:
    trap.configure(
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("protocol.ext.allow", "always"),
        ("protocol.file.allow", "always"),
        *pairs,
    )
    git(trap.root, "config", "core.repositoryformatversion", "1")
    (trap.dot_git / "refs" / "heads" / "main").write_text(f"{'1' * 40}\n")


def lay_missing_commit_over_ssh(trap: Trap) -> None:
    url = ("remote.origin.url", "ssh://nowhere.invalid/x")
    _lose_the_commits(trap, url, ("core.sshCommand", str(trap.canary)))


def lay_missing_commit_over_ext(trap: Trap) -> None:
    _lose_the_commits(trap, ("remote.origin.url", f"ext::{trap.canary}"))


def lay_missing_commit_over_uploadpack(trap: Trap) -> None:
    url = ("remote.origin.url", str(make_repository(trap.root.parent / "origin")))
    _lose_the_commits(trap, url, ("remote.origin.uploadpack", str(trap.canary)))


def lay_missing_objects(trap: Trap) -> None:
    lost = [git(trap.root, "rev-parse", name) for name in ("HEAD^{tree}", "HEAD:a.txt", "HEAD^")]
    commit = git(trap.root, "rev-parse", "HEAD")
    _lose_the_commits(trap, ("remote.origin.url", f"ext::{trap.canary}"))
    (trap.dot_git / "refs" / "heads" / "main").write_text(f"{commit}\n")
    for found in lost:
        (trap.dot_git / "objects" / found[:2] / found[2:]).unlink()


def lay_embedded_bare(trap: Trap) -> None:
    """A folder that a clone brings along, and git takes for the repository its `app` is in."""
    bare = trap.root / "packages"
    (bare / "objects").mkdir()
    (bare / "refs" / "heads").mkdir(parents=True)
    (bare / "HEAD").write_text(f"{'1' * 40}\n")
    (bare / "config").write_text(
        "[core]\nrepositoryformatversion = 1\nworktree = app\nbare = false\n"
        f"fsmonitor = {trap.canary}\nsshCommand = {trap.canary}\n[extensions]\n"
        'partialClone = origin\n[remote "origin"]\npromisor = true\nurl = ssh://nowhere.invalid/x\n'
    )


def lay_submodule(trap: Trap) -> None:
    inner = make_trap(trap.root.parent / "inner")
    git(
        trap.root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(inner.root),
        "sub",
    )
    git(trap.root, "commit", "-qm", "with a submodule")
    git(trap.root / "sub", "config", "core.fsmonitor", str(trap.canary))
    git(trap.root / "sub", "config", "filter.x.clean", str(trap.canary))
    (trap.root / "sub" / "a.txt").write_text("CHANGE\n")


def lay_submodule_update(trap: Trap) -> None:
    lay_submodule(trap)
    trap.configure(("submodule.sub.update", f"!{trap.canary}"), ("submodule.recurse", "true"))
    trap.append(".gitmodules", f'[submodule "sub"]\n\tupdate = !{trap.canary}\n\tignore = none\n')


def lay_nested_repository(trap: Trap) -> None:
    inner = make_repository(trap.root / "within")
    git(inner, "config", "core.fsmonitor", str(trap.canary))
    git(inner, "config", "filter.x.clean", str(trap.canary))
    (inner / ".gitattributes").write_text("* filter=x\n")
    (inner / "README").write_text("changed")


def lay_dot_git_to_elsewhere(trap: Trap) -> None:
    other = make_trap(trap.root.parent / "other")
    lay_fsmonitor(Trap(root=other.root, canary=trap.canary, mark=trap.mark))
    (trap.root / "packages" / "app" / ".git").write_text(f"gitdir: {other.dot_git}\n")


def lay_alternates_and_trace(trap: Trap) -> None:
    trap.append(".git/objects/info/alternates", f"{trap.root.parent}/nowhere\n")
    trap.configure(("trace2.eventTarget", str(trap.mark)), ("trace2.normalTarget", str(trap.mark)))


def lay_core_worktree(trap: Trap) -> None:
    trap.configure(("core.worktree", str(trap.root / "packages")))
    lay_fsmonitor(trap)


TRAPS = [value for name, value in sorted(globals().items()) if name.startswith("lay_")]


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return make_trap(tmp_path)


@pytest.mark.parametrize("lay", TRAPS, ids=lambda lay: lay.__name__)
def test_no_verb_runs_what_a_repository_names(trap: Trap, tmp_path: Path, lay: Lay) -> None:
    lay(trap)
    trap.mark.unlink(missing_ok=True)  # what laying it did is not ours
    change(trap)
    began_s = time.monotonic()
    look(trap.root, tmp_path)
    assert not trap.is_sprung(), "a verb that reads ran it"
    work(trap.root, tmp_path)
    assert not trap.is_sprung(), "a working tree of its own ran it"
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize(
    "lay", [lay_clean_filter, lay_fsmonitor, lay_process_filter, lay_submodule]
)
def test_these_traps_do_catch_git_itself(trap: Trap, lay: Lay) -> None:
    """So that a canary which stays quiet says something."""
    lay(trap)
    trap.mark.unlink(missing_ok=True)
    change(trap)
    subprocess.run(["git", "status"], cwd=trap.root, capture_output=True, check=False)
    assert trap.is_sprung()


@pytest.mark.parametrize("lay", [lay_hooks, lay_hooks_path, lay_smudge_filter])
def test_these_traps_do_catch_a_working_tree_that_git_adds(trap: Trap, lay: Lay) -> None:
    lay(trap)
    trap.mark.unlink(missing_ok=True)
    subprocess.run(
        ["git", "worktree", "add", "../tree"], cwd=trap.root, capture_output=True, check=False
    )
    assert trap.is_sprung()


def test_what_an_agent_configures_while_we_look_is_not_run(trap: Trap) -> None:
    """Filters by names nobody could foresee, in a configuration that changes all the time."""
    done = threading.Event()

    def rewrite() -> None:
        number = 0
        while not done.is_set():
            number += 1
            name = f"f{number}"
            (trap.root / ".gitattributes").write_text(f"* filter={name}\n")
            (trap.dot_git / "config").write_text(
                f'[filter "{name}"]\n\tclean = {trap.canary}\n[core]\n\tfsmonitor = {trap.canary}\n'
            )

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for number in range(20):
            (trap.root / "a.txt").write_text(f"{number}\n")
            tree_digest(trap.root)
    finally:
        done.set()
        writer.join()
    assert not trap.is_sprung()


def test_what_the_environment_says_of_git_is_not_heard(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_repository(trap.root), git_facts(trap.root), tree_digest(trap.root)
    other = make_repository(tmp_path / "other")
    said = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap.canary),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap.canary}'",
        "GIT_EXTERNAL_DIFF": str(trap.canary),
        "GIT_SSH_COMMAND": str(trap.canary),
        "GIT_TRACE": str(trap.mark),
        "GIT_TRACE2_EVENT": str(trap.mark),
        "GIT_PAGER": str(trap.canary),
        "PAGER": str(trap.canary),
        "EDITOR": str(trap.canary),
    }
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert (find_repository(trap.root), git_facts(trap.root), tree_digest(trap.root)) == before
    assert not trap.is_sprung()


def test_git_is_not_taken_from_the_repository(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trap.root / "bin").mkdir()
    for place in (trap.root, trap.root / "bin"):
        (place / "git").symlink_to(trap.canary)
    (tmp_path / "led").symlink_to(trap.root / "bin")
    monkeypatch.setenv("PATH", f":.:bin:{trap.root}/bin:{tmp_path}/led:{os.environ['PATH']}")
    monkeypatch.chdir(trap.root)
    look(trap.root, tmp_path)
    work(trap.root, tmp_path)
    assert tree_digest(trap.root)
    assert not trap.is_sprung()


FILES = (
    ".git/config",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/info/sparse-checkout",
    ".git/objects/info/alternates",
    ".git/HEAD",
    ".git/commondir",
    ".git/gitdir",
    ".git/packed-refs",
    ".git/shallow",
    ".git/modules/sub/config",
    ".git/worktrees/x/gitdir",
    ".git/worktrees/x/commondir",
    ".git/worktrees/x/HEAD",
    ".git/worktrees/x/config.worktree",
    ".git/hooks/post-checkout",
    ".git/hooks/reference-transaction",
    ".gitattributes",
    ".gitmodules",
    ".gitignore",
    ".gitconfig",
    ".lfsconfig",
    "packages/HEAD",
    "packages/config",
    "packages/app/.git",
    "packages/app/.gitattributes",
    "sub/.git",
    "sub/.git/config",
    "git",
    "git.py",
    "upthread.py",
    "subprocess.py",
    "sitecustomize.py",
)
"""What an agent that may edit writes: files that git, Python and a shell read by themselves."""

KEYS = (*PROGRAM_KEYS, "core.worktree", "core.hookspath", "include.path", "extensions.partialclone")


def _section(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    sub, dot, name = rest.rpartition(".")
    head = f'[{section} "{sub}"]' if dot else f"[{section}]"
    return f"{head}\n\t{name} = {value}\n"


def contents() -> st.SearchStrategy[str]:
    values = st.sampled_from(
        ["CANARY", "!CANARY", "ext::CANARY", "../more", "true", "app", "origin"]
    )
    section = st.builds(_section, st.sampled_from(KEYS), values)
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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(st.tuples(st.sampled_from(FILES), st.booleans(), contents()), max_size=8))
def test_an_agent_that_may_edit_gets_nothing_run_whatever_it_writes(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, bool, str]]
) -> None:
    directory = tmp_path_factory.mktemp("edited")
    trap = make_trap(directory)
    for name, is_anew, text in edits:
        path = trap.root / name
        if any(above.is_file() for above in path.parents) or path.is_dir():
            continue  # an edit that fails
        if is_anew and path.exists():
            path.write_text("")
        trap.append(name, text.replace("CANARY", str(trap.canary)))
    change(trap)
    look(trap.root, directory)
    work(trap.root, directory)
    assert not trap.is_sprung()
