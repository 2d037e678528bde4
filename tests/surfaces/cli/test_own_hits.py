"""What is in our own record is found, however it is stored: texts, results, arguments of calls."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import anyio
import pytest
from tests.support.default_turn import Place, commits_of, open_place, prepare_turn
from tests.support.every_case import environment_of

from upthread.agent_stores.text_search import Words
from upthread.client import Project, open_project
from upthread.core.commands import RecordParts
from upthread.core.types import Speaker, TextPart, ToolCallPart, ToolResultPart
from upthread.runtime.record.project_store import ProjectStore
from upthread.store.base import WholeStore
from upthread.surfaces.cli.search.own import MESSAGES_AT_ONCE, own_hits

pytestmark = pytest.mark.extended

WORDS = (
    *("plain", "MiXed", 'say"quoted"', "back\\slash", "naïve", "Straße", "日本語", "🙂", "</b>"),
    *('{"a":', "it's", "%_*", "\x1b[0m", "\u202e", "\x7f", "&amp;", "a" * 200),
)


def _recorded(project: Project) -> None:
    store = cast("WholeStore", cast("ProjectStore", project.store).behind)
    place = open_place(store, "w", project=project.project_id)
    turn = prepare_turn(place, 0)
    for writes in commits_of(place, turn):
        store.commit(writes)
    seq = 6
    for word in WORDS:
        text = f"before {word} behind"
        call = ToolCallPart(call_id=f"c{seq}", title="", tool_kind="read", arguments={"x": [text]})
        result = ToolResultPart(call_id=f"c{seq}", status="completed", text=text)
        for part in (TextPart(text=text), call, result):
            seq += 1
            _record(store, place, seq, turn.turn_id, part)
        for _ in range(MESSAGES_AT_ONCE):  # so that each is looked for in a place of its own
            seq += 1
            _record(store, place, seq, turn.turn_id, TextPart(text="nothing of it"))


def _record(store: WholeStore, place: Place, seq: int, turn_id: object, part: object) -> None:
    write = RecordParts(
        conversation_id=place.conversation.conversation_id,
        seq=seq,
        first_ordinal=0,
        speaker=Speaker.ASSISTANT,
        turn_id=turn_id,  # type: ignore[arg-type]
        upstream_session_id=place.link.upstream_session_id,
        recorded_at_ms=seq,
        parts=(part,),  # type: ignore[arg-type]
    )
    store.commit((write,))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    directory: Path = tmp_path_factory.mktemp("own-hits")
    (directory / "project").mkdir()

    async def looked() -> dict[str, int]:
        environment = environment_of(directory)
        async with open_project(directory / "project", environment=environment) as project:
            _recorded(project)
            return {word: sum(1 for _ in own_hits(project, Words([word]), set())) for word in WORDS}

    return anyio.run(looked)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_found_in_a_text_in_a_call_and_in_a_result(found, word):
    assert found[word] == 3
