"""The OpenAI Agents SDK's session: beside its own as oracle, and through its runner."""

import asyncio
from functools import partial

import apsw
import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from agents.memory import SQLiteSession
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from tests.support.sqlite_faults import statements_of

from upthread.errors import UsageError
from upthread.integrations.openai_agents import UpthreadSession
from upthread.testing.rehearsal_model import RehearsalModel

ITEMS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()}),
    max_size=3,
)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ITEMS),
        st.tuples(st.just("pop"), st.none()),
        st.tuples(st.just("get"), st.sampled_from([None, -1, 0, 1, 2, 5])),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=12,
)


async def answers(session, calls):
    told = []
    for verb, given_ in calls:
        if verb == "add":
            await session.add_items(given_)
        elif verb == "pop":
            told.append(await session.pop_item())
        elif verb == "get":
            told.append(await session.get_items(given_))
        else:
            await session.clear_session()
    return [*told, await session.get_items()]


def test_it_answers_as_their_own_whatever_is_called(sqlite_place):
    with sqlite_place.open() as opened:
        count = 0

        @given(CALLS)
        def compare(calls):
            nonlocal count
            count += 1
            ours = asyncio.run(answers(UpthreadSession(f"s{count}", record=opened), calls))
            assert ours == asyncio.run(answers(SQLiteSession(f"s{count}"), calls))

        compare()


@pytest.mark.parametrize(
    ("verb", "left"), [("add_items", ["once", "twice"]), ("pop_item", []), ("clear_session", [])]
)
def test_cancelled_it_ends_once_what_it_wrote_is_known(sqlite_place, verb, left):
    async def cancelled() -> None:
        session = UpthreadSession("s", record=opened)
        await session.add_items([{"role": "user", "content": "once"}])
        other = apsw.Connection(str(sqlite_place.directory / "record.db"))
        other.execute("BEGIN IMMEDIATE")  # so that the write has to wait
        given_ = ([{"role": "user", "content": "twice"}],) if verb == "add_items" else ()
        work = asyncio.ensure_future(getattr(session, verb)(*given_))
        for _ in range(3):
            await asyncio.sleep(0.1)
            work.cancel()
        assert not work.done()
        other.execute("ROLLBACK")
        with pytest.raises(asyncio.CancelledError):
            await work
        assert [each["content"] for each in await session.get_items()] == left

    with sqlite_place.open() as opened:
        asyncio.run(cancelled())


def test_its_settings_may_be_a_dictionary_as_with_their_own(sqlite_place):
    with sqlite_place.open() as opened:
        kinds = (partial(UpthreadSession, record=opened), SQLiteSession)
        ours, theirs = (make("s", session_settings={"limit": 2}) for make in kinds)
        assert ours.session_settings == theirs.session_settings
        for make in kinds:
            with pytest.raises(TypeError, match="limitt"):
                make("s", session_settings={"limitt": 1})


def test_its_items_are_read_by_another_process_and_no_one_is_given_to_two(place):
    with place.open() as one, place.open() as other:
        first, second = UpthreadSession("s", record=one), UpthreadSession("s", record=other)
        asyncio.run(first.add_items([{"role": "user", "content": str(at)} for at in range(10)]))

        async def pop_all():
            popped = await asyncio.gather(
                *(each.pop_item() for each in (first, second) for _ in range(6))
            )
            return [each["content"] for each in popped if each is not None]

        assert sorted(asyncio.run(pop_all())) == [str(at) for at in range(10)]


def test_a_call_reads_once_where_the_log_stands_and_nothing_that_it_wrote_itself(sqlite_place):
    first, question, answer = ({"role": "user", "content": each} for each in ("1", "2", "3"))
    with sqlite_place.open() as record:
        session = UpthreadSession("chat", record=record)
        asyncio.run(session.add_items([first]))
        asyncio.run(session.get_items())
        with statements_of(record._parts.store.behind) as told:
            asyncio.run(session.add_items([question, answer]))
            asyncio.run(session.get_items())
            asyncio.run(session.pop_item())
        assert sum(each.startswith("SELECT") for each in told) == 3
        assert sum(each == "COMMIT" for each in told) == 2
        with sqlite_place.open() as other:
            theirs = asyncio.run(UpthreadSession("chat", record=other).get_items())
        assert asyncio.run(session.get_items()) == theirs == [first, question]


