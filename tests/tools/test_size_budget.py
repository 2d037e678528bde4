from pathlib import Path

import pytest
from tests.support.sets import EXTENDED

from tools import size_budget


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Measures a directory; returns the exit code and what is printed."""

    def measure(directory: Path) -> tuple[int, str]:
        code = size_budget.main([str(directory)])
        return code, capsys.readouterr().out

    return measure


def function(lines: int, *, docstring: int = 0, signature: str = "def long_one():") -> str:
    """A function of so many lines, its signature counted and its docstring not."""
    told = (
        ['    """Say."""'] if docstring == 1 else ['    """Say', *["    x"] * docstring, '    """']
    )
    head = signature.splitlines()
    body = ["    pass"] * (lines - len(head))
    return "\n".join([*head, *(told if docstring else []), *body, ""])


MANY_LINES = "@property\ndef long_one(\n    a,\n    b,\n):"
METHOD = "class A:\n" + "".join(f"    {line}\n" for line in function(61).splitlines())


@EXTENDED
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.py", function(60, docstring=30), ""),
        ("a.py", function(61), "a.py:long_one has 61 lines, 60 allowed"),
        ("a.py", function(61, docstring=1, signature=MANY_LINES), "long_one has 61 lines"),
        ("a.py", METHOD, "long_one has 61 lines"),
        ("a.py", function(2) + "#\n" * 498, ""),
        ("a.py", function(2) + "#\n" * 799, "a.py has 801 lines, 800 allowed"),
        ("core/decision/handshake.py", function(2) + "#\n" * 198, "has 200 lines, 199 allowed"),
    ],
)
def test_a_function_and_a_file_are_held_to_their_lines(run, tmp_path: Path, name, text, told):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    code, said = run(tmp_path)
    assert (code == 0) is (told == "")
    assert told in said


@pytest.mark.parametrize(
    ("signature", "is_over"),
    [
        ("def tell(a, /, b, *, c, d, e, f, g, h):", False),
        ("def tell(a, /, b, *, c, d, e, f, g, h, i):", True),
        ("def __init__(self, a, b, c, d, e, f, g, h):", False),
        ("def __init__(self, a, b, c, d, e, f, g, h, i):", True),
        ("def _own(a, b, c, d, e, f, g, h, i):", False),
    ],
)
def test_a_public_function_may_have_eight_parameters(run, tmp_path: Path, signature, is_over):
    (tmp_path / "a.py").write_text(function(2, signature=signature))
    assert ("has 9 parameters, 8 allowed" in run(tmp_path)[1]) is is_over


@pytest.mark.parametrize(
    ("limit", "at_limit", "below", "told"),
    [
        ("FOLDER_MODULES_MAX", 4, 3, "has 4 modules, 3 allowed"),
        ("GERUNDS_PERCENT_MAX", 25, 24.9, "25 % of modules named by a gerund (1 of 4), 24.9"),
    ],
)
def test_a_folder_is_held_to_its_limits(
    run, tmp_path: Path, monkeypatch, limit, at_limit, below, told
):
    for name in ("__init__", "__main__", "draining", "lease", "turn", "tree"):
        (tmp_path / f"{name}.py").write_text(function(2))
    monkeypatch.setattr(size_budget, "GERUNDS_PERCENT_MAX", 100)
    monkeypatch.setattr(size_budget, limit, at_limit)
    assert run(tmp_path)[0] == 0
    monkeypatch.setattr(size_budget, limit, below)
    code, said = run(tmp_path)
    assert code == 1
    assert told in said
