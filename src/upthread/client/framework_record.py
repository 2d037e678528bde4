"""A project's record, opened for the store of an agent framework. Blocking; any thread may call.

The frameworks have their own event loops and threads, and call their stores from all of them. So
this opens the record once, for as long as the process lives, and takes one call at a time.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from upthread.boundary.forked import Forkable
from upthread.client.project_opener import open_parts
from upthread.core.names import Address, key_of, parse_address, parse_role, parse_workstream
from upthread.core.types import ConversationKey, Environment
from upthread.errors import ConfigError, StoreError, UsageError
from upthread.runtime.record.entry_log import EntryLog
from upthread.runtime.record.project_store import ProjectStore
from upthread.runtime.system import user_name
from upthread.store.base import Store

THREAD_PREFIX = "thread-"
"""Begins the workstream of a thread whose own name no workstream may have."""

LOGS_MAX = 1024
"""Of so many logs it is remembered which turn is theirs, and that they were proved."""

NAME_BYTES_MAX = 160
"""A longer name of a thread would leave no room beside it in what people read."""


class FrameworkRecord(Forkable):
    """The record of the project a directory belongs to; made on first use, closed by `close`.

    `database` and `environment` as for `open_project`. Raises ConfigError, StoreError, UsageError.
    """

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        project: str | None = None,
        environment: Environment | None = None,
    ) -> None:
        env = dict(os.environ if environment is None else environment)
        self._parts = open_parts(
            Path(directory), environment=env, database=database, project=project
        )
        self._logs: dict[tuple[str, ConversationKey], EntryLog] = {}
        super().__init__()  # its `lock` is held over several calls that belong together
        # No policy stands in front of it: a value that is not whole is of no use to its framework.
        # What is said beside it passes the redactor in the log itself.
        self._store: Store = ProjectStore(
            self._parts.store.behind,
            self._parts.project_id,
            by_user=user_name(env),
            now_ms=self._parts.system.now_ms,
        )

    def log(self, framework: str, thread: str, *, address: str | None = None) -> EntryLog:
        """Return the log of a framework's thread.

        Under `address` it is a conversation that `tell` reaches as well; without, the thread is a
        workstream with the framework as its role. Raises UsageError for a name that is none,
        ConfigError where the record may keep no text.
        """
        place = parse_address(address) if address else _place(framework, thread)
        if self._parts.policy.of_role(place.role) == "index":
            raise ConfigError(
                'record = "index" keeps no text, and a framework needs its values back whole',
                hint=f'say in upthread.toml: [roles.{place.role}] record = "redacted"',
                role=place.role,
            )
        return self._log(framework, key_of(self._parts.project_id, place))

    def threads(self, framework: str) -> Iterator[EntryLog]:
        """Yield the logs of a framework's threads, oldest first."""
        role = parse_role(framework)
        project_id = self._parts.project_id
        with self.lock:
            names = self._parts.workstreams()
        for name in names:
            key = key_of(project_id, Address(workstream=name, role=role))
            # One that is damaged is told to whoever reads it, and the next ones are not hidden.
            with self.lock, suppress(StoreError):
                if self._store.resolve(key) is None:
                    continue
            yield self._log(framework, key)

    def scrub(self) -> None:
        """Leave no trace of what was erased, in any file. As long as writing the record anew."""
        with self.lock:
            self._store.scrub()

    def close(self) -> None:
        """Close the record. Idempotent; what was appended stays."""
        with self.lock:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _log(self, framework: str, key: ConversationKey) -> EntryLog:
        redacted: Callable[[str], str] = self._parts.redactor.redact
        with self.lock:
            log = self._logs.pop((framework, key), None) or EntryLog(
                self._store, self._parts.system, key, framework, redacted=redacted, lock=self.lock
            )
            self._logs[framework, key] = log  # the one asked for last stands last
            while len(self._logs) > LOGS_MAX:
                del self._logs[next(iter(self._logs))]
        return log


def required_text(name: object) -> str:
    """Return the name of a thread, an app or a user. UsageError for one that is no text."""
    if not isinstance(name, str):
        raise UsageError(
            f"the name of a thread is text, and {name!r} is none", hint=f"give it as '{name}'"
        )
    return name


def _place(framework: str, name: object) -> Address:
    """Return where a thread is kept. Its name where a workstream may have it, else a digest."""
    thread = required_text(name)
    role = parse_role(framework)
    try:
        workstream = parse_workstream(thread)
    except UsageError:
        workstream = ""
    is_fit = workstream == thread != "" and len(thread.encode()) <= NAME_BYTES_MAX
    if not is_fit or thread.startswith(THREAD_PREFIX):
        digest = hashlib.sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()
        workstream = THREAD_PREFIX + digest[:32]
    return Address(workstream=workstream, role=role)
