from pathlib import Path

import pytest
from tests.support.sets import EXTENDED

from tools import size_cap

CAPS = {
    "code_lines": 10,
    "ast_nodes": 1_000,
    "python_files": 1,
    "test_lines": 2,
    "doc_words": 4,
    "adrs": 1,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository that has exactly the size of its caps."""
    texts = {
        "src/own/a.py": '"""Say."""\n\n# why\n' + "a = 1\n" * 8,
        "src/own/a.sql": "-- why\nSELECT 1;\n",
        "packages/more/a.css": "/* why */\na {}\n",
        "src/own/__pycache__/a.py": "a = 1\n",
        ".gitignore": "__pycache__/\n",
        "pyproject.toml": "a = 1\n",
        "tests/test_a.py": "# why\na = 1\n",
        "docs/adr/0001-a.md": "One.",
        "docs/adr/README.md": "Two.",
        "README.md": "Three.\n<!-- generated: adrs -->\nnot this\n<!-- end -->\n",
        "AGENTS.md": "Four.",
        "CHANGELOG.md": "not this either",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "src/own/picture.png").write_bytes(b"\x89PNG\n\xff\n")
    write_caps(tmp_path)
    size_cap.subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    return tmp_path


def write_caps(tree: Path, *raises: str) -> None:
    """Write the file with the caps, and these raises."""
    (tree / "tools").mkdir(exist_ok=True)
    lines = [f"{name} = {CAPS[name]}" for name in CAPS]
    text = "\n".join(["raises = [", *(f"{{ {each} }}," for each in raises), "]", "[cap]", *lines])
    (tree / "tools/size_cap.toml").write_text(f"{text}\n[processor_minutes]\ntest = 5\n")


@pytest.fixture
def check(tree: Path, capsys: pytest.CaptureFixture[str]):
    """Checks the small repository; returns the exit code and what is printed."""

    def run(*more: str) -> tuple[int, str]:
        code = size_cap.main(["--root", str(tree), *more])
        return code, capsys.readouterr().out

    return run


def grow(file: Path, text: str) -> None:
    """Add a text to the end of a file."""
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_a_tree_at_its_caps_passes_and_prints_one_line_for_each(check):
    code, said = check()
    assert code == 0
    lines = said.splitlines()
    assert lines[0] == "code lines 10 of 10"
    assert lines[2:] == [
        "Python files 1 of 1",
        "lines of tests 2 of 2",
        "words of documentation 4 of 4",
        "ADRs 1 of 1",
    ]


@EXTENDED
@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("src/own/a.py", "a = 1\n" * 50, "60 code lines are 50 above the cap `code_lines`"),
        ("packages/more/a.css", "b {}\n", "11 code lines are 1 above the cap `code_lines`"),
        ("extension/src/a.ts", "a()\n" * 500, "510 code lines are 500 above the cap"),
        ("more.py", "a = 1\n", "11 code lines are 1 above the cap `code_lines`"),
        ("src/own/a.py", f"a = {[0] * 1_000}\n", "above the cap `ast_nodes`"),
        ("src/own/b.py", "", "2 Python files are 1 above the cap `python_files`"),
        ("tests/test_a.py", "# b\n", "3 lines of tests are 1 above the cap `test_lines`"),
        ("AGENTS.md", " Five.", "5 words of documentation are 1 above the cap `doc_words`"),
        ("docs/adr/0002-b.md", "", "2 ADRs are 1 above the cap `adrs`"),
    ],
)
def test_growth_above_a_cap_fails_with_a_message_that_names_the_cap(
    tree: Path, check, file, text, message
):
    (tree / file).parent.mkdir(exist_ok=True, parents=True)
    (tree / file).touch()
    grow(tree / file, text)
    code, said = check()
    assert code == 1
    assert message in said
    assert "Take out as much as you add." in said


def test_a_raise_permits_its_amount(tree: Path, check):
    write_caps(tree, 'of = "code_lines", amount = 50, reason = "a port to another system"')
    grow(tree / "src/own/a.py", "a = 1\n" * 50)
    assert check()[0] == 0
    grow(tree / "src/own/a.py", "a = 1\n")
    assert "61 code lines are 1 above the cap" in check()[1]


LINES = 'of = "code_lines", amount = 300, reason = "a port"'


@pytest.mark.parametrize(
    ("raises", "message"),
    [
        (['of = "code_lines", amount = 50'], "the raise of code_lines by 50 has no `reason`"),
        (['of = "code_lines", amount = 50, reason = " "'], "has no `reason`"),
        (['of = "code_lines", amount = 0, reason = "a"'], "needs a whole `amount` above 0"),
        (['of = "lines", amount = 5, reason = "a"'], "a raise must name one of code_lines"),
        (['of = "test_lines", amount = 1, reason = "a"'], "the raised code lines permit 0"),
        ([LINES, 'of = "ast_nodes", amount = 2701, reason = "a"'], "permit 2700"),
        ([LINES, 'of = "python_files", amount = 3, reason = "a"'], "permit 2"),
        ([LINES, 'of = "adrs", amount = 2, reason = "a"'], "permit 1"),
    ],
)
def test_a_raise_without_a_reason_or_beyond_its_code_lines_is_refused(
    tree: Path, check, raises, message
):
    write_caps(tree, *raises)
    code, said = check()
    assert code == 2
    assert message in said


def test_the_folders_that_grew_since_main_are_named(tree: Path, check):
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("add", "."), ("commit", "-q", "-m", "All.")):
        size_cap.subprocess.run([*git, *words], cwd=tree, check=True)
    grow(tree / "src/own/a.py", "a = 1\n" * 50)
    (tree / "packages/more/b.css").write_text("b {}\n")
    assert "Folders that gained lines: src/own +50, packages/more +1." in check()[1]


def test_ci_fails_above_its_processor_minutes(tree: Path, check, tmp_path: Path):
    file, times, slowness = tree / "tools/size_cap.toml", tmp_path / "times", tmp_path / "slowness"
    file.write_text(file.read_text() + "ci = 10\n")
    for minutes, slow, code in ((13, 1.0, 0), (15, 1.0, 1), (15, 1.5, 0), (13, 0.5, 1)):
        slowness.write_text(f"{slow}\n")
        times.write_text(f"0m1.000s 0m0.000s\n{minutes}m0.500s 0m10.000s\n")
        words = ("--ci-times", str(times), "--slowness", str(slowness), "--ci-wall-s", "1500")
        found, said = check(*words)
        assert (found, said.partition(".")[0]) == (code, f"--- CI: 1500 s, {minutes}")
