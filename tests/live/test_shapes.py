"""Each shape of a session on disk: what the real agent does with it is what the table says.

`UPTHREAD_WRITE_MEASURED=1` measures again, `UPTHREAD_RECORD_SHAPES=1` stores the sessions anew
that the shapes are made from.
"""

import os

import pytest
from tests.support.sets import SOAK
from tools.shapes import live
from tools.shapes.stages import HOMES, name_of

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), SOAK]

BINARIES = {"claude-code": "claude_binary", "codex": "codex_binary", "opencode": "opencode_binary"}


@pytest.fixture
def model():
    """A model that answers whatever history it is shown, and notes which rule it breaks."""
    with RehearsalModel(strict=False) as model:
        yield model


@pytest.fixture(scope="module")
def opencode_home(opencode_binary, tmp_path_factory):
    return live.made_home(str(opencode_binary), tmp_path_factory.mktemp("opencode"))


@pytest.fixture(scope="module")
def server(opencode_binary, opencode_home):
    with live.opencode_server(str(opencode_binary), opencode_home) as server:
        yield server


@pytest.mark.skipif(not os.environ.get("UPTHREAD_RECORD_SHAPES"), reason="only if a person asks")
@pytest.mark.parametrize("agent", HOMES)
def test_a_session_is_recorded(agent, model, tmp_path, request):
    live.record(agent, str(request.getfixturevalue(BINARIES[agent])), model, tmp_path)


@pytest.mark.parametrize(("agent", "shape"), live.OF_FILES, ids=map(name_of, live.OF_FILES))
def test_the_agent_does_with_each_shape_as_the_table_says(agent, shape, model, tmp_path, request):
    binary = str(request.getfixturevalue(BINARIES[agent]))
    top = request.getfixturevalue("opencode_home") if agent == "opencode" else None
    live.measure(agent, shape, binary=binary, model=model, place=tmp_path, top=top)


@pytest.mark.parametrize("shape", live.ROWS, ids=lambda shape: shape.name)
def test_opencode_does_with_each_shape_of_rows_as_the_table_says(shape, server, tmp_path):
    live.measure_rows(shape, server, tmp_path)
