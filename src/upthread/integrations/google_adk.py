"""A session service of Google's ADK on upthread's record: `UpthreadSessionService()`.

Or without code, in `services.yaml`: `{scheme: upthread, type: session, class:
upthread.integrations.google_adk.UpthreadSessionService}`, then
`adk web --session_service_uri=upthread://.`. Events stand in the order of their appends, whatever
their clocks said; who appends is told apart by the number of the last event, not by a time. Written
for google-adk 2.13.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.platform import time as platform_time
from google.adk.sessions._session_util import extract_state_delta
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from upthread.client.framework_record import FrameworkRecord, required_text
from upthread.core.types import Speaker
from upthread.integrations.json_delta import copied
from upthread.integrations.on_record import NEVER, Folds, Followed, OnRecord, dumped, settled
from upthread.runtime.record.entry_log import Append, Entry, EntryLog, NewEntry, Stands
from upthread.runtime.system import new_id

FRAMEWORK = "google-adk"
URI_SCHEME = "upthread://"
SHARED = "state of"
"""Begins the name of the log that holds what is shared by an app's or a user's sessions."""


class StoredSession:
    """A session as its log tells it, created by its first entry; or the state that some share."""

    def __init__(self) -> None:
        self.app_name = self.user_id = self.session_id = ""
        self.state: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.last_update_time = 0.0
        self.moved = NEVER

    def apply(self, entry: Entry) -> None:
        """Take in what created it, an event, or a change of shared state."""
        if entry.told:
            return
        value = entry.value
        self.moved = value.get("moved", NEVER)
        if "created" in value:
            self.app_name, self.user_id, self.session_id = value["created"]
            self.last_update_time = value["at"]
        if "event" in value:
            self.events.append(value["event"])
            self.last_update_time = value["event"]["timestamp"]
        self.state.update(value.get("state", {}))

    @property
    def is_there(self) -> bool:
        """Whether it was created, and not deleted since."""
        return bool(self.session_id)


class UpthreadSessionService(OnRecord, BaseSessionService):
    """Sessions in the record of the project that `directory` belongs to.

    `uri` is what `services.yaml` gives: `upthread://DIRECTORY`. An event and all it changes, of the
    session, the user and the app, are one synced commit. `record` is one that is open already.
    """

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        uri: str | None = None,
        database: str | None = None,
        record: FrameworkRecord | None = None,
        **_: object,
    ) -> None:
        place = uri.removeprefix(URI_SCHEME) or "." if uri else directory
        self._open(place, database, record)
        self._folds = Folds(self._record, StoredSession, ordered=FRAMEWORK)

    async def close(self) -> None:  # type: ignore[override]  # theirs is awaited
        """Close the record, unless it was given."""
        await asyncio.to_thread(super().close)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. AlreadyExistsError where one has this id, also at the same moment."""
        name = _name(session_id) or new_id("ses")
        given = Event(author=user_id, actions=EventActions(state_delta=state or {}))
        deltas = extract_state_delta(_told(given)["actions"]["state_delta"])
        return await settled(self._create, (app_name, user_id, name), deltas)

    def _create(self, place: tuple[str, str, str], deltas: Mapping[str, dict[str, Any]]) -> Session:
        log = self._log(*place)

        def created(followed: Followed[StoredSession]) -> NewEntry:
            if followed.fold.is_there:
                raise AlreadyExistsError(f"Session with id {place[2]} already exists.")
            at = platform_time.get_time()
            value = {"created": list(place), "at": at, "state": deltas["session"]}
            return NewEntry(value=value)

        self._folds.append(log, created, beside=self._shared(place, deltas))
        return self._session(self._folds.of(log), None)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events in the order of their appends, None where none is."""

        def look() -> Session | None:
            followed = self._folds.of(self._log(app_name, user_id, _name(session_id)))
            return self._session(followed, config) if followed.fold.is_there else None

        return await self._look(look)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return sessions without their events, the one updated last as the last."""
        none = GetSessionConfig(num_recent_events=0)

        def look() -> list[Session]:
            found = list(self._all(app_name, user_id))
            # Times are compared only of what an earlier version appended.
            found.sort(key=lambda each: (each.fold.moved, each.fold.last_update_time))
            return [self._session(each, none) for each in found]

        return ListSessionsResponse(sessions=await self._look(look))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session: what was in it is gone from the record. The user's state stays."""
        log = self._log(app_name, user_id, _name(session_id))
        await settled(log.rewrite, lambda _: ())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return what a user's sessions share, without the prefix."""
        log = self._shared_log(app_name, user_id)
        state: dict[str, Any] = await self._look(lambda: copied(self._folds.of(log).fold.state))
        return state

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event, with what it changes. StaleSessionError where the session has moved on.

        An event that comes again is the one that is there: nothing is appended for it.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        is_new = await settled(self._append, session, event)
        return self._commit_event_to_session(session, event) if is_new else event

    def _append(self, session: Session, event: Event) -> bool:
        place = (session.app_name, session.user_id, session.id)
        log = self._log(*place)
        told = _told(event)
        deltas = extract_state_delta(told["actions"]["state_delta"])

        def appended(followed: Followed[StoredSession]) -> NewEntry | None:
            stored = followed.fold
            if not stored.is_there:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if any(each["id"] == event.id and each == told for each in reversed(stored.events)):
                return None
            self._require_current(session, followed)
            value = {"event": told, "state": deltas["session"]}
            return NewEntry(value=value, text=_said(event), speaker=_speaker(event))

        stands = self._folds.append(log, appended, beside=self._shared(place, deltas))
        if stands is None:
            return False
        session.last_update_time = event.timestamp
        session._storage_update_marker = _marker(stands)  # noqa: SLF001
        return True

    def _require_current(self, session: Session, followed: Followed[StoredSession]) -> None:
        """Refuse to append to what the caller has not read: its next step would rest on less."""
        marker = session._storage_update_marker  # noqa: SLF001  # theirs, for just this
        is_stale = (
            marker != _marker(followed.stands)
            if marker is not None
            else followed.fold.last_update_time > session.last_update_time
        )
        if is_stale:
            raise StaleSessionError(
                "The session has been modified in storage since it was loaded. "
                "Please reload the session before appending more events."
            )

    # --- below: logs, and what they come to ------------------------------------------------------

    def _log(self, app_name: str, user_id: str, session_id: str) -> EntryLog:
        return self._record.log(FRAMEWORK, f"{_names(app_name, user_id)}/{session_id}")

    def _shared_log(self, app_name: str, user_id: str | None) -> EntryLog:
        owners = (app_name,) if user_id is None else (app_name, user_id)
        return self._record.log(FRAMEWORK, f"{SHARED} {_names(*owners)}")

    def _shared(
        self, place: tuple[str, str, str], deltas: Mapping[str, dict[str, Any]]
    ) -> list[Append]:
        app_name, user_id, _ = place
        return [
            Append(
                log=self._shared_log(app_name, owner),
                entries=(NewEntry(value={"state": delta}),),
            )
            for owner, delta in ((None, deltas["app"]), (user_id, deltas["user"]))
            if delta
        ]

    def _all(self, app_name: str, user_id: str | None) -> Iterator[Followed[StoredSession]]:
        for _, followed in self._folds.all(FRAMEWORK):
            stored = followed.fold
            is_meant = stored.is_there and stored.app_name == app_name
            if is_meant and user_id in {None, stored.user_id}:
                yield followed

    def _session(
        self, followed: Followed[StoredSession], config: GetSessionConfig | None
    ) -> Session:
        stored = followed.fold
        shared = {
            prefix + name: value
            for prefix, owner in ((State.APP_PREFIX, None), (State.USER_PREFIX, stored.user_id))
            for name, value in self._folds.of(
                self._shared_log(stored.app_name, owner)
            ).fold.state.items()
        }
        session = Session(
            id=stored.session_id,
            app_name=stored.app_name,
            user_id=stored.user_id,
            state=copied({**stored.state, **shared}),
            events=[Event.model_validate(each) for each in _wanted(stored.events, config)],
            last_update_time=stored.last_update_time,
        )
        session._storage_update_marker = _marker(followed.stands)  # noqa: SLF001
        return session


