from pathlib import Path

import pytest

from tools import figures

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def crossed() -> list[str]:
    return figures.crossed_files()


def test_what_is_only_imported_is_not_crossed(crossed):
    assert "errors.py" not in crossed  # exceptions without functions, and none is raised
    assert not [each for each in crossed if each.startswith("store/postgres/")]
    assert not [each for each in crossed if each.startswith("agents/codex/")]


def test_comments_are_counted_for_each_layer_beside_code_and_not_beside_docstrings(tmp_path: Path):
    head = '"""What it\nis."""\n\n# why\nLIMIT = 3  # of ours\n'
    text = head + '\ndef one():\n    """Say."""\n    return 1\n'
    assert figures.comments_and_code(text) == (2, 3)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text("# why\n" + "a = 1\n" * 10)
    (tmp_path / "config.py").write_text("a = 1\n" * 10)
    assert figures.comments_by_layer(tmp_path) == {"all": 5.0, "core": 10.0}
