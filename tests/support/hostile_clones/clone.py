"""What a hostile clone is, how one is registered, and the ordinary repository beneath each."""

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.support.hostile_clones.canary import Canary

GIT_TIMEOUT_S = 60
FILES: Mapping[str, str] = {
    "README.md": "# A greeter\n",
    "greeter.py": 'print("hello")\n',
    "docs/spec.md": "# Greeter\n\n- R1 `hello.txt`: it says hello.\n",
    "packages/app/main.py": 'print("app")\n',
    "packages/app/README.md": "# The app\n",
}
"""What is in the ordinary repository; `packages/app` is the folder people work in."""

Builder: TypeAlias = Callable[[Path, Canary], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileClone:
    """A folder as a stranger hands it over. `attacks` says in a line what, and how.

    `careless` are shell lines, each of which sets a canary off there: so it is proved that the
    canary can be run at all. Empty where upthread alone could be made to run one, and where the
    attack is to hang, to grow, to leak or to write elsewhere. `within` is the folder to work in.
    `group` is the module that builds it, for example `roles`.
    """

    name: str
    group: str
    attacks: str
    build: Builder
    careless: tuple[str, ...] = ()
    within: str = ""


_CLONES: dict[str, HostileClone] = {}


def hostile_clone(
    attacks: str, *, careless: tuple[str, ...] = (), within: str = ""
) -> Callable[[Builder], Builder]:
    """Register a builder under its function's name; an ordinary repository is there before it."""

    def register(builder: Builder) -> Builder:
        def build(directory: Path, canary: Canary) -> None:
            if not (directory / ".git").exists():
                make_ordinary_repository(directory)
            builder(directory, canary)

        name = builder.__name__
        assert name not in _CLONES, f"two hostile clones are called {name}"
        _CLONES[name] = HostileClone(
            name=name,
            group=builder.__module__.rpartition(".")[2],
            attacks=attacks,
            build=build,
            careless=careless,
            within=within,
        )
        return builder

    return register


def registered() -> Mapping[str, HostileClone]:
    """Return every clone that was registered, by name."""
    return dict(_CLONES)


def make_ordinary_repository(directory: Path) -> None:
    """Make the repository that a hostile clone is, but for its hostility: two commits, clean."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "commit", "-qm", "begin", "--allow-empty")
    for name, text in FILES.items():
        write(directory / name, text)
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "a greeter")


def git(directory: Path, *words: str, given: bytes = b"") -> str:
    """Run the real git to build with; raises CalledProcessError when it fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ("-c", "user.name=A Stranger", "-c", "user.email=stranger@example.invalid")
    done = subprocess.run(
        ["git", *identity, *words],  # the builder's git, from PATH
        cwd=directory,
        env=environment,
        input=given,
        check=True,
        capture_output=True,
        timeout=GIT_TIMEOUT_S,
    )
    return os.fsdecode(done.stdout).strip()


def configure(directory: Path, text: str) -> None:
    """Add to the repository's own configuration, as an agent that may edit does."""
    with (directory / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(text)


def setting(key: str, value: str) -> str:
    """Return a setting as a configuration has it, for example of `core.fsmonitor`."""
    section, _, rest = key.partition(".")
    middle, dot, name = rest.rpartition(".")
    head = f'[{section} "{middle}"]' if dot else f"[{section}]"
    return f"{head}\n\t{name} = {value}\n"


def write(path: Path, text: str) -> None:
    """Write a file, its folders with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def change_a_file(directory: Path) -> None:
    """Leave work that is not committed: only then git looks at content, through filters."""
    write(directory / "greeter.py", 'print("hello, stranger")\n')


def remove(path: Path) -> None:
    """Take a file or link out of the way of something else."""
    path.unlink(missing_ok=True)
