"""What a shell is offered for a line so far: asked as the scripts of argcomplete ask."""

from __future__ import annotations

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
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\v",
        "_ARGCOMPLETE_SHELL": shell,
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
    }
    reading, writing = os.pipe()
    with os.fdopen(reading) as answers:
        # The scripts hand over what is offered on a descriptor of its own.
        words = f'exec "$@" 8>&{writing} 9>/dev/null'
        child = subprocess.run(
            ["bash", "-c", words, "bash", sys.executable, "-m", "upthread"],
            cwd=directory,
            env={**(os.environ if environment is None else environment), **asked},
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(writing)
        offered = answers.read()
    words_offered = [each for each in offered.split("\v") if each]
    if shell == "zsh":  # which is told of each what it is
        words_offered = [each.partition(":")[0] for each in words_offered]
    return words_offered, child.stdout + child.stderr
