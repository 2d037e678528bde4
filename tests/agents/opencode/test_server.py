"""One running server, and one that misbehaves: what comes back and what is left.

The stream of events in lines, and what a server's refusal says.
"""

from functools import partial

import anyio
import anyio.lowlevel
import pytest

from upthread.agents.base import PermissionAnswer
from upthread.agents.opencode.server import ApiError, content_of, lines_of
from upthread.core.events import UnknownReceived
from upthread.core.quotas import ANSWER, FRAME
from upthread.core.types import Outcome
from upthread.errors import QuotaExceededError, UpstreamError

pytestmark = pytest.mark.anyio


@pytest.mark.extended
async def test_prompts_are_sent_and_answered_and_do_not_mix(connection, recorded, posts):
    session = await connection.new_session()
    refused = await connection.prompt(session, "refused", on_event=recorded)
    assert refused.outcome is Outcome.AUTH
    result = await connection.prompt(session, "reply", on_event=recorded)
    assert (result.outcome, result.tokens_used) == (Outcome.OK, 8176)
    assert recorded.text == "hello there"
    sent = {"parts": [{"type": "text", "text": "reply"}]}
    assert [f"/session/{session}/prompt_async", sent] in [
        [path.partition("?")[0], body] for path, body in posts()
    ]


async def until(posts, part):
    """Wait until something was posted to a path that has this part."""
    with anyio.fail_after(30):
        while not any(part in path for path, _ in posts()):  # noqa: ASYNC110  # the server's file
            await anyio.sleep(0.01)


async def test_a_second_prompt_at_once_is_refused(connection, recorded, posts):
    session = await connection.new_session()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: connection.prompt(session, "hang", on_event=recorded))
        await until(posts, "/prompt_async")
        with pytest.raises(UpstreamError) as refused:
            await connection.prompt(session, "reply", on_event=recorded)
        await connection.cancel(session)
    assert refused.value.outcome == Outcome.BUSY


async def test_garbage_is_kept_raw_and_ends_nothing(scripted_opencode, request_for, recorded):
    async with scripted_opencode("garbage").open(request_for()) as connection:
        result = await connection.prompt("ses_scripted", "reply", on_event=recorded)
    assert result.outcome is Outcome.OK
    kept = [event.raw for event in recorded if isinstance(event, UnknownReceived)]
    assert kept == [" {no json", 7]


@pytest.mark.parametrize(
    ("word", "how"), [("dies", "exited with code 3"), ("hangs_up", "closed its stream")]
)
async def test_a_server_that_is_lost_in_a_prompt_died(
    scripted_opencode, request_for, recorded, word, how
):
    async with scripted_opencode(word).open(request_for()) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, "reply", on_event=recorded)
        assert (result.outcome, how in result.detail) == (Outcome.PROCESS_DIED, True), result
        again = await connection.prompt(session, "reply", on_event=recorded)
    assert again.outcome is Outcome.PROCESS_DIED


async def test_a_prompt_that_was_taken_and_is_not_worked_at_is_not_waited_for(
    scripted_opencode, request_for, recorded, monkeypatch
):
    monkeypatch.setattr("upthread.agents.opencode.adapter.IS_AT_WORK_WITHIN_S", 0.2)
    async with scripted_opencode("forgets").open(request_for()) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, "reply", on_event=recorded)
    assert (result.outcome, "does not work at it" in result.detail) == (Outcome.UNKNOWN, True)


async def cancelled(connection, recorded, *, when=anyio.lowlevel.checkpoint):
    """Prompt something that hangs, and cancel it `when` that returns."""
    session = await connection.new_session()

    async def cancel():
        await when()
        await connection.cancel(session)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        return await connection.prompt(session, "hang", on_event=recorded)


@pytest.mark.extended
async def test_a_cancel_aborts_even_before_the_prompt_has_left_and_the_next_is_answered(
    connection, recorded, posts
):
    assert (await cancelled(connection, recorded)).outcome is Outcome.CANCELLED
    begun = partial(until, posts, "/prompt_async")
    assert (await cancelled(connection, recorded, when=begun)).outcome is Outcome.CANCELLED
    result = await connection.prompt("ses_scripted", "reply", on_event=recorded)
    assert result.outcome is Outcome.OK


