"""Clones in which a file that is read is a FIFO, a device, a link in a ring, huge, or damaged.

Of git's own first, then specifications, transcripts and what sessions have examined.
"""

import os
import stat
from pathlib import Path

from tests.support.hostile_clones.canary import Canary
from tests.support.hostile_clones.clone import configure, git, hostile_clone, remove, write

SPARSE_BYTES = 4 * 1024 * 1024 * 1024
LARGE_BYTES = 64 * 1024 * 1024
ZERO_DEVICE = (1, 5)


def _fifo(path: Path) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def _link(path: Path, target: str) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@hostile_clone(".git/HEAD is a FIFO")
def waiting_head(directory: Path, canary: Canary) -> None:
    _fifo(directory / ".git" / "HEAD")


@hostile_clone(".git/config is a FIFO")
def waiting_git_configuration(directory: Path, canary: Canary) -> None:
    _fifo(directory / ".git" / "config")


@hostile_clone(".git/index is a FIFO")
def waiting_index(directory: Path, canary: Canary) -> None:
    _fifo(directory / ".git" / "index")


@hostile_clone(".git/packed-refs and the branch are FIFOs")
def waiting_references(directory: Path, canary: Canary) -> None:
    _fifo(directory / ".git" / "packed-refs")
    _fifo(directory / ".git" / "refs" / "heads" / "main")


@hostile_clone(".git itself is a FIFO")
def waiting_git_file(directory: Path, canary: Canary) -> None:
    (directory / ".git").rename(directory / "git-that-was")
    os.mkfifo(directory / ".git")


@hostile_clone("FIFOs where git reads attributes, ignored names, modules and alternates")
def waiting_attributes(directory: Path, canary: Canary) -> None:
    for name in (".gitattributes", ".gitignore", ".gitmodules", ".mailmap"):
        _fifo(directory / name)
    for name in ("info/attributes", "info/exclude", "objects/info/alternates", "info/grafts"):
        _fifo(directory / ".git" / name)


@hostile_clone(".git/config includes a FIFO and /dev/zero")
def waiting_included(directory: Path, canary: Canary) -> None:
    _fifo(directory / "docs" / "style.ini")
    configure(directory, "[include]\n\tpath = ../docs/style.ini\n\tpath = /dev/zero\n")


@hostile_clone(".git/HEAD, the index and packed-refs are links to /dev/zero")
def endless_git_files(directory: Path, canary: Canary) -> None:
    for name in ("HEAD", "index", "packed-refs"):
        _link(directory / ".git" / name, "/dev/zero")


@hostile_clone(".git/config is a link to /dev/zero")
def endless_git_configuration(directory: Path, canary: Canary) -> None:
    _link(directory / ".git" / "config", "/dev/zero")


@hostile_clone(".git is a link to itself, and so are folders of the tree")
def links_in_a_ring(directory: Path, canary: Canary) -> None:
    (directory / ".git").rename(directory / "git-that-was")
    (directory / ".git").symlink_to(".git")
    (directory / "ring").symlink_to(".")
    (directory / "packages" / "app" / "up").symlink_to("../..")


@hostile_clone("HEAD names itself, and branches name one another")
def references_in_a_ring(directory: Path, canary: Canary) -> None:
    heads = directory / ".git" / "refs" / "heads"
    write(directory / ".git" / "HEAD", "ref: refs/heads/a\n")
    write(heads / "a", "ref: refs/heads/b\n")
    write(heads / "b", "ref: refs/heads/a\n")
    _link(heads / "main", "main")


@hostile_clone("an index of 4 GiB")
def huge_index(directory: Path, canary: Canary) -> None:
    with (directory / ".git" / "index").open("r+b") as file:
        file.truncate(SPARSE_BYTES)


@hostile_clone(".git/config of 64 MiB and HEAD of 64 MiB")
def huge_git_configuration(directory: Path, canary: Canary) -> None:
    configure(directory, "[x]\n" + "\ty = z\n" * (LARGE_BYTES // 7))
    with (directory / ".git" / "HEAD").open("r+b") as file:
        file.truncate(LARGE_BYTES)


@hostile_clone("files of 4 GiB in the tree, not committed")
def huge_files(directory: Path, canary: Canary) -> None:
    for name in ("greeter.py", "new.bin"):
        with (directory / name).open("r+b" if (directory / name).exists() else "wb") as file:
            file.truncate(SPARSE_BYTES)


@hostile_clone("every loose object is a FIFO")
def waiting_objects(directory: Path, canary: Canary) -> None:
    for loose in (directory / ".git" / "objects").glob("??/*"):
        loose.unlink()
        os.mkfifo(loose)


@hostile_clone("index, objects and HEAD are nonsense")
def damaged_repository(directory: Path, canary: Canary) -> None:
    head = git(directory, "rev-parse", "HEAD")
    loose = directory / ".git" / "objects" / head[:2] / head[2:]
    loose.chmod(0o600)
    loose.write_bytes(b"nonsense")
    (directory / ".git" / "index").write_bytes(b"DIRC" + b"\xff" * 4096)
    (directory / ".git" / "refs" / "heads" / "other").write_bytes(b"\0\xff\n" * 100)


@hostile_clone("an index that claims four billion entries, all of one path")
def lying_index(directory: Path, canary: Canary) -> None:
    raw = bytearray((directory / ".git" / "index").read_bytes())
    raw[8:12] = b"\xff\xff\xff\xff"
    (directory / ".git" / "index").write_bytes(raw)


@hostile_clone(".git has folders where files should be, and an empty one beside")
def folders_for_files(directory: Path, canary: Canary) -> None:
    for name in ("HEAD", "config", "index"):
        remove(directory / ".git" / name)
        (directory / ".git" / name).mkdir()
    (directory / "packages" / "app" / ".git").mkdir()


@hostile_clone("tracked files became FIFOs, links out, loops and /dev/zero")
def files_that_became_others(directory: Path, canary: Canary) -> None:
    _fifo(directory / "greeter.py")
    _link(directory / "README.md", "/dev/zero")
    _link(directory / "packages" / "app" / "main.py", str(canary.secret_file))
    _link(directory / "packages" / "app" / "README.md", "README.md")
    _fifo(directory / "new-file")


@hostile_clone("specifications are links to the person's file, /dev/zero, a FIFO and 4 GiB")
def specifications(directory: Path, canary: Canary) -> None:
    _link(directory / "docs" / "spec.md", str(canary.secret_file))
    _link(directory / "docs" / "endless.md", "/dev/zero")
    _fifo(directory / "docs" / "waiting.md")
    with (directory / "docs" / "huge.md").open("wb") as file:
        file.truncate(SPARSE_BYTES)


@hostile_clone("a transcript and examined files that a hook is told of never end")
def transcripts(directory: Path, canary: Canary) -> None:
    _fifo(directory / "transcript.jsonl")
    _link(directory / "transcript" / "subagents" / "agent-child1.jsonl", "/dev/zero")
    _fifo(directory / "transcript" / "subagents" / "agent-child2.jsonl")
    _link(directory / "examined.txt", "/dev/zero")
    _fifo(directory / "waiting.txt")


@hostile_clone("devices where files are read; only root can make them")
def devices(directory: Path, canary: Canary) -> None:
    folder = directory / ".claude" / "agents"
    folder.mkdir(parents=True)
    for path in (folder / "planner.md", directory / "upthread.toml", directory / ".gitattributes"):
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*ZERO_DEVICE))
        except PermissionError:
            _link(path, "/dev/zero")