def _wanted(events: list[dict[str, Any]], config: GetSessionConfig | None) -> list[dict[str, Any]]:
    if config is None:
        return events
    if config.num_recent_events is not None:
        events = events[-config.num_recent_events :] if config.num_recent_events else []
    if config.after_timestamp is not None:
        # From the newest back to the first that is older, as ADK's own services have it.
        older = [at for at, each in enumerate(events) if each["timestamp"] < config.after_timestamp]
        events = events[older[-1] + 1 :] if older else events
    return events


def _told(event: Event) -> dict[str, Any]:
    """Return an event whole, as data. UsageError for one that data cannot say."""
    return dumped(
        f"the event {event.id}",
        lambda: event.model_dump(mode="json", exclude_none=True),
        lambda told: (each.model_dump() for each in (event, Event.model_validate(told))),
    )


def _name(session_id: str | None) -> str:
    return required_text(session_id or "").strip()


def _names(*names: str) -> str:
    """Return names as one: with none of them can another user's be said."""
    texts = map(required_text, names)
    return "/".join(each.replace("%", "%25").replace("/", "%2F") for each in texts)


def _marker(stands: Stands) -> str:
    return f"{stands.generation}:{stands.last}"


def _said(event: Event) -> str:
    parts = (event.content.parts if event.content else None) or []
    return "\n\n".join(each.text for each in parts if each.text)


def _speaker(event: Event) -> Speaker:
    return Speaker.USER if event.author == "user" else Speaker.ASSISTANT