def test_what_is_no_json_is_refused_and_nothing_of_the_batch_is_there(record):
    session = UpthreadSession("s", record=record)
    with pytest.raises(UsageError):
        asyncio.run(session.add_items([{"role": "user", "content": "fine"}, {"content": object()}]))
    assert asyncio.run(session.get_items()) == []


def agent_of(model, done):
    @function_tool
    def deploy() -> str:
        done.append("deployed")
        return "done"

    return Agent(name="a", model=model, tools=[deploy])


def test_a_run_with_a_tool_goes_on_in_another_process(place):
    done = []
    with place.open() as opened:
        model = ScriptedModel(
            [[function_call("deploy", {}, call_id="call_1")], [assistant_message("it is out")]]
        )
        result = asyncio.run(
            Runner.run(agent_of(model, done), "deploy", session=UpthreadSession("s", record=opened))
        )
    assert (result.final_output, done) == ("it is out", ["deployed"])
    with place.open() as opened:
        session = UpthreadSession("s", record=opened)
        model = ScriptedModel([[assistant_message("yes")]])
        asyncio.run(Runner.run(agent_of(model, done), "is it out?", session=session))
        kinds = [each.get("type", each.get("role")) for each in asyncio.run(session.get_items())]
    assert kinds == "user function_call function_call_output message user message".split()
    assert done == ["deployed"]


async def ran(kind, model, session):
    """One turn. Its client is closed here: left to the collector, it closes in another test's loop."""
    url = model.openai_base_url
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        agent = Agent(name="a", model=kind("rehearsal-1", client))
        return await Runner.run(agent, "second [[SAY fine]]", session=session)


@pytest.mark.parametrize("kind", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
def test_a_result_without_its_call_is_told_to_the_model_and_named_by_doctor(sqlite_place, kind):
    question = {"role": "user", "content": "first"}
    call = {"type": "function_call", "call_id": "call_1", "name": "deploy", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "it was deployed"}
    parts = [{"type": "input_text", "text": "and tested"}]
    other = {"type": "custom_tool_call_output", "call_id": "call_2", "output": parts}
    with sqlite_place.open() as opened, RehearsalModel() as model:
        session = UpthreadSession("s", record=opened)
        asyncio.run(session.add_items([question, call]))
        assert asyncio.run(session.pop_item()) == call
        asyncio.run(session.add_items([result, other]))
        told = asyncio.run(ran(kind, model, session))
        assert (told.final_output, model.violations) == ("fine", [])
        texts = [str(each["content"]) for each in asyncio.run(session.get_items(4))]
        assert "it was deployed" in texts[0]
        assert "and tested" in texts[1]
        found = sqlite_place.upthread("doctor")
        assert "s/openai-agents" in found
        assert "message 4: a result of call call_1, which nothing before it made" in found
        assert "upthread audit s\n" in found
        popped = [asyncio.run(session.pop_item()) for _ in range(4)]
        assert popped[2:] == [other, result]  # nothing is lost
        asyncio.run(session.add_items([call, result]))
        assert asyncio.run(session.get_items()) == [question, call, result]
        assert asyncio.run(session.get_items(1)) == [result]
        assert "1 history sound, 0 not\n" in sqlite_place.upthread("doctor")


def test_under_an_address_it_is_one_conversation_with_tell(sqlite_place):
    with sqlite_place.open() as opened:
        session = UpthreadSession("any", record=opened, address="spec-42/planner")
        asyncio.run(session.add_items([{"role": "user", "content": "the colour is teal"}]))
    told = sqlite_place.tell("spec-42/planner", "[[rehearse: say noted]]")
    assert "noted" in told
    with sqlite_place.open() as opened:
        session = UpthreadSession("any", record=opened, address="spec-42/planner")
        texts = [each["content"] for each in asyncio.run(session.get_items())]
        assert texts[0] == "the colour is teal"
        assert any("noted" in each for each in texts[1:])
        with pytest.raises(UsageError, match="upthread tell"):
            asyncio.run(session.clear_session())
