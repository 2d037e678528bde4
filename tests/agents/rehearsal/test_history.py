from __future__ import annotations

from upthread.agents.rehearsal.history import History, replay
from upthread.core.turns.prompt import continuation


def _prompt(text: str) -> dict[str, object]:
    return {"entry": "prompt", "text": text, "messageId": "msg_1"}


def _update(**update: object) -> dict[str, object]:
    return {"entry": "update", "update": update}


def _chunk(text: str) -> dict[str, object]:
    return _update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def _read(path: str, *, status: str) -> list[dict[str, object]]:
    call = {"toolCallId": f"call_{path}"}
    return [
        _update(sessionUpdate="tool_call", kind="read", rawInput={"path": path}, **call),
        _update(sessionUpdate="tool_call_update", status=status, **call),
    ]


def test_replies_are_joined_by_prompt() -> None:
    entries = [_prompt("a"), _chunk("1"), _chunk("2"), _prompt("b"), _prompt("c"), _chunk("3")]
    history = History(entries)
    assert history.prompts == ["a", "b", "c"]
    assert history.replies == ["12", "", "3"]
    assert history.has_spoken
    assert not History([_prompt("a")]).has_spoken


def test_the_role_is_the_newest_block_at_the_start_of_a_line() -> None:
    first, second = '<role name="planner">\nPlan.\n</role>', '<role name="auditor">\n</role>'
    assert History([_prompt(first), _prompt("go on")]).role == "planner"
    assert History([_prompt(first), _prompt(f"hello\n{second}")]).role == "auditor"
    assert History([_prompt(first), _prompt(f"> {second}")]).role == "planner"
    assert History([_prompt("hello")]).role == ""


def test_only_files_whose_content_arrived_were_read() -> None:
    entries = [*_read("a", status="completed"), *_read("b", status="failed")]
    assert History(entries).files_read == {"a"}


def test_a_replay_tells_prompts_and_updates_in_order_and_nothing_else() -> None:
    entries = [{"entry": "session", "cwd": "/"}, _prompt("a"), _chunk("1"), {"entry": "turn_ended"}]
    assert [update["sessionUpdate"] for update in replay(entries, names_messages=True)] == [
        "user_message_chunk", "agent_message_chunk",
    ]  # fmt: skip


def test_the_prompt_that_a_continuation_quotes_is_told_to_a_session_that_never_had_it() -> None:
    lost = '<role name="planner">\n</role>\n\n# Specification\n> quoted\n- R1 `a`: x'
    again = continuation(lost, ())
    history = History([_prompt(continuation(again, ("Run x: done",)))])
    assert history.role == "planner"
    assert history.told[0].endswith(f"\n\n{lost}")
    assert history.prompts[0].startswith("Your last turn was interrupted")
    assert History([_prompt(f"I read:\n> {lost}")]).told == [f"I read:\n> {lost}"]
