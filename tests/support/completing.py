"""What a shell is offered for a line so far: asked as the scripts of click ask."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def completed(
    line: str,
    *,
    shell: str = "bash",
    directory: Path | str = ".",
    environment: Mapping[str, str] | None = None,
) -> tuple[list[str], str]:
    """The words that are offered at the end of a line, and what was said beside them."""
    last = line.rpartition(" ")[2]
    asked = {
        "_UPTHREAD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": last if shell == "fish" else str(len(line.split(" ")) - 1),
    }
    child = subprocess.run(
        [sys.executable, "-m", "upthread"],
        cwd=directory,
        env={**(os.environ if environment is None else environment), **asked},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = child.stdout.splitlines()
    if shell == "zsh":  # three lines for each word: its type, the word, its help
        return lines[1::3], child.stderr
    return [each.partition(",")[2].partition("\t")[0] for each in lines], child.stderr
