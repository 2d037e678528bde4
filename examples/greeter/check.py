"""Check the greeter by running it as its users do. Exit code 0 when everything holds."""

import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def greeted(*names: str) -> list[str]:
    """Run the command and return the lines it prints."""
    command = [sys.executable, "-B", "-m", "greeter", *names]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the command failed: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.splitlines()


def main() -> None:
    """Compare what the command prints with what the README and the words promise."""
    if not (HERE / "greeter" / "words.py").exists():
        sys.exit("greeter/words.py does not exist")
    words = runpy.run_path(str(HERE / "greeter" / "words.py"))
    opening, stranger = words["OPENING"], words["STRANGER"]
    expected = {
        (): [f"{opening}, {stranger}!"],
        ("  Ada ",): [f"{opening}, Ada!"],
        ("Ada", "Grace", "Ada"): [f"{opening}, Ada!", f"{opening}, Grace!"],
    }
    for names, lines in expected.items():
        if greeted(*names) != lines:
            sys.exit(f"{list(names)} was greeted with {greeted(*names)}, expected {lines}")
    if f"{opening}, Ada!" not in (HERE / "README.md").read_text(encoding="utf-8"):
        sys.exit("README.md does not show what the command prints")
    print(f"all {len(expected)} greetings are right")


if __name__ == "__main__":
    main()
