"""Clones whose git configuration, attributes or hooks name a program.

As an unpacked archive with its `.git`, or after an agent that may edit and not execute.
"""

from pathlib import Path

from tests.support.hostile_clones.canary import Canary
from tests.support.hostile_clones.clone import (
    change_a_file,
    configure,
    git,
    hostile_clone,
    setting,
    write,
)

HOOKS = (
    *("post-checkout", "post-commit", "post-index-change", "post-merge", "post-rewrite"),
    *("pre-auto-gc", "pre-commit", "prepare-commit-msg", "commit-msg", "pre-merge-commit"),
    *("reference-transaction", "fsmonitor-watchman", "push-to-checkout", "pre-push"),
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
    "sendemail.tocmd",
    "sequence.editor",
    "submodule.sub.update",
    "tar.x.command",
    "uploadpack.packobjectshook",
)
"""Settings whose value is, or becomes, a command."""
STATUS = "git status"
CHECKOUT = "git worktree add ../careless"


@hostile_clone("every setting that may hold a command names a program", careless=(STATUS,))
def every_program(directory: Path, canary: Canary) -> None:
    program = canary.command("every_program")
    for key in PROGRAM_KEYS:
        configure(directory, setting(key, f"!{program}") + setting(key, program))
    configure(directory, '[hook "x"]\n\tevent = post-checkout\n')
    write(directory / ".gitattributes", "*.py filter=x diff=x merge=x\n*.md filter=lfs\n")
    change_a_file(directory)


@hostile_clone("core.fsmonitor names a program that `git status` runs", careless=(STATUS,))
def fsmonitor(directory: Path, canary: Canary) -> None:
    configure(directory, f'[core]\n\tfsmonitor = "{canary.command("fsmonitor")}"\n')


@hostile_clone("the same, in the configuration of a worktree", careless=(STATUS,))
def fsmonitor_of_a_worktree(directory: Path, canary: Canary) -> None:
    configure(directory, "[core]\n\trepositoryformatversion = 1\n")
    configure(directory, "[extensions]\n\tworktreeConfig = true\n")
    program = canary.command("fsmonitor_of_a_worktree")
    write(directory / ".git" / "config.worktree", f'[core]\n\tfsmonitor = "{program}"\n')


@hostile_clone("core.hooksPath leads to hooks in the tree", careless=(CHECKOUT,))
def hooks_path(directory: Path, canary: Canary) -> None:
    for hook in HOOKS:
        canary.put(directory / ".husky" / hook, "hooks_path")
    configure(directory, f'[core]\n\thooksPath = "{directory / ".husky"}"\n')


@hostile_clone("every hook is there, in .git/hooks", careless=(CHECKOUT,))
def hooks(directory: Path, canary: Canary) -> None:
    for hook in HOOKS:
        canary.put(directory / ".git" / "hooks" / hook, "hooks")


@hostile_clone("a clean and a smudge filter for all files", careless=(STATUS, CHECKOUT))
def clean_filter(directory: Path, canary: Canary) -> None:
    program = canary.command("clean_filter")
    configure(directory, f'[filter "x"]\n\tclean = "{program}"\n\tsmudge = "{program}"\n')
    for place in (directory / ".gitattributes", directory / ".git" / "info" / "attributes"):
        write(place, "* filter=x\n")
    change_a_file(directory)


@hostile_clone("a filter process, by .git/info/attributes", careless=(STATUS,))
def process_filter(directory: Path, canary: Canary) -> None:
    program = canary.command("process_filter")
    configure(directory, f'[filter "x"]\n\tprocess = "{program}"\n\trequired = true\n')
    write(directory / ".git" / "info" / "attributes", "* filter=x\n")
    change_a_file(directory)


@hostile_clone("core.attributesFile names attributes beside the tree's", careless=(STATUS,))
def attributes_file(directory: Path, canary: Canary) -> None:
    program = canary.command("attributes_file")
    place = directory / "docs" / "attributes"
    configure(directory, f'[filter "x"]\n\tclean = "{program}"\n')
    configure(directory, f'[core]\n\tattributesFile = "{place}"\n')
    write(place, "* filter=x\n")
    change_a_file(directory)


