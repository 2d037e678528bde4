from pathlib import Path

import pytest

from tools import size_budget

ROOT = Path(__file__).resolve().parents[2]


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


def test_our_own_source_is_within_the_budget(run):
    code, said = run(ROOT / "src")
    assert code == 0, said
    assert "functions: median" in said
    assert "p90" in said
    assert "% of modules named by a gerund" in said


def test_a_function_may_have_sixty_lines_its_docstring_left_out(run, tmp_path: Path):
    (tmp_path / "a.py").write_text(function(60, docstring=30))
    assert run(tmp_path)[0] == 0
    (tmp_path / "a.py").write_text(function(61))
    code, said = run(tmp_path)
    assert code == 1
    assert "a.py:long_one has 61 lines, 60 allowed" in said


def test_a_signature_over_many_lines_counts_and_a_decorator_too(run, tmp_path: Path):
    signature = "@property\ndef long_one(\n    a,\n    b,\n):"
    (tmp_path / "a.py").write_text(function(61, docstring=1, signature=signature))
    assert "long_one has 61 lines" in run(tmp_path)[1]


def test_a_method_and_a_nested_function_count_too(run, tmp_path: Path):
    nested = "\n".join(f"    {line}" for line in function(61).splitlines())
    (tmp_path / "a.py").write_text(f"class A:\n{nested}\n")
    assert "long_one has 61 lines" in run(tmp_path)[1]


def test_a_file_may_have_five_hundred_lines(run, tmp_path: Path):
    (tmp_path / "a.py").write_text(function(2) + "#\n" * 498)
    assert run(tmp_path)[0] == 0
    (tmp_path / "a.py").write_text(function(2) + "#\n" * 499)
    code, said = run(tmp_path)
    assert code == 1
    assert "a.py has 501 lines, 500 allowed" in said


def test_the_handshake_has_fewer_than_two_hundred_lines(run, tmp_path: Path):
    (tmp_path / "core" / "decision").mkdir(parents=True)
    (tmp_path / "core" / "decision" / "handshake.py").write_text(function(2) + "#\n" * 198)
    assert "handshake.py has 200 lines, 199 allowed" in run(tmp_path)[1]


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


def test_a_verb_has_a_parameter_for_each_of_its_options(run, tmp_path: Path):
    signature = "def tell(call: Call, a, b, c, d, e, f, g, h, i):"
    for folder, code in (("cli", 0), ("runtime", 1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(function(2, signature=signature))
        assert run(tmp_path / folder)[0] == code


def test_a_folder_is_held_to_its_limit(run, tmp_path: Path, monkeypatch):
    for name in ("__init__", "__main__", "a", "b", "c"):
        (tmp_path / f"{name}.py").write_text(function(2))
    monkeypatch.setattr(size_budget, "FOLDER_MODULES_MAX", 3)
    assert run(tmp_path)[0] == 0
    monkeypatch.setattr(size_budget, "FOLDER_MODULES_MAX", 2)
    code, said = run(tmp_path)
    assert code == 1
    assert f"{tmp_path} has 3 modules, 2 allowed" in said


def test_the_share_of_gerunds_is_held_to_its_limit(run, tmp_path: Path, monkeypatch):
    for name in ("draining", "lease", "turn", "tree"):
        (tmp_path / f"{name}.py").write_text(function(2))
    monkeypatch.setattr(size_budget, "GERUNDS_PERCENT_MAX", 25)
    assert run(tmp_path)[0] == 0
    monkeypatch.setattr(size_budget, "GERUNDS_PERCENT_MAX", 24.9)
    code, said = run(tmp_path)
    assert code == 1
    assert "has 25 % of modules named by a gerund (1 of 4), 24.9 allowed" in said


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("draining", True),
        ("_asking", True),
        ("looking_back", True),
        ("code_reading", True),
        ("working_tree", False),
        ("running_text", False),
        ("briefing", False),
        ("briefing_edit", False),
        ("lease", False),
    ],
)
def test_a_gerund_says_what_is_done_and_no_noun_is_one(name, is_one):
    assert size_budget.is_gerund(name) is is_one


def test_nothing_to_measure_is_no_success(run, tmp_path: Path):
    assert run(tmp_path)[0] == 2
