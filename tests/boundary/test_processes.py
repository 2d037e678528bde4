"""The processes above this one: what they were started with, the nearest first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upthread.boundary.programs import environments_above

SHOW = (
    "import json; from upthread.boundary.programs import environments_above as above; "
    "print(json.dumps([each.get('PLACE') for each in above()]))"
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="this system does not tell"
)


def test_each_process_above_is_told_with_what_it_was_started_with():
    inner = ["sh", "-c", '"$@"; true', "sh", "env", "-i", sys.executable, "-c", SHOW]
    outer = ["sh", "-c", '"$@"; true', "sh", "env", "PLACE=inner", *inner]
    environment = {**os.environ, "PLACE": "outer"}
    told = subprocess.run(outer, env=environment, check=True, capture_output=True, text=True)
    assert json.loads(told.stdout)[:2] == ["inner", "outer"]


def test_our_own_environment_is_none_of_those_above(monkeypatch):
    monkeypatch.setenv("UPTHREAD_TEST_OF_ANCESTRY", "1")
    assert all("UPTHREAD_TEST_OF_ANCESTRY" not in each for each in environments_above())
