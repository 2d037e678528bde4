"""The launcher of our own modules: nothing that lies about is imported, whatever names it."""

import os
import subprocess
from pathlib import Path

import pytest

from upthread.boundary import programs

pytestmark = pytest.mark.extended

SEEN = "import sys; sys.stderr.write('CANARY ' + __name__); sys.exit(97)\n"
MODULES = (
    "upthread sitecustomize usercustomize runpy argparse anyio msgspec json queue typing os re"
)


@pytest.mark.parametrize("named_by", ["cwd", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "home"])
def test_nothing_is_imported_from_where_it_is_started(tmp_path: Path, named_by):
    for name in MODULES.split():
        (tmp_path / f"{name}.py").write_text(SEEN)
    (tmp_path / "encodings").mkdir()
    (tmp_path / "encodings" / "__init__.py").write_text(SEEN)
    (tmp_path / "pyvenv.cfg").write_text(f"home = {tmp_path}\n")
    (tmp_path / "decoy.pth").write_text("import upthread\n")
    environment = {"PATH": os.environ["PATH"]}
    if named_by == "home":
        site = tmp_path / ".local" / "lib" / "python3.11" / "site-packages"
        site.mkdir(parents=True)
        (site / "decoy.pth").write_text(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n")
        environment["PYTHONUSERBASE"] = str(tmp_path / ".local")
    elif named_by != "cwd":
        name = "queue.py" if named_by == "PYTHONSTARTUP" else ""
        environment[named_by] = str(tmp_path / name)
    done = subprocess.run(
        programs.own_module("upthread", "--help"),
        cwd=tmp_path,
        env={"HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "CANARY" in done.stderr) == (0, False), done.stderr