async def test_a_server_deaf_to_the_abort_is_ended(scripted_opencode, request_for, recorded, posts):
    request = request_for(cancel_timeout_s=0.5)
    async with scripted_opencode("deaf").open(request) as connection:
        begun = partial(until, posts, "/prompt_async")
        result = await cancelled(connection, recorded, when=begun)
    assert result.outcome is Outcome.PROCESS_DIED
    assert "did not answer the abort" in result.detail


@pytest.mark.extended
async def test_a_deadline_ends_the_turn_and_leaves_the_server(
    scripted_opencode, request_for, recorded
):
    async with scripted_opencode().open(request_for(prompt_timeout_s=0.3)) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, "hang", on_event=recorded)
        assert result.outcome is Outcome.TIMED_OUT
        await connection.resume_session(session)


async def test_a_long_retry_is_aborted_and_told_with_its_end(connection, recorded, posts):
    session = await connection.new_session()
    result = await connection.prompt(session, "retried", on_event=recorded)
    assert result.outcome is Outcome.RATE_LIMITED
    assert result.reset_at_ms is not None
    assert f"/session/{session}/abort" in [path.partition("?")[0] for path, _ in posts()]


async def test_a_permission_is_asked_for_and_the_answer_goes_back(
    scripted_opencode, request_for, recorded, posts
):
    asked = []

    async def once(request):
        asked.append(request)
        return PermissionAnswer(option_id="once", answered_by="test")

    async with scripted_opencode().open(request_for(answer_permission=once)) as connection:
        session = await connection.new_session()
        await connection.prompt(session, "child", on_event=recorded)
        await until(posts, "/permission/")
    (request,) = asked
    assert request.upstream_session_id != session, "it is the child that asks"
    assert (request.tool_kind, request.title) == ("edit", "write c.txt / edit: c.txt")
    (path,) = (path for path, _ in posts() if path.startswith("/permission/"))
    assert path.endswith("/reply?directory=%2Fproject")


# --- sessions ----------------------------------------------------------------------------------


async def test_an_unknown_session_is_missing_and_a_listed_one_that_cannot_be_read_is_not(
    connection,
):
    attaching = (connection.resume_session, connection.load_session, connection.fork_session)
    for unknown in ("ses_unknown", "../../secret", "nonsense"):
        for attach in attaching:
            with pytest.raises(UpstreamError) as refused:
                await attach(unknown)
            assert refused.value.outcome == Outcome.MISSING
    listed = {"listed": Outcome.UNKNOWN, "moved": Outcome.WORKSPACE_CHANGED}
    for session, outcome in listed.items():
        with pytest.raises(UpstreamError) as refused:
            await connection.resume_session(session)
        assert refused.value.outcome == outcome


async def test_another_session_than_the_one_asked_for_is_refused(scripted_opencode, request_for):
    async with scripted_opencode("exchanges").open(request_for()) as connection:
        with pytest.raises(UpstreamError, match="answered with session 'other'"):
            await connection.resume_session("ses_scripted")


async def chunked(chunks):
    for chunk in chunks:
        yield chunk


async def test_lines_are_whole_however_they_were_cut():
    stream = chunked([b"data: a\n", b"\ndata", b": b\r", b"\n", b"\n", b"rest"])
    assert [line async for line in lines_of(stream)] == [b"data: a", b"", b"data: b", b""]


async def test_a_line_without_an_end_is_not_kept_for_ever():
    stream = chunked([b"x" * 2**24] * (FRAME.most // 2**24 + 1))
    with pytest.raises(QuotaExceededError):
        async for _ in lines_of(stream):
            pass


async def test_an_answer_is_read_to_its_limit_and_no_further():
    piece, given = b"x" * 2**24, []

    async def answering():
        for _ in range(16):
            given.append(1)
            yield piece

    with pytest.raises(QuotaExceededError) as caught:
        await content_of(answering())
    assert caught.value.limit == ANSWER.what
    assert len(given) == 3, "32 MiB, and what shows that it is more"


def test_a_refusal_says_its_name_its_status_and_its_reason():
    assert str(ApiError(404, "NotFoundError", "gone")) == "gone (NotFoundError 404)"
    assert str(ApiError(500, "", "")) == "no reason given (HTTP 500)"
