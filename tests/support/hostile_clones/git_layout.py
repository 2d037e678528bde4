"""Clones in which a repository is not where, or not what, it seems to be."""

import shutil
from pathlib import Path

from tests.support.hostile_clones.canary import Canary
from tests.support.hostile_clones.clone import configure, git, hostile_clone, write

STATUS = "git status"


def _hostile_configuration(program: str, *, worktree: str = "", is_bare: bool = False) -> str:
    worktree_line = f"\tworktree = {worktree}\n" if worktree else ""
    return (
        f"[core]\n\trepositoryformatversion = 0\n\tbare = {str(is_bare).lower()}\n{worktree_line}"
        f'\tfsmonitor = "{program}"\n\tsshCommand = "{program}"\n\thooksPath = "{program}"\n'
        f'[filter "x"]\n\tclean = "{program}"\n'
    )


def _take_repository_to(directory: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    (directory / ".git").rename(place)


@hostile_clone(
    "a folder shaped as a bare repository, whose configuration names the folder beside it",
    careless=(STATUS,),
    within="packages/app",
)
def embedded_bare_repository(directory: Path, canary: Canary) -> None:
    packages = directory / "packages"
    for folder in ("objects/info", "refs/heads"):
        (packages / folder).mkdir(parents=True)
    write(packages / "HEAD", "ref: refs/heads/main\n")
    program = canary.command("embedded_bare_repository")
    write(packages / "config", _hostile_configuration(program, worktree="app"))


@hostile_clone(
    "the same, as a partial clone that fetches",
    careless=("git rev-list HEAD",),
    within="packages/app",
)
def embedded_partial_clone(directory: Path, canary: Canary) -> None:
    packages = directory / "packages"
    for folder in ("objects/info", "refs/heads"):
        (packages / folder).mkdir(parents=True)
    write(packages / "HEAD", "ref: refs/heads/main\n")
    write(packages / "refs" / "heads" / "main", "1" * 40 + "\n")
    program = canary.command("embedded_partial_clone")
    write(
        packages / "config",
        "[core]\n\trepositoryformatversion = 1\n\tworktree = app\n"
        f'\tsshCommand = "{program}"\n[extensions]\n\tpartialClone = origin\n'
        '[remote "origin"]\n\turl = ssh://example.invalid/x\n\tpromisor = true\n',
    )


@hostile_clone("the root itself is shaped as a bare repository, without .git", careless=(STATUS,))
def bare_repository_in_the_root(directory: Path, canary: Canary) -> None:
    for each in (directory / ".git").iterdir():
        shutil.move(each, directory / each.name)
    (directory / ".git").rmdir()
    program = canary.command("bare_repository_in_the_root")
    write(directory / "config", _hostile_configuration(program, worktree="packages"))


@hostile_clone("a .git file leads to a folder of the tree", careless=(STATUS,))
def git_file(directory: Path, canary: Canary) -> None:
    _take_repository_to(directory, directory / "assets" / "store")
    program = canary.command("git_file")
    write(directory / "assets" / "store" / "config", _hostile_configuration(program))
    write(directory / ".git", "gitdir: assets/store\n")


@hostile_clone("a .git link leads to a folder of the tree", careless=(STATUS,))
def git_link(directory: Path, canary: Canary) -> None:
    _take_repository_to(directory, directory / "assets" / "store")
    program = canary.command("git_link")
    write(directory / "assets" / "store" / "config", _hostile_configuration(program))
    (directory / ".git").symlink_to("assets/store")


@hostile_clone("a .git file leads to a repository of the person's own")
def git_file_of_the_person(directory: Path, canary: Canary) -> None:
    _take_repository_to(directory, canary.victim / ".git")
    write(directory / ".git", f"gitdir: {canary.victim / '.git'}\n")


@hostile_clone("a .git file whose content is no path")
def git_file_of_nonsense(directory: Path, canary: Canary) -> None:
    _take_repository_to(directory, directory / "assets" / "store")
    program = canary.command("git_file_of_nonsense")
    write(directory / ".git", f"gitdir: --upload-pack={program}\ngitdir: assets/store\n" * 4000)


@hostile_clone(
    "a folder of the tree has a .git of its own", careless=(STATUS,), within="packages/app"
)
def repository_in_a_folder(directory: Path, canary: Canary) -> None:
    app = directory / "packages" / "app"
    git(app, "init", "-q", "-b", "main")
    git(app, "commit", "-qm", "begin", "--allow-empty")
    write(
        app / ".git" / "config",
        _hostile_configuration(canary.command("repository_in_a_folder"), worktree=".."),
    )


@hostile_clone("a linked worktree, whose repository lies in the tree", careless=(STATUS,))
def linked_worktree(directory: Path, canary: Canary) -> None:
    main = directory / "assets" / "main"
    _take_repository_to(directory, main / ".git")
    known = main / ".git" / "worktrees" / "x"
    known.mkdir(parents=True)
    write(known / "commondir", "../..\n")
    write(known / "gitdir", f"{directory / '.git'}\n")
    write(known / "HEAD", "ref: refs/heads/main\n")
    shutil.copy(main / ".git" / "index", known / "index")
    write(directory / ".git", "gitdir: assets/main/.git/worktrees/x\n")
    with (main / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "{canary.command("linked_worktree")}"\n')


@hostile_clone("the repository names worktrees at places of the person's")
def worktrees_of_the_person(directory: Path, canary: Canary) -> None:
    for number, branch in enumerate(("upthread/spec-42", "upthread/spec-9", "main")):
        known = directory / ".git" / "worktrees" / f"x{number}"
        known.mkdir(parents=True)
        write(known / "commondir", "../..\n")
        write(known / "gitdir", f"{canary.victim}{number or ''}/.git\n")
        write(known / "HEAD", f"ref: refs/heads/{branch}\n")


@hostile_clone(
    "a workstream's worktree that git knows is hostile itself", careless=("git -C w status",)
)
def worktree_of_a_workstream(directory: Path, canary: Canary) -> None:
    git(directory, "worktree", "add", "-qb", "upthread/spec-42", "w")
    program = canary.command("worktree_of_a_workstream")
    configure(directory, "[core]\n\trepositoryformatversion = 1\n")
    configure(directory, "[extensions]\n\tworktreeConfig = true\n")
    for known in (directory / ".git" / "worktrees").iterdir():
        write(
            known / "config.worktree",
            f'[core]\n\tfsmonitor = "{program}"\n[filter "x"]\n\tclean = "{program}"\n',
        )
    write(directory / "w" / ".gitattributes", "* filter=x\n")
    write(directory / "w" / "greeter.py", "print('other')\n")


@hostile_clone(".git/commondir leads to another folder's configuration", careless=(STATUS,))
def common_directory(directory: Path, canary: Canary) -> None:
    store = directory / "assets" / "store"
    shutil.copytree(directory / ".git", store)
    write(store / "config", _hostile_configuration(canary.command("common_directory")))
    write(directory / ".git" / "commondir", "../assets/store\n")


@hostile_clone("alternates lead out of the tree, to loops and to what is no folder")
def alternates(directory: Path, canary: Canary) -> None:
    lines = (str(canary.victim), "/proc/self/fd", "../../.git/objects", "/dev/zero", "-rf", "\n")
    write(directory / ".git" / "objects" / "info" / "alternates", "\n".join(lines * 50))


@hostile_clone("the alternate has alternates of its own, for ever")
def alternates_in_a_ring(directory: Path, canary: Canary) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        write(directory / "assets" / name / "info" / "alternates", f"{directory}/assets/{other}\n")
    write(directory / ".git" / "objects" / "info" / "alternates", f"{directory}/assets/a\n")


@hostile_clone("two repositories in one another, each the other's working tree", careless=(STATUS,))
def repositories_in_one_another(directory: Path, canary: Canary) -> None:
    inner = directory / "packages"
    git(inner, "init", "-q", "-b", "main")
    program = canary.command("repositories_in_one_another")
    with (inner / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tworktree = ../..\n\tfsmonitor = "{program}"\n')
    configure(directory, f'[core]\n\tworktree = ../packages\n\tfsmonitor = "{program}"\n')


@hostile_clone("the repository is of a format that nobody knows")
def unknown_format(directory: Path, canary: Canary) -> None:
    configure(directory, "[core]\n\trepositoryformatversion = 99\n[extensions]\n\tevil = true\n")


@hostile_clone("replacements and grafts give every commit another parent")
def replaced_history(directory: Path, canary: Canary) -> None:
    head, first = (git(directory, "rev-parse", each) for each in ("HEAD", "HEAD~1"))
    write(directory / ".git" / "refs" / "replace" / first, f"{head}\n")
    write(directory / ".git" / "info" / "grafts", f"{first} {head}\n")
    write(directory / ".git" / "shallow", f"{head}\n")
