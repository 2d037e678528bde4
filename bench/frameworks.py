"""`make bench-peers`: a turn of each framework on our store and on its own, in one interleaved run.

    PYTHONPATH=. .frameworks/bin/python bench/frameworks.py [--only langgraph,…] [--quick] [--json]

A turn is what the framework itself does with its store for one exchange. Both stores are filled to
the same length first, then take turns. Bytes are those of the database files, one checkpoint after
the last turn. The framework's store in memory stands beside both: what it takes is the framework's
own work, whatever store is under it. Frameworks without a durable store stand without one.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from measure import Timing, interleaved
from msgspec import Struct
from scratch import scratch
from tests.support.postgres_server import drop_database_at, migrated_database_at

from upthread.client.framework_record import FrameworkRecord

LENGTHS = (10, 1_000, 10_000)
TURNS, QUICK_TURNS = 30, 6
TEXT = "some words of a message, as long as many are. " * 4

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


class Side(Struct, frozen=True, kw_only=True):
    """A store with a conversation in it: what one turn does, and the bytes it takes on disk."""

    turn: Callable[[int], object]
    size: Callable[[], int]


class Sides(Struct, frozen=True, kw_only=True):
    """Our store, the framework's in memory, and its durable one where it has one for a database."""

    ours: Side
    memory: Side
    theirs: Side | None = None


class Figure(Struct, frozen=True, kw_only=True):
    """What a turn took at one length, in each store."""

    framework: str
    database: str
    length: int
    ours: Timing
    memory: Timing
    theirs: Timing | None
    ours_bytes: int
    theirs_bytes: int | None


# --- the frameworks: what a turn is in each -------------------------------------------------------


def langgraph(place: Place, length: int) -> Sides:
    """A graph of one node that replies; its state is the list of messages."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from upthread.integrations.langgraph import UpthreadSaver

    def side(saver: Any, size: Callable[[], int]) -> Side:
        graph = StateGraph(MessagesState)
        graph.add_node("reply", lambda _: {"messages": [AIMessage(TEXT)]})
        graph.add_edge(START, "reply")
        graph.add_edge("reply", END)
        app = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}
        messages = [(HumanMessage, AIMessage)[at % 2](f"{at} {TEXT}") for at in range(length)]
        app.update_state(config, {"messages": messages}, as_node="reply")
        return Side(
            turn=lambda at: app.invoke({"messages": [HumanMessage(f"{at} {TEXT}")]}, config),
            size=size,
        )

    path = place.directory / "theirs.db"
    if place.is_postgres:
        from langgraph.checkpoint.postgres import PostgresSaver

        saver = place.enter(PostgresSaver.from_conn_string(place.other_database()))
        saver.setup()
        theirs = side(saver, place.other_size)
    else:
        saver = place.enter(SqliteSaver.from_conn_string(str(path)))
        theirs = side(saver, lambda: bytes_of(path))
    return Sides(
        ours=side(UpthreadSaver(record=place.record()), place.size),
        memory=side(InMemorySaver(), no_bytes),
        theirs=theirs,
    )


def openai_agents(place: Place, length: int) -> Sides:
    """A run of the Runner's: the history is read, two items are added."""
    from agents.memory import SQLiteSession

    from upthread.integrations.openai_agents import UpthreadSession

    async def turn(session: Any, at: int) -> None:
        await session.get_items()
        await session.add_items([{"role": "user", "content": f"{at} {TEXT}"}])
        await session.add_items([{"role": "assistant", "content": TEXT}])

    def side(session: Any, size: Callable[[], int]) -> Side:
        items: Any = [{"role": "user", "content": f"{at} {TEXT}"} for at in range(length)]
        place.run(session.add_items(items))
        return Side(turn=lambda at: place.run(turn(session, at)), size=size)

    path = place.directory / "theirs.db"
    return Sides(
        ours=side(UpthreadSession("s", record=place.record()), place.size),
        memory=side(SQLiteSession("s"), no_bytes),
        theirs=None
        if place.is_postgres
        else side(SQLiteSession("s", path), lambda: bytes_of(path)),
    )


