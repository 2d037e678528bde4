"""Hold the repository to its caps on size: `python -m tools.size_cap [--root DIRECTORY]`.

With `--ci-times FILE --slowness FILE`, holds CI to its processor minutes instead; bash's `times`
wrote the first file and `tools/machine_speed.py` the second.
`--ci-wall-s SECONDS` is how long CI took, which is only printed.

`tools/size_cap.toml` holds the caps and every raise of a cap. Prints one line for each cap, for
example `code lines 67,810 of 67,810`, and fails above a cap. `tools/counting.py` says what counts.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.counting import count_code_lines, count_written_words, measure_python

ROOT = Path(__file__).resolve().parent.parent
FILE = Path("tools", "size_cap.toml")
FOLDERS_MAX = 5
SPARE = 1.4
"""Processor minutes differ between runs, so two fifths more than measured are allowed."""


class Cap(NamedTuple):
    """What a cap limits: its words in messages, and the paths whose growth explains an excess.

    `for_each_code_line` is how much of it a raise may add for each code line that is raised.
    """

    words: str
    paths: tuple[str, ...]
    for_each_code_line: float = 0.0


OTHER_PLACES = (
    *(".ci", "bench", "docs", "examples", "requirements", "tests", "tools", "typings"),
    *(".gitignore", "LICENSE", "Makefile", "agents.json", "pyproject.toml"),
)
"""What of the root is no product. Every other file counts as code, so a new folder counts too."""
SOURCES = (*(f":(exclude){name}" for name in OTHER_PLACES), ":(exclude,glob)*.md")
CAPS = {
    "code_lines": Cap("code lines", SOURCES, 1.0),
    "ast_nodes": Cap("AST nodes", SOURCES, 9.0),
    "python_files": Cap("Python files", SOURCES, 1 / 150),
    "test_lines": Cap("lines of tests", ("tests",), 2.0),
    "doc_words": Cap("words of documentation", ("docs", ":(glob)*.md", ":!CHANGELOG.md"), 3.0),
    "adrs": Cap("ADRs", ("docs/adr",)),
}
CURE = (
    "Take out as much as you add. Only an issue that names its added code lines may raise a cap,"
    f" with a line in {FILE}."
)


class CapFileError(ValueError):
    """The file with the caps is incomplete, or a raise breaks its rules."""


# --- the numbers -------------------------------------------------------------------------------


def processor_minutes_max(name: str, root: Path = ROOT) -> float:
    """Return how many processor minutes `name` may take: two fifths more than measured."""
    measured = _read_file(root).get("processor_minutes", {})
    if not isinstance(measured.get(name), int | float):
        raise CapFileError(f"{FILE} has no number for {name} under [processor_minutes]")
    return measured[name] * SPARE


def excess_of_minutes(name: str, minutes: float, slowness: float, root: Path = ROOT) -> str:
    """Return what to print when `minutes` are more than `name` may take, else "".

    `slowness` is that of this machine: see `tools/machine_speed.py`.
    """
    minutes_max = processor_minutes_max(name, root) * slowness
    if minutes <= minutes_max:
        return ""
    return (
        f"FAILED: {name} took {minutes:.1f} processor minutes and may take {minutes_max:.1f} here."
        f" Mark tests as extended or soak, or make them quicker; the number is in {FILE}."
    )


def minutes_in(times: str) -> float:
    """Return the minutes that bash's `times` prints: its own and its children's, as 1m30.5s."""
    found = re.findall(r"(\d+)m([\d.]+)s", times)
    if len(found) != 4:
        raise CapFileError(f"these are no four times of bash's `times`: {times!r}")
    return sum(int(minutes) + float(seconds) / 60 for minutes, seconds in found)


def read_caps(root: Path) -> dict[str, int]:
    """Return each cap with its raises added; CapFileError when a raise breaks the rules."""
    content = _read_file(root)
    caps, raises = content.get("cap", {}), content.get("raises", [])
    if missing := CAPS.keys() - caps.keys():
        raise CapFileError(f"{FILE} has no number for {', '.join(sorted(missing))} under [cap]")
    for each in raises:
        _check_raise(each)
    _check_ratios(raises)
    for each in raises:
        caps[each["of"]] += each["amount"]
    return {name: caps[name] for name in CAPS}


def _read_file(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / FILE).read_text(encoding="utf-8"))


def _check_raise(entry: dict[str, Any]) -> None:
    """Refuse a raise that lacks its cap, its amount or its reason."""
    if entry.get("of") not in CAPS:
        raise CapFileError(f"a raise must name one of {', '.join(CAPS)} as `of`: {entry}")
    if not isinstance(entry.get("amount"), int) or entry["amount"] <= 0:
        raise CapFileError(f"the raise of {entry['of']} needs a whole `amount` above 0: {entry}")
    if not str(entry.get("reason", "")).strip():
        raise CapFileError(f"the raise of {entry['of']} by {entry['amount']} has no `reason`")


def _check_ratios(raises: list[dict[str, Any]]) -> None:
    """Refuse raises that are too large for the raised code lines.

    For example 100 raised code lines permit 900 AST nodes. A raise with `named = true` is not
    counted, because its issue names the amount.
    """
    added: Counter[str] = Counter()
    for each in raises:
        if not each.get("named", False):
            added[each["of"]] += each["amount"]
    code_raises = [each["amount"] for each in raises if each["of"] == "code_lines"]
    for name, amount in added.items():
        allowed = int(sum(code_raises) * CAPS[name].for_each_code_line)
        if name == "adrs":  # One for each issue, however many code lines the issue adds.
            allowed = len(code_raises)
        if name != "code_lines" and amount > allowed:
            raise CapFileError(
                f"{CAPS[name].words} are raised by {amount}, and the raised code lines permit"
                f" {allowed}; if the issue names the number itself, add `named = true`"
            )


# --- what is there -----------------------------------------------------------------------------


def measure(root: Path) -> dict[str, int]:
    """Return the size of a repository by the name of its cap."""
    sizes = dict.fromkeys(CAPS, 0)
    for path in _source_files(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # An image or a font, not text.
        if path.suffix in {".py", ".pyi"}:
            counted = measure_python(text)
            sizes["python_files"] += 1
            sizes["code_lines"] += counted.code_lines
            sizes["ast_nodes"] += counted.ast_nodes
        else:
            sizes["code_lines"] += count_code_lines(text, path.suffix)
    for path in (root / "tests").rglob("*.py"):
        sizes["test_lines"] += len(path.read_text(encoding="utf-8").splitlines())
    for path in documents(root):
        sizes["doc_words"] += count_written_words(path.read_text(encoding="utf-8"))
    sizes["adrs"] = len([*(root / "docs" / "adr").glob("[0-9]*.md")])
    return sizes


def _source_files(root: Path) -> Iterator[Path]:
    """Yield each file of the product that git tracks, or would track."""
    listed = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES)
    names = subprocess.run(
        ["git", "-C", str(root), *listed], capture_output=True, text=True, check=True
    ).stdout
    for name in sorted(set(names.split("\0")) - {""}):
        if (root / name).is_file():
            yield root / name


def documents(root: Path) -> list[Path]:
    """Return the documents that people write: docs/ and the root's Markdown without changelog."""
    own = [path for path in root.glob("*.md") if path.name != "CHANGELOG.md"]
    return sorted([*own, *(root / "docs").rglob("*.md")])


