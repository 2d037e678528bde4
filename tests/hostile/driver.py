"""Runs verbs, each in a process that is forked from here: milliseconds, not half a second.

A program by itself, `python -I driver.py`: one job a line on standard input, one answer a line on
standard output. What is forked has everything imported and nothing open, so it is what the command
`upthread` is; modules of the clone can only be met by a real start, which other entries make.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from typing import Any, NoReturn

LOOK_S = 0.005
PRELOADED = ("upthread.surfaces.cli", "upthread.client", "upthread.runtime", "upthread.agents")
LEFT_OUT = ("__main__", "procrastinate", "workers", "postgres", "metrics", "mcp_server")


def preload() -> None:
    for name in PRELOADED:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not any(part in found.name for part in LEFT_OUT):
                importlib.import_module(found.name)
    importlib.import_module("upthread.surfaces.cli.program")
    importlib.import_module("upthread.store.sqlite")


def main() -> None:
    preload()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(done(json.loads(line))) + "\n")
        sys.stdout.flush()


def done(job: dict[str, Any]) -> dict[str, Any]:
    """Return how a job ended; `code` is None for one that was ended by a signal."""
    begun_s = time.monotonic()
    pid = os.fork()
    if pid == 0:
        be(job)
    has_hung = False
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begun_s > job["limit_s"] and not has_hung:
            has_hung = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(LOOK_S)
    return {
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "has_hung": has_hung,
        "memory_kib": used.ru_maxrss,
        "wall_s": time.monotonic() - begun_s,
    }


def be(job: dict[str, Any]) -> NoReturn:
    """Become the program, and never come back."""
    code = 70
    try:
        os.setsid()
        os.chdir(job["directory"])
        os.environ.clear()
        os.environ.update(job["environment"])
        sys.argv = ["upthread", *job["words"]]
        for number, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, job["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, job["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.addaudithook(Starts(job["starts"]).hear)
        most = job["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors="surrogateescape")  # noqa: PTH123, SIM115
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        code = WORK[job["work"]](job)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  # what got this far is a breach, and is seen as one
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class Starts:
    """Writes down what is started, and with which PATH; see starts.py."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hear(self, event: str, told: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            program, _, _, environment = told
        elif event in {"os.posix_spawn", "os.exec"}:
            program, _, environment = told
        elif event == "os.system":
            program, environment = told[0], None
        else:
            return
        given = os.environ if environment is None else environment
        path = given.get("PATH") or given.get(b"PATH") or ""
        line = {"program": os.fsdecode(program), "path": os.fsdecode(path)}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def verb(job: dict[str, Any]) -> int:
    from upthread.surfaces.cli.program import main as upthread

    return upthread(job["words"])


def library(job: dict[str, Any]) -> int:
    """What a program does that has the library: read all there is, then tell a role something."""
    import anyio

    from upthread import TellOptions, open_project
    from upthread.errors import UpthreadError

    async def use() -> None:
        async with open_project(".") as project:
            for view in await project.workstreams():
                await project.show(view.workstream.workstream)
                await project.audit(view.workstream.workstream)
            await project.conversation("spec-42/planner")
            await project.resume_command("spec-42/planner")
            options = TellOptions(agent="rehearsal")
            await project.tell("spec-42/planner", "[[rehearse: say hi]]", options)

    try:
        anyio.run(use)
    except UpthreadError as error:
        return error.exit_code
    return 0


WORK = {"verb": verb, "library": library}

if __name__ == "__main__":
    main()
