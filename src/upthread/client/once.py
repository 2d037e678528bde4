"""Doing once: an action of your own that no crash, retry or second process does again.

`await up.once("release-1.4", publish)` commits that it will be done, does it, and commits the
receipt it returned. From then on the receipt is returned in place of doing. A process that died
between the two commits leaves an outcome nobody can know from here: it is shown, never guessed, and
a person settles it. Decides what a stored attempt means for a caller; the store decides who begins.
"""

from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial

import anyio
from msgspec.structs import replace

from upthread.client.parts import ProjectParts
from upthread.client.stores import PROJECT_VARIABLE, is_of_another_repository, key_of, open_store
from upthread.core.codec import decode_json, encode_json
from upthread.core.commands import OnceState, RecordOnce
from upthread.core.names import shown
from upthread.core.types import Fence, JsonValue, ProjectId
from upthread.errors import ConflictError, FencedError, NotFoundError, UsageError
from upthread.runtime.lease import LeaseRequest
from upthread.store.reads import Once

KEY_BYTES_MAX = 1_000

_LOOK = (
    "look whether it was done; then `await up.once.confirm(key, receipt)` if it was, "
    "`await up.once.forget(key)` if it was not"
)

_LOOK_AT_ROLE = (
    "look whether its role was told: upthread show ADDRESS --reply; if it was not, "
    "`await up.once.forget(key)`, then again"
)

_LOOK_AT_ALL = (
    "look what was done since the backup was made, then `upthread restore --settle` in this "
    "directory: from then on each key that is not on record is new"
)

_SETTLED = "upthread: settled the restore of"
"""How the key begins under which a person has settled the gap of a restore, for a project."""

Action = Callable[[], Awaitable[JsonValue]]


class BegunElsewhereError(UsageError):
    """Another project of the database has the key. Nothing was done."""


