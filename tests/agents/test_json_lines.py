"""Questions and their answers by number: the first answer counts, and nobody waits for ever."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from upthread.agents._json_lines import Questions

pytestmark = pytest.mark.anyio
GIVE_UP_S = 10


async def test_of_two_answers_at_once_the_first_counts():
    questions = Questions()

    async def send(number):
        questions.answer(number, {"result": "first"})
        questions.answer(number, {"result": "second"})

    assert await questions.ask(send) == {"result": "first"}


async def test_each_question_has_a_number_of_its_own_and_gets_its_own_answer():
    questions, sent, found = Questions(), [], {}

    async def ask(name):
        async def send(number):
            sent.append((number, name))

        found[name] = await questions.ask(send)

    with anyio.fail_after(GIVE_UP_S):
        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(ask, name)
            while len(sent) < 3:
                await anyio.lowlevel.checkpoint()
            for number, name in reversed(sent):
                questions.answer(number, {"result": name})
    assert found == {name: {"result": name} for name in "abc"}


async def test_an_end_leaves_nobody_waiting_and_nothing_is_sent_after_it():
    questions, sent = Questions(), []

    async def send(number):
        sent.append(number)

    async def sends_as_it_ends(number):
        sent.append(number)
        questions.end()

    with anyio.fail_after(GIVE_UP_S):
        async with anyio.create_task_group() as tasks:

            async def waiting():
                assert await questions.ask(send) is None

            tasks.start_soon(waiting)
            while not sent:
                await anyio.lowlevel.checkpoint()
            assert await questions.ask(sends_as_it_ends) is None
        assert await questions.ask(send) is None
    assert len(sent) == 2


async def test_a_question_that_was_given_up_gets_no_answer_and_keeps_nobody_elses():
    questions, sent = Questions(), []

    async def send(number):
        sent.append(number)
        if len(sent) == 2:
            questions.answer(sent[0], {"result": "late"})
            questions.answer(sent[1], {"result": "right"})

    with anyio.move_on_after(0.05):
        await questions.ask(send)
    assert await questions.ask(send) == {"result": "right"}