def google_adk(place: Place, length: int) -> Sides:
    """A run of the Runner's: the session is read, two events are appended."""
    from google.adk.events.event import Event
    from google.adk.sessions import DatabaseSessionService, InMemorySessionService
    from google.genai import types

    from upthread.integrations.google_adk import UpthreadSessionService

    where = {"app_name": "app", "user_id": "me", "session_id": "s"}

    def event(text: str, author: str) -> Event:
        return Event(
            author=author, content=types.Content(role=author, parts=[types.Part(text=text)])
        )

    async def turn(service: Any, at: int) -> None:
        session = await service.get_session(**where)
        await service.append_event(session, event(f"{at} {TEXT}", "user"))
        await service.append_event(session, event(TEXT, "model"))

    async def fill(service: Any) -> None:
        session = await service.create_session(**where)
        for at in range(length):
            await service.append_event(session, event(f"{at} {TEXT}", "user"))

    def side(service: Any, size: Callable[[], int]) -> Side:
        place.run(fill(service))
        return Side(turn=lambda at: place.run(turn(service, at)), size=size)

    path = place.directory / "theirs.db"
    theirs = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    return Sides(
        ours=side(UpthreadSessionService(record=place.record()), place.size),
        memory=side(InMemorySessionService(), no_bytes),
        theirs=None if place.is_postgres else side(theirs, lambda: bytes_of(path)),
    )


def agent_framework(place: Place, length: int) -> Sides:
    """A superstep of a workflow whose state holds the conversation: one checkpoint is saved."""
    from agent_framework import FileCheckpointStorage, InMemoryCheckpointStorage, WorkflowCheckpoint

    from upthread.integrations.agent_framework import UpthreadCheckpointStorage

    def side(storage: Any, size: Callable[[], int]) -> Side:
        said = [f"{at} {TEXT}" for at in range(length)]

        def save(at: int) -> None:
            said.append(f"{at} {TEXT}")
            checkpoint = WorkflowCheckpoint(
                workflow_name="w", graph_signature_hash="h", state={"said": list(said)}
            )
            place.run(storage.save(checkpoint))

        save(0)
        return Side(turn=save, size=size)

    folder = place.directory / "theirs"
    theirs = FileCheckpointStorage(folder)
    return Sides(
        ours=side(UpthreadCheckpointStorage(record=place.record()), place.size),
        memory=side(InMemoryCheckpointStorage(), no_bytes),
        theirs=None
        if place.is_postgres
        else side(theirs, lambda: sum(each.stat().st_size for each in folder.rglob("*"))),
    )


def pydantic_ai(place: Place, length: int) -> Sides:
    """A run of an agent: the conversation is loaded and saved. Their own store is in memory."""
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import InMemoryConversationStore
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models.test import TestModel

    from upthread.integrations.pydantic_ai import UpthreadConversationStore

    agent = Agent(TestModel(custom_output_text=TEXT))

    async def turn(store: Any, at: int) -> None:
        conversation = await store.load("c") or Conversation(conversation_id="c")
        await store.save(await agent.run(f"{at} {TEXT}", conversation=conversation))

    def side(store: Any, size: Callable[[], int]) -> Side:
        messages = [ModelRequest.user_text_prompt(f"{at} {TEXT}") for at in range(length)]
        conversation = Conversation(conversation_id="c", messages=messages)
        first = place.run(agent.run("first", conversation=conversation))
        place.run(store.save(first))
        return Side(turn=lambda at: place.run(turn(store, at)), size=size)

    return Sides(
        ours=side(UpthreadConversationStore(record=place.record()), place.size),
        memory=side(InMemoryConversationStore(), no_bytes),
    )


def claude_agent_sdk(place: Place, length: int) -> Sides:
    """A batch of the mirror's: two entries are appended. The SDK has no durable store."""
    from claude_agent_sdk import InMemorySessionStore

    from upthread.integrations.claude_agent_sdk import UpthreadSessionStore

    key: Any = {"project_key": "p", "session_id": "11111111-2222-3333-4444-555555555555"}

    def entry(name: str) -> Any:
        return {"type": "user", "uuid": name, "message": {"role": "user", "content": TEXT}}

    def side(store: Any, size: Callable[[], int]) -> Side:
        place.run(store.append(key, [entry(str(at)) for at in range(length)]))
        return Side(
            turn=lambda at: place.run(store.append(key, [entry(f"u{at}"), entry(f"a{at}")])),
            size=size,
        )

    return Sides(
        ours=side(UpthreadSessionStore(record=place.record()), place.size),
        memory=side(InMemorySessionStore(), no_bytes),
    )


FRAMEWORKS = {
    each.__name__: each
    for each in (
        langgraph,
        openai_agents,
        google_adk,
        agent_framework,
        pydantic_ai,
        claude_agent_sdk,
    )
}


# --- where it is measured ------------------------------------------------------------------------


