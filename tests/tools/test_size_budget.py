import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "size_budget.py"), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def function(lines: int, *, docstring: int = 0) -> str:
    told = (
        ['    """Say."""'] if docstring == 1 else ['    """Say', *["    x"] * docstring, '    """']
    )
    body = ["    pass"] * lines
    return "\n".join(["def long_one():", *(told if docstring else []), *body, ""])


def test_our_own_source_is_within_the_budget():
    done = run(ROOT / "src")
    assert done.returncode == 0, done.stdout
    assert "functions: median" in done.stdout
    assert "p90" in done.stdout


def test_a_body_may_have_sixty_lines_its_docstring_left_out(tmp_path: Path):
    (tmp_path / "a.py").write_text(function(60, docstring=30))
    assert run(tmp_path).returncode == 0
    (tmp_path / "a.py").write_text(function(61))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "a.py:long_one has 61 lines, 60 allowed: split it" in done.stdout


def test_a_method_and_a_nested_function_count_too(tmp_path: Path):
    nested = "\n".join(f"    {line}" for line in function(61).splitlines())
    (tmp_path / "a.py").write_text(f"class A:\n{nested}\n")
    assert "long_one has 61 lines" in run(tmp_path).stdout


def test_a_file_may_have_five_hundred_lines(tmp_path: Path):
    (tmp_path / "a.py").write_text(function(1) + "#\n" * 497)
    assert run(tmp_path).returncode == 0
    (tmp_path / "a.py").write_text(function(1) + "#\n" * 499)
    done = run(tmp_path)
    assert done.returncode == 1
    assert "a.py has 501 lines, 500 allowed" in done.stdout


def test_the_handshake_has_fewer_than_two_hundred_lines(tmp_path: Path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "handshake.py").write_text(function(1) + "#\n" * 198)
    assert "handshake.py has 200 lines, 199 allowed" in run(tmp_path).stdout


def test_nothing_to_measure_is_no_success(tmp_path: Path):
    assert run(tmp_path).returncode == 2
