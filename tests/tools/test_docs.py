"""What the documents point at is there: files of the source, and other documents."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "upthread"
PLACES = (SOURCE, ROOT, ROOT / "docs", ROOT / "tests")
"""What a path in a document may start from."""

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WAYS_IN = [ROOT / "AGENTS.md", ROOT / "docs" / "architecture.md", ROOT / "docs" / "glossary.md"]

LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?:#[^)]*)?\)")
SOURCE_FILE = re.compile(r"`(?P<path>[\w./-]+\.(?:py|js|sh|sql|toml|md))`")
DRAWN = re.compile(
    r"(?P<path>\b(?:core|runtime|client|surfaces|store|agents)/[\w./-]+\.(?:py|js|sh|sql))\b"
)
FOLDER = re.compile(r"`(?P<path>[\w.-]+(?:/[\w.-]+)*)/`")


def named(document: Path, pattern: re.Pattern[str]) -> set[str]:
    return {found["path"] for found in pattern.finditer(document.read_text(encoding="utf-8"))}


def is_there(path: str) -> bool:
    """Whether a path, or a bare name of a file of ours, is that of something."""
    return any((place / path).exists() for place in PLACES) or (
        "/" not in path and any(SOURCE.rglob(path))
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path):
    broken = {path for path in named(document, LINK) if not (document.parent / path).exists()}
    assert broken == set()


@pytest.mark.extended
@pytest.mark.parametrize("document", WAYS_IN, ids=lambda path: path.name)
def test_every_file_that_a_way_in_names_is_there(document: Path):
    paths = set[str]().union(*(named(document, each) for each in (SOURCE_FILE, DRAWN, FOLDER)))
    assert {path for path in paths if not is_there(path)} == set()