class Place:
    """A directory with a record of ours, on one of the databases, and room for another store."""

    def __init__(self, directory: Path, database: str) -> None:
        self.directory, self.is_postgres = directory, database == "postgres"
        subprocess.run(["git", "init", "--quiet", directory], check=True)
        self._contexts: list[Any] = []
        self._loop = asyncio.new_event_loop()
        self._others = directory / "others"
        self.address = (
            migrated_database_at(directory) if self.is_postgres else str(directory / "ours.db")
        )

    def record(self) -> FrameworkRecord:
        home = str(self.directory / "home")
        environment = {"HOME": home, "UPTHREAD_HOME": home, "PATH": os.environ["PATH"]}
        self._record = self.enter(
            FrameworkRecord(self.directory, database=self.address, environment=environment)
        )
        return self._record

    def enter(self, context: Any) -> Any:
        entered = context.__enter__()
        self._contexts.append(context)
        return entered

    def run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def size(self) -> int:
        if self.is_postgres:
            return _size_of(self.address)
        # Through its own connection: another one in this process would let go of its locks.
        connection = self._record._parts.store.behind.database.connection  # noqa: SLF001
        return connection.pragma("page_count") * connection.pragma("page_size")

    def other_database(self) -> str:
        self._others.mkdir(exist_ok=True)
        return migrated_database_at(self._others)

    def other_size(self) -> int:
        return _size_of(migrated_database_at(self._others))

    def close(self) -> None:
        for each in reversed(self._contexts):
            each.__exit__(None, None, None)
        self._loop.close()
        if self.is_postgres:
            drop_database_at(self.directory)
            if self._others.exists():
                drop_database_at(self._others)


def _size_of(address: str) -> int:
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(found[0])


def bytes_of(path: Path) -> int:
    """Return the bytes of a SQLite database with all that is committed."""
    with closing(sqlite3.connect(path)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])


def no_bytes() -> int:
    """Return what a store in memory takes on disk."""
    return 0


def figures(names: list[str], databases: list[str], turns: int) -> Iterator[Figure]:
    """Measure each framework at each length."""
    for name in names:
        for database in databases:
            for length in LENGTHS:
                print(f"{name} on {database}, {length:,} …", file=sys.stderr, flush=True)
                with measured_place(database) as place:
                    yield _figure(name, database, length, place, turns)


@contextmanager
def measured_place(database: str) -> Iterator[Place]:
    """Return a place on a disk where a sync costs what it does, removed afterwards."""
    with scratch() as directory:
        place = Place(directory, database)
        try:
            yield place
        finally:
            place.close()


def _figure(name: str, database: str, length: int, place: Place, turns: int) -> Figure:
    found = FRAMEWORKS[name](place, length)
    sides = {"ours": found.ours, "memory": found.memory}
    if found.theirs:
        sides["theirs"] = found.theirs
    for each in sides.values():
        each.turn(-1)
    before = {side: each.size() for side, each in sides.items()}
    timings = interleaved(
        {side: each.turn for side, each in sides.items()}, repetitions=turns, budget_s=60
    )
    grown = {
        side: (each.size() - before[side]) // (timings[side].repetitions + 1)
        for side, each in sides.items()
    }
    return Figure(
        framework=name,
        database=database,
        length=length,
        ours=timings["ours"],
        memory=timings["memory"],
        theirs=timings.get("theirs"),
        ours_bytes=grown["ours"],
        theirs_bytes=grown.get("theirs"),
    )


def as_table(found: list[Figure]) -> str:
    """Return the figures as a Markdown table: milliseconds and kilobytes for one turn."""
    lines = [
        "| framework | on | length | ours, ms | in memory | its own | ratio | CPU | KB | its own |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for each in found:
        theirs = each.theirs
        cells = (
            each.framework,
            each.database,
            f"{each.length:,}",
            f"{each.ours.wall_p10_us / 1000:,.1f}",
            f"{each.memory.wall_p10_us / 1000:,.1f}",
            f"{theirs.wall_p10_us / 1000:,.1f}" if theirs else "—",
            f"{each.ours.wall_p10_us / theirs.wall_p10_us:.2f}" if theirs else "—",
            f"{each.ours.cpu_p50_us / theirs.cpu_p50_us:.2f}" if theirs else "—",
            f"{each.ours_bytes / 1000:,.1f}",
            f"{each.theirs_bytes / 1000:,.1f}" if each.theirs_bytes is not None else "—",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(FRAMEWORKS))
    parser.add_argument(
        "--databases", type=lambda text: text.split(","), default=["sqlite", "postgres"]
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = list(figures(options.only, options.databases, QUICK_TURNS if options.quick else TURNS))
    if options.json:
        print(json.dumps([_as_json(each) for each in found]))
    else:
        print(as_table(found))


def _as_json(figure: Figure) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in figure.__struct_fields__}


if __name__ == "__main__":
    main()
