"""A full disk: what is there is read and copied, and what needs room says so and loses nothing."""

import json
import shutil
import subprocess
import sys

import pytest

WORLD = """
mount -t tmpfs -o size=3m tmpfs "$UPTHREAD_HOME"
up() { "$PYTHON" -m upthread "$@" </dev/null; }
up tell w/planner hello --agent rehearsal >/dev/null || exit 9
head -c 4m /dev/zero >"$UPTHREAD_HOME/fill" 2>/dev/null
"""
IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
CAN_MOUNT = shutil.which("unshare") and (
    subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
)


@pytest.mark.extended
@pytest.mark.skipif(not CAN_MOUNT, reason="no file system can be mounted here")
def test_on_a_full_disk_the_record_is_read_and_copied_and_what_needs_room_says_so(shared, tmp_path):
    home = tmp_path / "small"
    home.mkdir()
    copy = tmp_path / "copy.db"
    reading = "ls show:w id:w/planner why:w/planner effects:w audit:w doctor:upthread".split()
    verbs = [each.replace(":", " ") for each in reading] + [f"backup {copy}"]
    lines = [f"up {verb} >&2 || exit 1" for verb in verbs]
    needing = ["up tell w/planner more --agent rehearsal --json", "up forget w --yes --json"]
    lines += [f"{each} | tail -1" for each in needing]
    lines += ['rm "$UPTHREAD_HOME/fill"', "up forget w --yes >&2"]
    done = subprocess.run(
        [*IN_A_NAMESPACE, "\n".join((WORLD, *lines))],
        cwd=shared.directory,
        env={**shared.environment, "UPTHREAD_HOME": str(home), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for each in told:
        message = each["error"]["message"]
        assert "No space left on device" in message or "disk is full" in message, told
        assert "free some space" in each["error"]["hint"]
    assert len(told) == len(needing)
    assert copy.stat().st_size > 0
