import sys

from tools import check


def python(source: str) -> tuple[str, ...]:
    """A step that runs this source."""
    return (sys.executable, "-c", source)


def test_the_output_of_a_failed_step_is_printed_in_one_piece_and_again_at_the_end(capsys):
    steps = {
        "wrong": python("print('a line'); raise SystemExit(3)"),
        "right": python("print('another'); print('line')"),
    }
    assert check.run_steps(steps) == 1
    said = capsys.readouterr().out
    assert "another\nline\n" in said
    assert said.count("a line\n") == 2
    assert "--- FAILED: wrong (exit code 3)\na line\n--- Run the failed steps again" in said


def test_an_unknown_step_is_refused_with_the_known_steps(capsys):
    assert check.main(["nothing"]) == 2
    assert "There is no step nothing. Steps: coverage, " in capsys.readouterr().out