# --- the check ---------------------------------------------------------------------------------


def growth_by_folder(root: Path, paths: tuple[str, ...]) -> list[str]:
    """Return the folders that gained most lines since main, for example `src/a +50`.

    On main, without a change, the commit before is compared. Empty without git.
    """
    base = _git(root, "merge-base", "HEAD", "main") or _git(root, "merge-base", "HEAD", "@{u}")
    for since in (base, "HEAD~1"):
        gained: Counter[str] = Counter()
        for line in _git(root, "diff", "--numstat", since or "HEAD", "--", *paths).splitlines():
            added, removed, name = line.split("\t")
            if added != "-":  # Git counts no lines of a binary file.
                gained[str(Path(name).parent)] += int(added) - int(removed)
        new = _git(root, "ls-files", "--others", "--exclude-standard", "--", *paths)
        for name in new.splitlines():
            gained[str(Path(name).parent)] += len((root / name).read_bytes().splitlines())
        if grown := [f"{folder} +{lines}" for folder, lines in gained.most_common() if lines > 0]:
            return grown[:FOLDERS_MAX]
    return []


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; "" when git is missing or refuses."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when the repository is above a cap, 2 when the file with the caps is wrong."""
    parser = argparse.ArgumentParser(description="Hold the repository to its caps on size.")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--ci-times", type=Path)
    parser.add_argument("--ci-wall-s", type=int, default=0)
    parser.add_argument("--slowness", type=Path)
    given = parser.parse_args(arguments)
    root = given.root
    if given.ci_times:
        minutes = minutes_in(given.ci_times.read_text(encoding="utf-8"))
        slowness = float(given.slowness.read_text(encoding="utf-8"))
        excess = excess_of_minutes("ci", minutes, slowness, root)
        print(f"--- CI: {given.ci_wall_s} s, {minutes:.1f} processor minutes")
        if excess:
            print(excess)
        return 1 if excess else 0
    try:
        caps = read_caps(root)
    except CapFileError as error:
        print(f"FAILED: {error}")
        return 2
    sizes = measure(root)
    for name, size in sizes.items():
        print(f"{CAPS[name].words} {size:,} of {caps[name]:,}")
    over = {name: size - caps[name] for name, size in sizes.items() if size > caps[name]}
    for name, excess in over.items():
        print(f"FAILED: {sizes[name]:,} {CAPS[name].words} are {excess:,} above the cap `{name}`.")
        if grown := growth_by_folder(root, CAPS[name].paths):
            print(f"  Folders that gained lines: {', '.join(grown)}.")
    if over:
        print(f"  {CURE}")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
