"""Runs a command with nothing around it: loopback only, a /tmp of its own, a HOME that is watched.

    python tools/enclosed.py COMMAND WORD…

The command gets namespaces of its own for network and mounts, where the machine allows them: no
address but loopback's can be reached, and what stands in /tmp at the end was left there by the
command. Its HOME is a decoy full of what agents and tools look for, and every opening of any of it
is seen. Ends with the command's exit code, or with 1 where it was good and something was opened or
left. Where the machine does not allow it, that is said, and the command runs with an empty HOME.

Standard library only: `unshare` and `ip` need not be installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TMP = Path("/tmp")  # programs that write there do not ask where it is

DECOYS = (
    *(".bashrc", ".gitconfig", ".netrc", ".npmrc", ".profile"),
    *(".claude.json", ".claude/settings.json", ".claude/projects/x/x.jsonl"),
    *(".codex/config.toml", ".codex/sessions/x.jsonl", ".gemini/settings.json"),
    *(".config/opencode/opencode.json", ".config/upthread/config.toml"),
    *(".local/share/opencode/opencode.db", ".local/share/upthread/upthread.db"),
    *(".local/state/x", ".cache/x"),
)
"""What agents and their tools read in a HOME: they would find it, and be seen."""

HOME = "home"
"""Where in /tmp the decoy is."""

SWITCH = "--within"
"""How this file calls itself, to be the process that enters the namespaces."""

MAY_STAY = ("pytest-of-", "cc-socks-", "codex-daemon-")
"""How names begin that may stay in /tmp: pytest keeps its last runs to be looked at; Claude Code
has its sockets there, a directory for each user, where its TMPDIR is too long a path for one; Codex
(0.169) makes an empty one for each user, for the socket of a daemon that it need not have."""

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_IN_OPEN, _IN_CHANGED = 0x20, 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


def main(command: list[str]) -> int:
    """Run the command and say what it opened and left; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="enclosed-") as directory:
        tmp = Path(directory, "tmp")
        _make_tmp(tmp)
        _make_decoy(tmp / HOME)
        if reason := _reason_against(tmp):
            print(f"--- NOT ENCLOSED, this machine does not allow it: {reason}", flush=True)
            return subprocess.run(command, env=_at_home(tmp / HOME), check=False).returncode
        watch, outside = Watch(tmp / HOME), Watch(Path(directory), is_deep=False)
        words = _entering(tmp, command)
        done = subprocess.run(words, env=_at_home(TMP / HOME), check=False)
        opened, left = watch.seen(), sorted(_left_in(tmp))
        if "." in outside.seen():
            # The command cannot see this directory: somebody else on the machine walked through it.
            opened = [name for name in opened if not (tmp / HOME / name).is_dir()]
            print("--- HOME: opened from outside too, so its directories are not counted")
        print("--- network: loopback only")
        print(f"--- HOME, {len(DECOYS)} decoys: opened {', '.join(opened) or 'nothing'}")
        print(f"--- /tmp: left {', '.join(left) or 'nothing'}", flush=True)
        return done.returncode or int(bool(opened or left))


def _at_home(home: Path) -> dict[str, str]:
    """Our environment with that HOME, and without other places to look or write in."""
    others = ("XDG_", "TMPDIR", "TEMP", "TMP")
    environment = {name: v for name, v in os.environ.items() if not name.startswith(others)}
    return {**environment, "HOME": str(home)}


def _entering(tmp: Path, command: list[str]) -> list[str]:
    return [sys.executable, __file__, SWITCH, str(tmp), *command]


def _make_decoy(home: Path) -> None:
    for each in DECOYS:
        (home / each).parent.mkdir(parents=True, exist_ok=True)
        (home / each).touch()


class Watch:
    """Sees every opening, making, changing and removing below a directory, through inotify.

    Without `is_deep` only openings of the directory itself and of what is directly in it.
    """

    def __init__(self, top: Path, *, is_deep: bool = True) -> None:
        self._top = top
        self._inotify = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        below = [path for path in top.rglob("*") if path.is_dir()] if is_deep else []
        self._paths = {
            _checked(
                _libc.inotify_add_watch(self._inotify, os.fsencode(path), _IN_OPEN | _IN_CHANGED)
            ): path
            for path in (top, *below)
        }

    def seen(self) -> list[str]:
        """Return what was opened or changed since, each once, relative to the top."""
        names: set[str] = set()
        while select.select([self._inotify], [], [], 0)[0]:
            events = os.read(self._inotify, 65536)
            while events:
                descriptor, _, _, length = _EVENT.unpack_from(events)
                name = events[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
                events = events[_EVENT.size + length :]
                # An overflow of the queue has no descriptor: too much was opened to be told.
                path = self._paths.get(descriptor, self._top / "too much to tell") / name
                names.add(str(path.relative_to(self._top)))
        return sorted(names)


def _make_tmp(tmp: Path) -> None:
    tmp.mkdir()
    tmp.chmod(0o1777)
    if REPOSITORY.is_relative_to(TMP):
        (tmp / REPOSITORY.relative_to(TMP)).mkdir(parents=True)


def _left_in(tmp: Path) -> set[str]:
    ours = REPOSITORY.relative_to(TMP).parts[:1] if REPOSITORY.is_relative_to(TMP) else ()
    names = {path.name for path in tmp.iterdir()} - {HOME, *ours}
    return {name for name in names if not name.startswith(MAY_STAY)}


def _reason_against(tmp: Path) -> str:
    """Try it in a process of its own; returns why it cannot be done, empty where it can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    words = _entering(tmp, [shutil.which("true") or "true"])
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip().splitlines()[-1]


# --- in the process that becomes the command -------------------------------------------------


def enter(tmp: str) -> None:
    """Enter the namespaces: loopback up, `tmp` mounted as /tmp with the repository still there.

    Whoever started this process sees none of its mounts, so that what is removed out there is never
    the repository.
    """
    user, group = os.getuid(), os.getgid()
    is_root = os.geteuid() == 0
    wanted = _CLONE_NEWNET | _CLONE_NEWNS | (0 if is_root else _CLONE_NEWUSER)
    _checked(_libc.unshare(wanted))
    if not is_root:  # what only root may is allowed in a user namespace, where we stay who we are
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _bring_up("lo")
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    if REPOSITORY.is_relative_to(TMP):
        _mount(str(REPOSITORY), str(Path(tmp, REPOSITORY.relative_to(TMP))), _MS_BIND | _MS_REC)
    here = Path.cwd()
    _mount(tmp, str(TMP), _MS_BIND | _MS_REC)
    with contextlib.suppress(FileNotFoundError):
        os.chdir(here)  # a directory below /tmp is another one now


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sh14x", interface.encode(), 0)
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, asked)
        (flags,) = struct.unpack_from("h", answer, 16)
        fcntl.ioctl(
            control, _SIOCSIFFLAGS, struct.pack("16sh14x", interface.encode(), flags | _IFF_UP)
        )


def _mount(source: str, target: str, flags: int) -> None:
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None))


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


if __name__ == "__main__":
    if sys.argv[1:2] == [SWITCH]:
        enter(sys.argv[2])
        os.execvp(sys.argv[3], sys.argv[3:])  # a list, never a shell line
    sys.exit(main(sys.argv[1:]))
