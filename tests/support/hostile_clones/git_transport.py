"""Clones in which an object is missing, so that git fetches it: by a program of the clone's.

A partial clone is one line of configuration; git then asks its remote for what is not there, in
any verb that comes across it.
"""

from pathlib import Path

from tests.support.hostile_clones.canary import Canary
from tests.support.hostile_clones.clone import configure, git, hostile_clone, remove

LOOK = "git rev-list --max-parents=0 HEAD"


def _without(directory: Path, revision: str) -> None:
    """Take one object out of the repository, and what would do in its place."""
    commit = git(directory, "rev-parse", revision)
    remove(directory / ".git" / "objects" / commit[:2] / commit[2:])
    remove(directory / ".git" / "objects" / "info" / "commit-graph")


def _partial(directory: Path, remote: str) -> None:
    configure(directory, "[core]\n\trepositoryformatversion = 1\n")
    configure(directory, '[extensions]\n\tpartialClone = origin\n[remote "origin"]\n')
    configure(directory, f"{remote}\tpromisor = true\n\tpartialclonefilter = tree:0\n")
    configure(directory, "\tfetch = +refs/heads/*:refs/remotes/origin/*\n")


def _over_ssh(directory: Path, program: str, *, missing: str) -> None:
    _partial(directory, "\turl = ssh://example.invalid/x.git\n")
    configure(directory, f'[core]\n\tsshCommand = "{program}"\n')
    _without(directory, missing)


@hostile_clone("core.sshCommand, in a partial clone without its first commit", careless=(LOOK,))
def ssh_command(directory: Path, canary: Canary) -> None:
    _over_ssh(directory, canary.command("ssh_command"), missing="HEAD~1")


@hostile_clone("an ext:: transport, in a partial clone without its first commit", careless=(LOOK,))
def ext_transport(directory: Path, canary: Canary) -> None:
    _partial(directory, f"\turl = ext::{canary.command('ext_transport')}\n")
    configure(directory, "[protocol]\n\tallow = always\n")
    configure(directory, '[protocol "ext"]\n\tallow = always\n')
    _without(directory, "HEAD~1")


@hostile_clone("uploadpack, in a partial clone without its first commit", careless=(LOOK,))
def upload_pack(directory: Path, canary: Canary) -> None:
    program = canary.command("upload_pack")
    _partial(directory, f'\turl = "{canary.victim}"\n\tuploadpack = "{program}"\n')
    _without(directory, "HEAD~1")


@hostile_clone("the commit that HEAD names is missing", careless=("git log -1",))
def missing_commit(directory: Path, canary: Canary) -> None:
    _over_ssh(directory, canary.command("missing_commit"), missing="HEAD")


@hostile_clone("the tree of HEAD is missing", careless=("git ls-tree -r HEAD",))
def missing_tree(directory: Path, canary: Canary) -> None:
    _over_ssh(directory, canary.command("missing_tree"), missing="HEAD^{tree}")


@hostile_clone("a blob is missing, and the file was changed", careless=("git diff",))
def missing_blob(directory: Path, canary: Canary) -> None:
    _over_ssh(directory, canary.command("missing_blob"), missing="HEAD:greeter.py")
    (directory / "greeter.py").write_text("print('other')\n")


@hostile_clone("url.*.insteadOf turns a harmless remote into ext::", careless=(LOOK,))
def rewritten_remote(directory: Path, canary: Canary) -> None:
    program = canary.command("rewritten_remote")
    _partial(directory, "\turl = https://example.invalid/x.git\n")
    configure(directory, f'[url "ext::{program} "]\n\tinsteadOf = https://example.invalid/\n')
    configure(directory, '[protocol "ext"]\n\tallow = always\n')
    _without(directory, "HEAD~1")


@hostile_clone("a remote helper of the clone's own name", careless=(f"PATH=$PWD/bin:$PATH {LOOK}",))
def remote_helper(directory: Path, canary: Canary) -> None:
    canary.put(directory / "bin" / "git-remote-stranger", "remote_helper")
    _partial(directory, "\turl = stranger::x\n")
    configure(directory, "[protocol]\n\tallow = always\n")
    _without(directory, "HEAD~1")


@hostile_clone("the remote is called by an option's name")
def remote_named_as_an_option(directory: Path, canary: Canary) -> None:
    program = canary.command("remote_named_as_an_option")
    configure(directory, f'[remote "origin"]\n\turl = "--upload-pack={program}"\n')
    configure(
        directory, f'[remote "--upload-pack={program}"]\n\turl = "-oProxyCommand={program}"\n'
    )
