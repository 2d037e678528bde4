"""The ADK's session service: beside its in-memory one as oracle, and where its own ones fail."""

import asyncio

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from upthread.integrations.google_adk import UpthreadSessionService

pytestmark = pytest.mark.anyio

WHOSE = {"app_name": "app", "user_id": "user"}
ONE = {**WHOSE, "session_id": "s"}


@pytest.fixture
def ours(record):
    return UpthreadSessionService(record=record)


@pytest.fixture(params=["theirs", "ours"])
def service(request, ours):
    return ours if request.param == "ours" else InMemorySessionService()


def event(text="hi", *, at=None, **delta):
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = EventActions(state_delta=delta)
    more = {"timestamp": at} if at is not None else {}
    return Event(author="user", content=content, actions=actions, **more)


def texts(session):
    return [each.content.parts[0].text for each in session.events]


async def test_state_goes_to_whom_it_belongs_and_temporary_state_nowhere(service):
    session = await service.create_session(**ONE, state={"a": 1, "app:b": 2, "user:c": 3})
    await service.append_event(session, event(**{"a": 4, "user:c": 5, "temp:d": 6}))
    other = await service.create_session(**WHOSE, session_id="other")
    elsewhere = await service.create_session(app_name="app", user_id="you", session_id="s")
    again = await service.get_session(**ONE)
    assert session.state.get("temp:d") == 6
    assert again.state == {"a": 4, "app:b": 2, "user:c": 5}
    assert other.state == {"app:b": 2, "user:c": 5}
    assert elsewhere.state == {"app:b": 2}
    assert await service.get_user_state(**WHOSE) == {"c": 5}
    listed = await service.list_sessions(**WHOSE)
    assert sorted(each.id for each in listed.sessions) == ["other", "s"]
    assert again.events[0].actions.state_delta == {"a": 4, "user:c": 5}


async def test_the_errors_are_those_the_runner_knows(service):
    session = await service.create_session(**ONE)
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**WHOSE, session_id=" s ")
    await service.delete_session(**ONE)
    assert await service.get_session(**ONE) is None
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"num_recent_events": 0}, []),
        ({"num_recent_events": 2}, ["1", "2"]),
        ({"after_timestamp": 20.0}, ["1", "2"]),
        ({"num_recent_events": 3, "after_timestamp": 30.0}, ["2"]),
    ],
)
async def test_part_of_the_events_is_given_as_asked(service, config, expected):
    session = await service.create_session(**ONE)
    for at in range(3):
        await service.append_event(session, event(str(at), at=10.0 * (at + 1)))
    found = await service.get_session(**ONE, config=GetSessionConfig(**config))
    assert texts(found) == expected


async def test_an_event_that_comes_again_is_the_one_that_is_there(service):
    session, said = await service.create_session(**ONE), event("once")
    await service.append_event(session, said)
    await service.append_event(session, said)
    found = await service.get_session(**ONE)
    assert texts(found) == ["once"]


async def test_partial_events_are_not_kept(service):
    session = await service.create_session(**ONE)
    await service.append_event(session, Event(author="a", partial=True))
    found = await service.get_session(**ONE)
    assert found.events == []


async def test_who_has_not_read_the_newest_event_is_told(ours):
    await ours.create_session(**ONE)
    one, other = await ours.get_session(**ONE), await ours.get_session(**ONE)
    await ours.append_event(one, event("one"))
    with pytest.raises(StaleSessionError):
        await ours.append_event(other, event("other"))
    await ours.append_event(await ours.get_session(**ONE), event("other"))
    assert texts(await ours.get_session(**ONE)) == ["one", "other"]


async def test_of_many_that_create_one_session_exactly_one_does(ours):
    racing = (ours.create_session(**ONE) for _ in range(8))
    found = await asyncio.gather(*racing, return_exceptions=True)
    assert sum(not isinstance(each, AlreadyExistsError) for each in found) == 1


async def test_names_with_slashes_are_not_taken_for_another_users(ours):
    await ours.create_session(app_name="a/b", user_id="c", session_id="d", state={"x": 1})
    await ours.create_session(app_name="a", user_id="b/c", session_id="d", state={"x": 2})
    first = await ours.get_session(app_name="a/b", user_id="c", session_id="d")
    second = await ours.get_session(app_name="a", user_id="b/c", session_id="d")
    assert (first.state["x"], second.state["x"]) == (1, 2)


async def test_it_is_made_from_a_uri_as_services_yaml_does(home):
    service = UpthreadSessionService(uri=f"upthread://{home.repository}")
    made = await service.create_session(**ONE)
    await service.close()
    assert made.id == "s"
