"""Whether an installed agent runs on this machine, asked without a trace of it."""

import os
import subprocess
import tempfile
from pathlib import Path


def printed_version(binary: Path) -> str:
    """Return what it prints for its version, empty for one that does not run here."""
    with tempfile.TemporaryDirectory(prefix="upthread-asked-") as home:
        try:
            asked = subprocess.run(
                [binary, "--version"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home},
            )
        except OSError:
            return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
