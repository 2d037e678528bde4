"""A folder full of decoys: whatever imports or starts one of them has left the canary."""

import sys
from pathlib import Path

IMPORTED = """\
upthread click rich anyio msgspec yaml h11 apsw re2 acp mcp platformdirs keyring psycopg
click h11 httpcore certifi idna sniffio sitecustomize usercustomize pydantic starlette uvicorn
"""
STARTED = """\
git python python3 node npx bun deno sh bash env setpriv true ps my-editor editor vi nano less
opencode codex claude gemini codex-acp claude-agent-acp upthread ssh uname stty clear
"""
MODULE = """\
import os, sys
try:
    with open({canary!r}, "a") as file:
        file.write(__name__ + " imported by " + repr(sys.argv) + "\\n")
except OSError:
    pass
"""
PROGRAM = '#!/bin/sh\necho "$0 started" >> {canary!r}\nexit 97\n'
SCRIPT = 'require("node:fs").appendFileSync({canary!r}, "node\\n")\n'

FOLDERS = ("", "bin", "node_modules/.bin", ".venv/bin")
"""Where programs lie, and what a hostile PATH names."""


class Decoys:
    """Decoys in one folder, and whether anything fell for them."""

    def __init__(self, folder: Path, canary: Path) -> None:
        self.folder = folder
        self.canary = canary
        self._put_modules()
        self._put_programs()
        self._put_settings()

    @property
    def path(self) -> str:
        """A PATH that begins with each way of naming the folder."""
        relative = [f"./{each}" if each else "." for each in FOLDERS]
        absolute = [str(self.folder / each) for each in FOLDERS]
        return ":".join(["", *relative, "node_modules/.bin", *absolute])

    @property
    def python_environment(self) -> dict[str, str]:
        """What makes a Python that looks at its environment import decoys."""
        return {
            "PYTHONPATH": f"{self.folder}:.:",
            "PYTHONHOME": str(self.folder),
            "PYTHONSTARTUP": str(self.folder / "queue.py"),
            "PYTHONUSERBASE": str(self.folder / ".local"),
            "VIRTUAL_ENV": str(self.folder / ".venv"),
        }

    def assert_nothing_ran(self) -> None:
        assert not self.canary.exists(), self.canary.read_text()

    def _put_modules(self) -> None:
        text = MODULE.format(canary=str(self.canary))
        for name in {*sys.stdlib_module_names, *IMPORTED.split()} - {"__future__"}:
            (self.folder / f"{name}.py").write_text(text)
        for package in ("encodings", "anyio", "importlib", "json", "upthread/surfaces/cli"):
            (self.folder / package).mkdir(parents=True)
            (self.folder / package / "__init__.py").write_text(text)
        for name in ("__init__", "__main__"):
            (self.folder / "upthread" / f"{name}.py").write_text(text)
        site = self.folder / ".local/lib/python3.11/site-packages"
        site.mkdir(parents=True)
        hijack = f"import sys; sys.path.insert(0, {str(self.folder)!r})\n"
        for place in (site, self.folder):
            (place / "decoy.pth").write_text(hijack)
        (self.folder / "pyvenv.cfg").write_text(f"home = {self.folder}\n")

    def _put_programs(self) -> None:
        for folder in FOLDERS:
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
            for name in STARTED.split():
                path = self.folder / folder / name
                if path.is_dir():
                    continue  # the package of that name
                path.write_text(PROGRAM.format(canary=str(self.canary)))
                path.chmod(0o755)

    def _put_settings(self) -> None:
        script = self.folder / "decoy.js"
        script.write_text(SCRIPT.format(canary=str(self.canary)))
        (self.folder / "package.json").write_text('{"type": "commonjs", "main": "decoy.js"}\n')
        (self.folder / ".npmrc").write_text("node-options=--require ./decoy.js\n")
        (self.folder / "bunfig.toml").write_text('preload = ["./decoy.js"]\n')
        (self.folder / ".env").write_text("NODE_OPTIONS=--require ./decoy.js\n")