class DoOnce:
    """Does actions once in a project. Made by `Project`, as `up.once`."""

    def __init__(self, parts: ProjectParts) -> None:
        self._store = parts.store
        self._system = parts.system
        self._leases = parts.leases
        self._project_id = parts.project_id
        self._settings = parts.settings

    async def __call__(
        self, key: str, action: Action, *, recover: Action | None = None, about: JsonValue = None
    ) -> JsonValue:
        """Do the action if it was never done under this key; returns its receipt, JSON.

        It goes by the key alone: another action under the same key is not done. With `about`, JSON
        that says what is done, one that was begun about something else and has no receipt yet is a
        UsageError. So is a key of `tell_once`.
        An action that raises has failed: it may be tried again, and the error is yours. So raise
        only when nothing was done. One that is cancelled, or dies with its process, has an unknown
        outcome: from then on UsageError, until `confirm` or `forget`. Raises LeaseHeldError while
        somebody living is at it, and UsageError for a receipt that is no JSON: that action counts
        as done, without a receipt.

        With `recover`, a living caller is waited for, unless it is suspended or blocks its event
        loop for 10 s: do what blocks in a thread. An unknown outcome is settled by the receipt
        that `recover` returns, and stays unknown if `recover` raises. It is also what is tried
        again where an attempt has failed.

        A key that another project of the database has is a BegunElsewhereError, because a
        directory of a new release may be a new project. Only a whole clone may use a key of another
        repository, if the two have no common commit and not the same remote.

        After an `upthread restore` that could not read the database which it replaced, each key
        without a receipt is a UsageError until `confirm` or `forget`, because its action may have
        been done after the backup was made. `settle_restore` settles all keys that the backup has
        not, at once.
        """
        _check(key)
        stands = await self._stands(key)
        if stands is not None and is_told(stands.receipt) and not is_told(about):
            raise _begun_otherwise(key, stands.receipt)
        if stands is not None and stands.state == "done":
            return stands.receipt  # no lease: nothing is left to be done
        lease = replace(self._lease(key), wait_s=None if recover else 0.0)
        async with self._leases.held(lease) as fence:
            stands = await self._stands(key)
            if await self._is_in_gap(stands):
                known = _LOOK_AT_ROLE if is_told(about) else _LOOK
                raise UsageError(
                    f"the action {shown(key)} has no receipt, and the database was restored from a"
                    " backup: the action may have been done since the backup",
                    hint=known if stands else _LOOK_AT_ALL,
                    key=key,
                )
            if stands is None:
                attempt_id = await self._begin(key, fence, about)
                return await self._attempt(key, attempt_id, action, about)
            if stands.state != "done" and stands.receipt not in (None, about) and about:
                raise _begun_otherwise(key, stands.receipt)
            if stands.state == "failed":
                attempt_id = await self._intend(key, (fence,), about)
                return await self._attempt(key, attempt_id, recover or action, about)
            if stands.state == "done":
                return stands.receipt
            # An intent without an end, and its lease was free:
            # whoever began it is dead, or was cancelled.
            if recover is None:
                raise UsageError(
                    f"the outcome of the action {shown(key)} is unknown: attempt"
                    f" {stands.attempt_id} was begun and has no end",
                    hint=_LOOK,
                    key=key,
                    attempt_id=stands.attempt_id,
                )
            return await self._done(key, stands.attempt_id, await recover())

    async def confirm(self, key: str, receipt: JsonValue) -> None:
        """Settle an unknown outcome: you have seen that it was done. The receipt is yours to give.

        Raises NotFoundError for a key that was never begun, but not after a restore; UsageError
        when its outcome is known, and LeaseHeldError while somebody living is at it.
        """
        await self._settle(key, "done", _as_json(key, receipt))

    async def forget(self, key: str) -> None:
        """Settle an unknown outcome: you have seen that it was not done. It may be tried again.

        Raises as `confirm` does.
        """
        await self._settle(key, "failed", None)

    async def settle_restore(self) -> None:
        """Settle the gap of a restore: you have looked, and keys that are not on record are new.

        Those of the backup without a receipt stay refused until `confirm` or `forget`. Raises
        NotFoundError where there is no gap, UsageError where it is settled.
        """
        at_ms = self._store.restored_at_ms(self._project_id)
        if not at_ms:
            raise NotFoundError("no restore left a gap", hint="there is nothing to settle")
        await self._settle(f"{_SETTLED} {at_ms}", "done", None)

    async def _begin(self, key: str, fence: Fence, about: JsonValue) -> str:
        """Begin what was never begun, in one project of the database alone; return the attempt.

        Raises BegunElsewhereError.
        """
        # Two releases may begin at the same moment, and only their own projects' leases are theirs.
        lease = LeaseRequest(name=f"begin once {key}", doing=f"once {shown(key)}", wait_s=None)
        async with self._leases.held(lease) as alone:
            other = await self._system.in_thread(partial(self._begun_elsewhere, key))
            if other is None:
                return await self._intend(key, (fence, alone), about)
        # The project may be another person's: only its id is shown.
        what, here = "step" if is_told(about) else "action", self._settings.working_directory
        raise BegunElsewhereError(
            f"the {what} {shown(key)} was begun in the project {other}, and {here} is another one,"
            f" {self._project_id}: nothing is done",
            hint=f"set {PROJECT_VARIABLE}={other}, or open the directory that it was begun in; if"
            f" it is another {what}, give it a key of its own",
            key=key,
        )

    def _begun_elsewhere(self, key: str) -> ProjectId | None:
        """Return the other project of the database that has a key, and may be this one's."""
        settings = self._settings
        # Opened anew, because the project's own store has no row of another.
        with closing(open_store(settings.database, key=key_of(settings))) as store:
            for other in (ProjectId(head.name) for head in store.heads(None, "project")):
                if other == self._project_id or not store.once(other, key):
                    continue
                if not is_of_another_repository(settings, store.identities(other)):
                    return other
        return None

    async def _intend(self, key: str, fences: tuple[Fence, ...], about: JsonValue) -> str:
        attempt_id = self._system.new_id("att")
        # Before the action: killed between the two, it is
        # shown as unknown and never done again by itself.
        await self._record(key, attempt_id, "intent", receipt=about, fences=fences)
        return attempt_id

    async def _attempt(
        self, key: str, attempt_id: str, action: Action, about: JsonValue
    ) -> JsonValue:
        try:
            returned = await action()
        # Not what cancels or ends the process, or loses a lease: nobody knows how far it got.
        except FencedError:
            raise
        except Exception:
            await self._record(key, attempt_id, "failed", receipt=about)
            raise
        return await self._done(key, attempt_id, returned)

    async def _done(self, key: str, attempt_id: str, returned: JsonValue) -> JsonValue:
        try:
            receipt = _as_json(key, returned)
        except UsageError:
            # It was done, whatever it returned: tried again, it would be done twice.
            await self._record(key, attempt_id, "done")
            raise
        try:
            await self._record(key, attempt_id, "done", receipt=receipt)
        except ConflictError:
            # Taken over while it was suspended: all callers are given the one receipt on record.
            stands = await self._stands(key)
            if stands is None or stands.state != "done":
                raise
            return stands.receipt
        return receipt

    async def _record(
        self,
        key: str,
        attempt_id: str,
        state: OnceState,
        *,
        receipt: JsonValue = None,
        fences: tuple[Fence, ...] = (),
    ) -> None:
        """Commit one step, also for a caller who is being cancelled.

        An end has no fence: it is true even when the lease was lost meanwhile, and the store takes
        it only from the attempt that stands.
        """
        step = RecordOnce(
            project_id=self._project_id,
            key=key,
            attempt_id=attempt_id,
            state=state,
            receipt=receipt,
            recorded_at_ms=self._system.now_ms(),
        )
        # Cancelled between the action and its end, one that was done would be of unknown outcome.
        with anyio.CancelScope(shield=True):
            await self._system.in_thread(lambda: self._store.commit((step,), fences=fences))

    async def _settle(self, key: str, state: OnceState, receipt: JsonValue) -> None:
        _check(key)
        async with self._leases.held(self._lease(key)) as fence:
            stands = await self._stands(key)
            attempt_id = stands.attempt_id if stands else ""
            if (not stands or stands.state == "failed") and await self._is_in_gap(stands):
                attempt_id = self._system.new_id("att")
                await self._record(key, attempt_id, "intent", fences=(fence,))
            elif stands is None:
                raise NotFoundError(
                    f"the action {shown(key)} was never begun",
                    hint="check the key",
                    key=key,
                )
            elif stands.state != "intent":
                raise UsageError(
                    f"the outcome of the action {shown(key)} is known: {stands.state}",
                    hint="there is nothing to settle; another action needs another key",
                    key=key,
                )
            await self._record(key, attempt_id, state, receipt=receipt, fences=(fence,))

    async def _is_in_gap(self, stands: Once | None) -> bool:
        """Return whether the action may have been done after the backup of a restore."""
        at_ms = self._store.restored_at_ms(self._project_id)
        if not at_ms:
            return False
        found = stands or await self._stands(f"{_SETTLED} {at_ms}")
        return not found or (found.state != "done" and found.recorded_at_ms < at_ms)

    async def _stands(self, key: str) -> Once | None:
        return await self._system.in_thread(partial(self._store.once, self._project_id, key))

    def _lease(self, key: str) -> LeaseRequest:
        return LeaseRequest(name=f"once {self._project_id} {key}", doing=f"once {shown(key)}")


