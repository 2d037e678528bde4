"""The demo's first twenty seconds: one kill, one resume, one sentence, and what to type next."""

import os
import re
import subprocess
import sys

import pytest

from upthread.core.decision.words import RESUME, done_in_words

pytestmark = pytest.mark.extended


@pytest.mark.soak
def test_a_role_is_killed_and_goes_on_in_its_session_and_nothing_is_left_of_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "upthread", "demo"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert done.stdout.count("kill -9") == 1
    assert re.search(done_in_words(RESUME, r"ses_\w+"), done.stdout)
    assert "the turn did not come to its end; it goes on from there" in done.stdout
    assert "went on in the session it had" in done.stdout
    assert len(lines) <= 25
    for command in ("upthread", "upthread setup claude"):
        assert any(line.endswith(f" {command}") for line in lines[-2:])
    assert list(tmp_path.iterdir()) == []
