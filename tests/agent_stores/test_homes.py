"""Where agents keep their stores, said apart from what reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from upthread.agent_stores import homes
from upthread.core.agents import WITH_A_STORE


@pytest.mark.parametrize("agent", WITH_A_STORE)
def test_every_agent_whose_store_is_read_has_a_home(agent):
    assert homes.home_of(agent, {"HOME": "/h"}).is_relative_to(Path("/h"))


@pytest.mark.parametrize(
    ("agent", "variable"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("opencode", "XDG_DATA_HOME"),
    ],
)
def test_the_agent_s_own_variable_comes_before_home(agent, variable):
    assert homes.home_of(agent, {"HOME": "/h", variable: "/elsewhere"}) == Path("/elsewhere")


def test_a_file_is_known_by_another_stamp_once_somebody_wrote_to_it(tmp_path):
    path = tmp_path / "transcript"
    path.write_text("a")
    before = homes.file_stamp(path)
    assert homes.file_stamp(path) == before
    path.write_text("ab")
    assert homes.file_stamp(path) != before
