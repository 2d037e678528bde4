"""Runs verbs, each in a process that is forked from one that has everything imported.

A forked process is what the command `upthread` is. Modules of the clone can only be met by a real
start, which other entries make. What a verb started is written down, whatever it is called: no
decoy has to bear its name to be missed by.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.support.warm_process import CONTEXT

ADDRESSES_BYTES_MAX = 3 * 1024 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Job:
    """A verb, or a use of the library where there are no words. Its output goes into `folder`."""

    words: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    folder: str


def run_job(job: Job, limit_s: float) -> tuple[int | None, bool]:
    """Return the exit code of a job, None for a signal, and whether the job was ended for time."""
    process = CONTEXT.Process(target=be, args=(job,))
    process.start()
    process.join(limit_s)
    has_hung = process.exitcode is None
    if has_hung:
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    code = process.exitcode
    process.close()
    return (code if code is not None and code >= 0 else None), has_hung


def be(job: Job) -> NoReturn:
    """Become the program, and never come back."""
    code = 70
    try:
        os.setsid()
        os.chdir(job.directory)
        os.environ.clear()
        os.environ.update(job.environment)
        sys.argv = ["upthread", *job.words]
        written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, f"{job.folder}/stdout", written),
            (2, f"{job.folder}/stderr", written),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.addaudithook(Starts(f"{job.folder}/starts").hear)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_BYTES_MAX, ADDRESSES_BYTES_MAX))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors="surrogateescape")  # noqa: PTH123, SIM115
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        code = verb(job) if job.words else library()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  # what got this far is a breach, and is seen as one
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        used_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(os.open(f"{job.folder}/memory", os.O_WRONLY | os.O_CREAT), b"%d" % used_kib)
        os._exit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One program that was started: by what name, and with which PATH."""

    program: str
    path: str


def starts_in(file: Path) -> tuple[Start, ...]:
    """Return what the driver has written down."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return tuple(Start(**json.loads(line)) for line in lines)


def looked_up(starts: Sequence[Start], clone: Path) -> Iterator[str]:
    """Say what was looked up in a clone or by a name, or was given a PATH that leads there."""
    for start in starts:
        program = Path(start.program)
        if not program.is_absolute() or program.is_relative_to(clone):
            yield f"STARTED {start.program}"
        if start.path and not all(map(os.path.isabs, start.path.split(os.pathsep))):
            yield f"HANDED ON to {start.program} the PATH {start.path[:60]}"


class Starts:
    """Writes down what is started, and with which PATH."""

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


def verb(job: Job) -> int:
    from upthread.surfaces.cli.program import main as upthread

    return upthread(list(job.words))


def library() -> int:
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
            await project.resume_commands([await project.role("spec-42/planner")])
            options = TellOptions(agent="rehearsal")
            await project.tell("spec-42/planner", "[[rehearse: say hi]]", options)

    try:
        anyio.run(use)
    except UpthreadError as error:
        return error.exit_code
    return 0
