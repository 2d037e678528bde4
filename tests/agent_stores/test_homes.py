"""Where agents keep their stores, said apart from what reads them."""

from pathlib import Path

import pytest
from tests.support.by_hand import of_each

from upthread.agent_stores import homes
from upthread.core.agents import WITH_A_STORE


@pytest.mark.parametrize(
    ("agent", "variable"),
    of_each(
        WITH_A_STORE,
        {
            "claude-code": ("claude-code", "CLAUDE_CONFIG_DIR"),
            "codex": ("codex", "CODEX_HOME"),
            "opencode": ("opencode", "XDG_DATA_HOME"),
        },
    ).values(),
)
def test_every_agent_with_a_store_has_a_home_and_its_own_variable_comes_first(agent, variable):
    assert homes.home_of(agent, {"HOME": "/h"}).is_relative_to(Path("/h"))
    assert homes.home_of(agent, {"HOME": "/h", variable: "/elsewhere"}) == Path("/elsewhere")


def test_a_file_is_known_by_another_stamp_once_somebody_wrote_to_it(tmp_path):
    path = tmp_path / "transcript"
    path.write_text("a")
    before = homes.file_stamp(path)
    assert homes.file_stamp(path) == before
    path.write_text("ab")
    assert homes.file_stamp(path) != before
