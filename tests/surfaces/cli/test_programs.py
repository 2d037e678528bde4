"""Programs that others call by their module keep their names (ADR 91)."""

import subprocess
import sys

import pytest

from upthread import __version__

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("module", ["upthread", "upthread.surfaces.cli"])
def test_the_program_is_called_by_either_name_and_imports_nothing_from_where_it_is_called(
    module, tmp_path
):
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from where it was called')\n")
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, f"upthread {__version__}\n"), done.stderr
