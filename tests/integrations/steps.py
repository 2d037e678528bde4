"""Ten steps with a framework's store, in processes that are killed at each of its commits.

    python -m tests.integrations.steps kills|crowd|cold|clock FRAMEWORK DIRECTORY DATABASE

`kills`: for each commit, one process is killed right before it and one right after it; another one
goes on. The oracle is a file that each step adds a line to, before it is kept. `crowd`: so many
processes at one thread. `cold`: processes that open a record at once which nobody made yet.
`clock`: steps under a clock that goes back. Prints one JSON object: what was found.
"""

import asyncio
import importlib
import itertools
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

from upthread.client.framework_record import FrameworkRecord
from upthread.runtime.record.project_store import ProjectStore

STEPS, PROCESSES, EACH, OPENINGS = 10, 16, 5, 8


class LangGraph:
    """The graph itself runs the steps: what it has checkpointed it does not run again."""

    def __init__(self, record, thread, done):
        import operator
        from typing import Annotated, TypedDict

        from langgraph.graph import END, START, StateGraph

        from upthread.integrations.langgraph import UpthreadSaver

        class State(TypedDict):
            steps: Annotated[list, operator.add]

        graph, names = StateGraph(State), [str(at) for at in range(STEPS)]
        for name in names:
            graph.add_node(name, lambda _, name=name: done(int(name)) or {"steps": [name]})
        for one, other in itertools.pairwise([START, *names, END]):
            graph.add_edge(one, other)
        self.saver = UpthreadSaver(record=record)
        self.graph = graph.compile(checkpointer=self.saver)
        self.config = {"configurable": {"thread_id": thread}}

    def run(self):
        is_begun = self.saver.get_tuple(self.config) is not None
        self.graph.invoke(None if is_begun else {"steps": []}, self.config, durability="sync")

    def kept(self):
        return [int(each) for each in self.graph.get_state(self.config).values.get("steps", [])]

    def finished(self):
        found = self.saver.get_tuple(self.config)
        pending = found.pending_writes if found else []  # kept before the checkpoint with them
        of_steps = (value for _, channel, value in pending if channel == "steps")
        return self.kept() + [int(each) for value in of_steps for each in value]

    def write(self, number):
        place = {**self.config["configurable"], "checkpoint_ns": "", "checkpoint_id": "one"}
        self.saver.put_writes({"configurable": place}, [("c", number)], str(number))

    def written(self):
        found = self.saver._thread(self.config["configurable"]["thread_id"]).ordered_writes(
            "", "one"
        )
        return [self.saver.serde.loads_typed(each.value) for each in found]


class Stepping:
    """The stores that only keep: the steps are ours, and what is kept is not done again."""

    def run(self):
        for at in range(len(self.kept()), STEPS):
            self.done(at)
            self.write(at)

    def write(self, number):
        asyncio.run(self._write(number))

    def written(self):
        return self.kept()

    def finished(self):
        return self.kept()


class ClaudeAgentSdk(Stepping):
    def __init__(self, record, thread, done):
        from upthread.integrations.claude_agent_sdk import UpthreadSessionStore

        self.store, self.done = UpthreadSessionStore(record=record), done
        self.key = {"project_key": "p", "session_id": thread}

    async def _write(self, number):
        await self.store.append(self.key, [{"type": "x", "uuid": str(number), "n": number}])

    def kept(self):
        return [each["n"] for each in asyncio.run(self.store.load(self.key)) or []]


class OpenaiAgents(Stepping):
    def __init__(self, record, thread, done):
        from upthread.integrations.openai_agents import UpthreadSession

        self.session, self.done = UpthreadSession(thread, record=record), done

    async def _write(self, number):
        await self.session.add_items([{"role": "user", "content": str(number)}])

    def kept(self):
        return [int(each["content"]) for each in asyncio.run(self.session.get_items())]


class PydanticAi(Stepping):
    def __init__(self, record, thread, done):
        from upthread.integrations.pydantic_ai import UpthreadConversationStore

        self.store, self.thread, self.done = UpthreadConversationStore(record=record), thread, done

    async def _write(self, number):
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import ConversationConflict
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        while True:
            conversation = await self.store.load(self.thread)
            conversation = conversation or Conversation(conversation_id=self.thread)
            conversation.messages.append(ModelRequest(parts=[UserPromptPart(str(number))]))
            try:
                await self.store.save(conversation)
            except ConversationConflict:
                continue
            return

    def kept(self):
        conversation = asyncio.run(self.store.load(self.thread))
        messages = conversation.messages if conversation else []
        return [int(part.content) for each in messages for part in each.parts]


class GoogleAdk(Stepping):
    def __init__(self, record, thread, done):
        from upthread.integrations.google_adk import UpthreadSessionService

        self.service, self.done = UpthreadSessionService(record=record), done
        self.key = {"app_name": "a", "user_id": "u", "session_id": thread}

    async def _session(self):
        from google.adk.errors.already_exists_error import AlreadyExistsError

        while (session := await self.service.get_session(**self.key)) is None:
            try:
                await self.service.create_session(**self.key)
            except AlreadyExistsError:
                continue
        return session

    async def _write(self, number):
        from google.adk.errors._stale_session_error import StaleSessionError
        from google.adk.events.event import Event
        from google.adk.events.event_actions import EventActions

        while True:
            session = await self._session()
            delta = {f"n{number}": number, f"user:n{number}": number}
            event = Event(author="user", actions=EventActions(state_delta=delta))
            try:
                await self.service.append_event(session, event)
            except StaleSessionError:
                continue
            return

    def kept(self):
        session = asyncio.run(self._session())
        numbers = [next(iter(each.actions.state_delta.values())) for each in session.events]
        # What an event changes is kept with it, or neither is.
        assert {session.state[f"n{each}"] for each in numbers} == set(numbers)
        return numbers


