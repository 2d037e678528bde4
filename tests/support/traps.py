"""Repositories that would have git run something, and the canary that must never run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.world import git, make_repository

from upthread.errors import UpthreadError
from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.git_worktrees import Worktrees
from upthread.runtime.working_tree.repository import default_branch, find_repository, git_facts

HOOKS = (
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "post-merge",
    "pre-commit",
    "fsmonitor-watchman",
    "post-rewrite",
)

PROGRAM_KEYS = (
    "alias.config",
    "alias.ls-tree",
    "alias.rev-list",
    "alias.rev-parse",
    "alias.status",
    "browser.x.cmd",
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "difftool.x.cmd",
    "filter.x.clean",
    "filter.x.process",
    "filter.x.smudge",
    "filter.lfs.clean",
    "filter.lfs.process",
    "filter.lfs.smudge",
    "gpg.program",
    "gpg.ssh.defaultkeycommand",
    "gpg.ssh.program",
    "hook.x.command",
    "interactive.difffilter",
    "merge.x.driver",
    "mergetool.x.cmd",
    "pager.ls-tree",
    "pager.status",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "remote.origin.vcs",
    "sendemail.tocmd",
    "sequence.editor",
    "submodule.sub.update",
    "tar.x.command",
    "uploadpack.packobjectshook",
)
"""Settings whose value is, or becomes, a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A repository, and a program that leaves a mark when anybody runs it."""

    root: Path
    canary: Path
    mark: Path

    @property
    def dot_git(self) -> Path:
        return self.root / ".git"

    def configure(self, *pairs: tuple[str, str]) -> None:
        for key, value in pairs:
            git(self.root, "config", "--add", key, value)

    def append(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def is_sprung(self) -> bool:
        return self.mark.exists()


def make_trap(directory: Path) -> Trap:
    """Make a repository with work in it that git has to look into."""
    directory.mkdir(parents=True, exist_ok=True)
    mark, canary = directory / "mark", directory / "canary"
    canary.write_text(f"#!/bin/sh\necho run >> {mark}\ncat\n")
    canary.chmod(0o755)
    root = make_repository(directory / "project")
    (root / "packages" / "app").mkdir(parents=True)
    for name in ("a.txt", "packages/app/b.txt"):
        (root / name).write_text(f"{name}\n")
    (root / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n*.bin filter=lfs\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "more")
    return Trap(root=root, canary=canary, mark=mark)


def change(trap: Trap) -> None:
    """Change files, so that their content has to be looked at, of the same size too."""
    (trap.root / "a.txt").write_text("A.TXT\n")
    (trap.root / "new.txt").write_text("new\n")
    (trap.root / "new.bin").write_text("new\n")
    os.utime(trap.root / "packages" / "app" / "b.txt", (1, 1))


def plant_hooks(trap: Trap, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(trap.canary)


def look(root: Path, home: Path) -> None:
    """Do all that a verb that reads does with a repository; errors are answers."""
    places = [
        root,
        *(place for place in (root / "packages" / "app", root / "sub") if place.is_dir()),
    ]
    for place in places:
        git_facts(place)
        tree_digest(place)
        for ask in (find_repository, default_branch):
            with suppress(UpthreadError):
                ask(place)
        assert Worktrees(place, home / "worktrees").find("other") is None


def work(root: Path, home: Path) -> None:
    """Do all that a person's verbs do about working trees."""
    worktrees = Worktrees(root, home / "worktrees")
    with suppress(UpthreadError):
        made = worktrees.ensure("spec-42")
        tree_digest(Path(made.path))
        worktrees.remove("spec-42")


@contextmanager
def no_child_left() -> Iterator[None]:
    """Fail when a process that was started is still there."""
    yield
    listed = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "git" not in listed.stdout.replace("ps --ppid", "")
