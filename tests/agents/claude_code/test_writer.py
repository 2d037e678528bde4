"""Who else holds a session: a living process that says so, and nobody else."""

import json
import os

import pytest

from upthread.agents import stored
from upthread.agents._process import started_at_ticks
from upthread.agents.claude_code import reader
from upthread.agents.claude_code.reader import writers_of

SESSION = "1020d86e-ea44-4210-a6cb-ee5f858edd16"


@pytest.fixture
def register(tmp_path):
    def write(name, **more):
        (tmp_path / "sessions").mkdir(exist_ok=True)
        ticks = str(started_at_ticks(os.getpid()))
        told = {"pid": os.getpid(), "sessionId": SESSION, "procStart": ticks, **more}
        (tmp_path / "sessions" / name).write_text(json.dumps(told))

    return write


def test_a_living_process_holds_its_session_and_no_other(tmp_path, register):
    register("1.json")
    assert writers_of(tmp_path, {SESSION}) == {SESSION: os.getpid()}
    assert writers_of(tmp_path, {"another"}) == {}
    environment = {"CLAUDE_CONFIG_DIR": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    assert stored.writers_of(environment, "claude-code", {SESSION}) == {SESSION: os.getpid()}
    assert stored.writers_of(environment, "codex", {SESSION}) == {}


@pytest.mark.parametrize(
    "more", [{"pid": 2**22 + 1}, {"procStart": "1"}, {"procStart": None}, {"pid": "1"}]
)
def test_a_dead_or_another_process_holds_nothing(tmp_path, register, more):
    register("1.json", **more)
    assert writers_of(tmp_path, {SESSION}) == {}


def test_files_of_another_form_are_passed_over(tmp_path, register):
    assert writers_of(tmp_path, {SESSION}) == {}, "a home without any"
    register("2.json")
    (tmp_path / "sessions" / "0.json").write_text("[garbage")
    (tmp_path / "sessions" / "1.json").mkdir()
    assert writers_of(tmp_path, {SESSION}) == {SESSION: os.getpid()}


def test_leftovers_of_dead_processes_stand_before_nothing(tmp_path, register, monkeypatch):
    monkeypatch.setattr(reader, "FILES_MAX", 10)
    for number in range(20):
        register(f"{2**22 + 1 + number}.json", pid=2**22 + 1 + number)
    register(f"{os.getpid()}.json")
    assert writers_of(tmp_path, {SESSION}) == {SESSION: os.getpid()}
