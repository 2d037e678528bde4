from pathlib import Path

import pytest
from tests.support.sets import SOAK

from tools import figures

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def crossed() -> list[str]:
    return figures.crossed_files()


def test_what_is_only_imported_is_not_crossed(crossed):
    assert "errors.py" not in crossed  # exceptions without functions, and none is raised
    assert not [each for each in crossed if each.startswith("store/postgres/")]
    assert not [each for each in crossed if each.startswith("agents/codex/")]


@SOAK
def test_a_turn_that_crosses_too_many_files_fails_once_there_is_a_limit(monkeypatch, capsys):
    monkeypatch.setattr(figures, "crossed_files", lambda: ["core/a.py", "core/b.py", "config.py"])
    assert figures.main([]) == 0
    said = capsys.readouterr().out
    assert "a resumed tell crosses 3 files: config 1, core 2" in said
    assert "the graph of imports has no cycle" in said
    assert "comments for each 100 lines of code: all " in said
    monkeypatch.setattr(figures, "CROSSED_MAX", 2)
    monkeypatch.setattr(figures, "comments_by_layer", lambda _source: {"all": 4.0})
    monkeypatch.setattr(figures, "cycle_in", lambda _graph: ())
    monkeypatch.setattr(figures.grimp, "build_graph", lambda _name, **_options: None)
    assert figures.main(["--crossed"]) == 1
    assert "core/b.py" in capsys.readouterr().out


def test_comments_are_counted_for_each_layer_beside_code_and_not_beside_docstrings(tmp_path: Path):
    head = '"""What it\nis."""\n\n# why\nLIMIT = 3  # of ours\n'
    text = head + '\ndef one():\n    """Say."""\n    return 1\n'
    assert figures.comments_and_code(text) == (2, 3)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text("# why\n" + "a = 1\n" * 10)
    (tmp_path / "config.py").write_text("a = 1\n" * 10)
    assert figures.comments_by_layer(tmp_path) == {"all": 5.0, "core": 10.0}