def is_told(receipt: JsonValue) -> bool:
    """Return whether `tell_once` made a receipt, or says what it is about."""
    return isinstance(receipt, dict) and receipt.keys() >= {"address", "text_sha256"}


def _check(key: str) -> None:
    size = len(key.encode("utf-8", "surrogatepass"))
    if not key.strip() or size > KEY_BYTES_MAX:
        raise UsageError(
            f"{shown(key)} is no key for an action: it has {size} bytes",
            hint=f"name what is done, in 1 to {KEY_BYTES_MAX} bytes",
        )


def _as_json(key: str, returned: JsonValue) -> JsonValue:
    """Return a receipt as it will be read back. UsageError when it is no JSON."""
    try:
        return decode_json(encode_json(returned))
    except UsageError as error:
        raise UsageError(
            f"the receipt of the action {shown(key)} is no JSON: {error.message}",
            hint=error.hint,
            key=key,
        ) from error


def _begun_otherwise(key: str, about: JsonValue) -> UsageError:
    told = str(about)
    if isinstance(about, dict):
        told = ", ".join(map(str, about.values()))
        if is_told(about):
            told = f"another prompt to {about['address']}"
    return UsageError(
        f"the action {shown(key)} was begun about something else: {shown(told)}",
        hint="give each action a key of its own",
        key=key,
    )