class AgentFramework(Stepping):
    def __init__(self, record, thread, done):
        from upthread.integrations.agent_framework import UpthreadCheckpointStorage

        self.storage, self.thread = UpthreadCheckpointStorage(record=record), thread
        self.done = done

    async def _write(self, number):
        from agent_framework import WorkflowCheckpoint

        checkpoint = WorkflowCheckpoint(
            workflow_name=self.thread, graph_signature_hash="h", state={"n": number}
        )
        await self.storage.save(checkpoint)

    def kept(self):
        found = asyncio.run(self.storage.list_checkpoints(workflow_name=self.thread))
        return [each.state["n"] for each in found]


FRAMEWORKS = {
    "langgraph": LangGraph,
    "claude-agent-sdk": ClaudeAgentSdk,
    "openai-agents": OpenaiAgents,
    "pydantic-ai": PydanticAi,
    "google-adk": GoogleAdk,
    "agent-framework": AgentFramework,
}


def begun(work):
    """Begin it in a process of its own, and return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return pid


def in_a_process(work):
    """Do it in a process of its own; returns the signal that ended it, 0 for none."""
    _, status = os.waitpid(begun(work), 0)
    assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status)), "a process failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def killed_at(number, when):
    """Let this process be killed before or after its commit of this number."""
    commit, count = ProjectStore.commit, itertools.count(1)

    def counted(self, *args, **kwargs):
        is_it = next(count) == number
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, *args, **kwargs)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)

    ProjectStore.commit = counted


def kills(make, open_record, directory):
    kills_made, faults = 0, []
    for when in ("before", "after"):
        for number in itertools.count(1):
            thread, journal = f"{when}-{number}", directory / f"{when}-{number}"
            journal.touch()

            def work(is_killed, thread=thread, journal=journal, number=number, when=when):
                if is_killed:
                    killed_at(number, when)

                def done(step):
                    with journal.open("a") as lines:
                        lines.write(f"{step}\n")

                with open_record() as record:
                    make(record, thread, done).run()

            was_killed = in_a_process(lambda: work(True)) == signal.SIGKILL
            with open_record() as record:
                store = make(record, thread, lambda _: None)
                finished = {str(each) for each in store.finished()}
            before = set(journal.read_text().split())
            in_a_process(lambda: work(False))
            with open_record() as record:
                kept = make(record, thread, lambda _: None).kept()
            done = Counter(journal.read_text().split())
            twice = [step for step, times in done.items() if times > 1]
            # A step that was done and not kept when its process was killed is not finished: that
            # one alone may be done again.
            if kept != list(range(STEPS)) or not set(twice) <= before - finished:
                faults.append([when, number, kept, dict(done)])
            kills_made += was_killed
            if not was_killed:
                break
    return {"kills": kills_made, "faults": faults}


def all_at_once(count, work):
    """Let processes do their work at the same moment; returns how many of them failed."""
    waiting, go = os.pipe()

    def wait_and_work(process):
        os.close(go)
        os.read(waiting, 1)  # until the other end is closed
        work(process)

    pids = [begun(partial(wait_and_work, process)) for process in range(count)]
    os.close(go)
    return len([pid for pid in pids if os.waitpid(pid, 0)[1]])


def crowd(make, open_record, _directory):
    def work(process):
        with open_record() as record:
            store = make(record, "crowd", lambda _: None)
            for at in range(EACH):
                store.write(process * EACH + at)

    failed = all_at_once(PROCESSES, work)
    with open_record() as record:
        written = make(record, "crowd", lambda _: None).written()
    ordered = all(
        [each for each in written if each // EACH == process]
        == list(range(process * EACH, process * EACH + EACH))
        for process in range(PROCESSES)
    )
    return {"failed": failed, "written": sorted(written), "is_ordered": ordered}


def cold(make, open_record, _directory):
    """Let processes open a new record, and each keep one step."""

    def work(process):
        with open_record() as record:
            make(record, "cold", lambda _: None).write(process)

    failed = all_at_once(OPENINGS, work)
    with open_record() as record:
        written = make(record, "cold", lambda _: None).written()
    return {"failed": failed, "written": sorted(written)}


def clock(make, open_record, _directory):
    """Keep steps while the clock goes back by an hour at each look at it."""
    hour_s, now_s = 3600, time.time()  # noqa: TID251  # the clock itself
    looks = itertools.count(1)

    def earlier_s():
        return now_s - hour_s * next(looks)

    time.time, time.time_ns = earlier_s, lambda: int(earlier_s() * 1e9)  # noqa: TID251
    for at in range(STEPS):
        with open_record() as record:
            make(record, "clock", lambda _: None).write(at)
    with open_record() as record:
        return {"written": make(record, "clock", lambda _: None).written(), "looks": next(looks)}


def main():
    warnings.simplefilter("ignore")
    what, framework, directory, database = sys.argv[1:]
    place = Path(directory)
    home = str(place / "home")
    environment = {"HOME": home, "UPTHREAD_HOME": home, "PATH": os.environ["PATH"]}

    def open_record():
        return FrameworkRecord(place / "repository", database=database, environment=environment)

    make = FRAMEWORKS[framework]
    # Imported before anything is forked: what is killed is a store, and not an import.
    if what == "cold":
        importlib.import_module(f"upthread.integrations.{framework.replace('-', '_')}")
    else:
        with open_record() as record:
            make(record, "warm", lambda _: None).kept()
    doing = {"kills": kills, "crowd": crowd, "cold": cold, "clock": clock}[what]
    print(json.dumps(doing(make, open_record, place)))


if __name__ == "__main__":
    main()