@hostile_clone("filters of Git LFS that are not Git LFS", careless=(STATUS,))
def large_file_storage(directory: Path, canary: Canary) -> None:
    program = canary.command("large_file_storage")
    names = "".join(f'\t{name} = "{program}"\n' for name in ("clean", "smudge", "process"))
    configure(directory, f'[filter "lfs"]\n{names}\trequired = true\n')
    write(directory / ".lfsconfig", f'[lfs]\n\turl = "ext::{program}"\n')
    write(directory / ".gitattributes", "*.py filter=lfs diff=lfs merge=lfs -text\n")
    change_a_file(directory)


@hostile_clone("include.path leads to configuration in the tree", careless=(STATUS,))
def included_configuration(directory: Path, canary: Canary) -> None:
    program = canary.command("included_configuration")
    write(directory / "docs" / "style.ini", f'[core]\n\tfsmonitor = "{program}"\n')
    configure(directory, "[include]\n\tpath = ../docs/style.ini\n")


@hostile_clone("includeIf, by folder and by branch", careless=(STATUS,))
def configuration_included_where(directory: Path, canary: Canary) -> None:
    program = canary.command("configuration_included_where")
    write(directory / "docs" / "style.ini", f'[core]\n\tfsmonitor = "{program}"\n')
    for condition in ("gitdir:**", "onbranch:main"):
        configure(directory, f'[includeIf "{condition}"]\n\tpath = ../docs/style.ini\n')


@hostile_clone(
    "a submodule with a program to update it, and its own configuration",
    careless=("git -C library status",),
)
def submodule(directory: Path, canary: Canary) -> None:
    library = directory / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-qm", "begin", "--allow-empty")
    git(directory, "add", "library")
    write(
        directory / ".gitmodules",
        '[submodule "library"]\n\tpath = library\n\turl = ./library\n',
    )
    git(directory, "add", ".gitmodules")
    git(directory, "commit", "-qm", "a library")
    program = canary.command("submodule")
    configure(
        directory, f'[submodule "library"]\n\tupdate = "!{program}"\n\turl = "ext::{program}"\n'
    )
    modules = directory / ".git" / "modules" / "library"
    modules.parent.mkdir(parents=True)
    (library / ".git").rename(modules)
    write(library / ".git", "gitdir: ../.git/modules/library\n")
    with (modules / "config").open("a") as config:
        config.write(f'[core]\n\tworktree = ../../../library\n\tfsmonitor = "{program}"\n')


@hostile_clone("a filter in the configuration of a submodule", careless=(STATUS,))
def submodule_with_a_filter(directory: Path, canary: Canary) -> None:
    library = directory / "library"
    library.mkdir()
    write(library / "a.txt", "one\n")
    git(library, "init", "-q", "-b", "main")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "begin")
    git(directory, "add", "library")
    git(directory, "commit", "-qm", "a library")
    write(library / ".gitattributes", "* filter=x\n")
    write(library / "a.txt", "two\n")
    configure(library, f'[filter "x"]\n\tclean = "{canary.command("submodule_with_a_filter")}"\n')


@hostile_clone(
    "a repository within, which nobody has committed", careless=("git -C vendor status",)
)
def nested_repository(directory: Path, canary: Canary) -> None:
    vendor = directory / "vendor"
    vendor.mkdir()
    write(vendor / "a.txt", "one\n")
    git(vendor, "init", "-q", "-b", "main")
    git(vendor, "add", "-A")
    git(vendor, "commit", "-qm", "begin")
    program = canary.command("nested_repository")
    configure(vendor, f'[core]\n\tfsmonitor = "{program}"\n[filter "x"]\n\tclean = "{program}"\n')
    write(vendor / ".gitattributes", "* filter=x\n")
    write(vendor / "a.txt", "two\n")


@hostile_clone("core.worktree makes a directory of the person's the working tree")
def worktree_elsewhere(directory: Path, canary: Canary) -> None:
    configure(directory, f'[core]\n\tworktree = "{canary.victim}"\n')


@hostile_clone(
    "git is told to look after itself, by a hook and a schedule", careless=("git gc --auto",)
)
def maintenance(directory: Path, canary: Canary) -> None:
    for hook in ("pre-auto-gc", "post-index-change", "reference-transaction"):
        canary.put(directory / ".git" / "hooks" / hook, "maintenance")
    configure(directory, "[gc]\n\tauto = 1\n\tautoDetach = false\n[maintenance]\n\tauto = true\n")
    for number in range(300):
        write(directory / ".git" / "objects" / "17" / f"{number:038x}", "")
