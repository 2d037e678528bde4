"""Bad input: one line, a cure, the right exit code, and never a traceback."""

import json
import os
import subprocess
import unicodedata
from pathlib import Path

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import RESUME

REHEARSAL = ("--agent", "rehearsal")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "nowhere"), 3, "there is no workstream 'nowhere'"),
        (("id", "nowhere/planner"), 3, "has no conversation yet"),
        (("brief", "nowhere/planner"), 3, "has no conversation yet"),
        (("tell", "nowhere", "hi"), 2, "is not an address"),
        (("tell", "w/nurse", "hi"), 3, "there is no role 'nurse'"),
        (("tell", "w/planner"), 2, "there is nothing to tell"),
        (("tell", "w/planner", "  "), 2, "there is nothing to tell"),
        (("tell", "w/planner", "-"), 2, "standard input is empty"),
        (("tell", "w/planner", "x", "--continue"), 2, "--continue takes no text"),
        (("tell", "w/planner", "x", "--wait", "--sibling"), 2, "exclude each other"),
        (("tell", "w/planner", "x", "--agent", "nobody"), 2, "there is no agent 'nobody'"),
        (("tell", "w/planner", "x", "--agent", "acp:"), 2, "names no command"),
        (("tell", "a\x1b[31mb/planner", "x"), 2, r"'a\x1b[31mb'"),
        (("tell", f"{'x' * 4096}/planner", "x"), 2, "at most 200 bytes"),
        (("tell", "w/pla'nner; --", "x"), 2, "is not a role name"),
        (("run", "w", *REHEARSAL), 3, "no run on 'w' yet"),
        (("run", "w", "text", "--spec", "spec.md"), 2, "a specification twice"),
        (("run", "w", "--spec", "gone.md"), 2, "No such file"),
        (("run", "w", "--spec", "."), 2, "Is a directory"),
        (("run", "w", "--spec", "a\tb"), 2, "'a\\tb' cannot be read"),
        (("answer", "w", "hi"), 3, "no run on 'w' yet"),
        (("answer", "w", "a", "b", "c"), 2, "too many words"),
        (("ls", "-C", "gone"), 2, "cannot enter 'gone'"),
        (("ls", "--db", "mysql://x"), 2, "such a mysql address"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_bad_call_is_told_in_a_line(shared, arguments, code, words):
    done = shared(*arguments, code=code)
    assert words in done.err
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert done.out == ""


def test_bad_specifications_are_refused_before_anything_starts(shared):
    files = {
        "empty.md": (b" \n", "is empty"),
        "nul.md": (b"a\0b", "is binary, not text"),
        "latin1.md": ("Grüße".encode("latin-1"), "is not UTF-8 text"),
        "long.md": (b"x" * (1024 * 1024 + 1), "is longer than 1048576 bytes"),
    }
    for name, (content, words) in files.items():
        (shared.directory / name).write_bytes(content)
        done = shared("run", "bad-spec", "--spec", name, *REHEARSAL, code=2)
        assert words in done.err
    assert shared("show", "bad-spec", code=3).out == ""


def test_a_specification_in_the_tree_is_an_ordinary_file_of_the_tree(shared, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("KIWI-42")
    (shared.directory / "leads-out.md").symlink_to(secret)
    (shared.directory / "endless.md").symlink_to("/dev/zero")
    (shared.directory / "outside").symlink_to(tmp_path)
    os.mkfifo(shared.directory / "waiting.md")
    for name, words in (
        ("leads-out.md", "leads out of"),
        ("outside/secret", "leads out of"),
        (str(shared.directory / "leads-out.md"), "leads out of"),
        ("endless.md", "leads out of"),
        ("waiting.md", "it is a pipe"),
    ):
        done = shared("run", "bad-spec", "--spec", name, *REHEARSAL, code=2)
        assert words in done.err
        assert "KIWI-42" not in done.err
    assert shared("show", "bad-spec", code=3).out == ""


def test_a_persons_own_specification_may_be_a_link_elsewhere_or_a_pipe(shared, tmp_path):
    (tmp_path / "spec.md").write_text("# Specification\n\nGreet.\n")
    link = tmp_path / "link.md"
    link.symlink_to(tmp_path / "spec.md")
    shared("run", "own-spec", "--spec", str(link), *REHEARSAL, code=None)
    assert "Greet." in shared("audit", "own-spec", "--json").out
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", 'echo "# Wave." > "$1"', "sh", str(pipe)])
    shared("run", "piped-spec", "--spec", str(pipe), *REHEARSAL, code=None)
    assert writer.wait(timeout=30) == 0
    assert "# Wave." in shared("audit", "piped-spec", "--json").out


@pytest.mark.extended
def test_names_are_data_and_never_a_path(shared):
    odd = '../../etc/it\'s "quoted"; DROP TABLE part'
    shared("tell", f"{odd}/planner", "[[rehearse: say hi]]", *REHEARSAL)
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    shared("tell", f"{decomposed}/planner", "[[rehearse: say hi]]", *REHEARSAL)
    again = shared("tell", f"{composed}/planner", "[[rehearse: say hi]]")
    names = [each["workstream"] for each in shared("ls", "--json").json["workstreams"]]

    assert decisions_told(again.err) == [RESUME], "both spellings are one name"
    assert odd in names
    assert names.count(composed) == 1
    assert shared("show", odd).out.startswith(odd)
    assert not (shared.directory.parent / "etc").exists()


def test_errors_in_json_are_one_object_whatever_went_wrong(shared):
    for arguments, kind, code in (
        (("show", "nowhere"), "not_found", 3),
        (("nonsense",), "usage", 2),
        (("ls", "-C", "gone"), "usage", 2),
        (("reset", "nowhere/planner"), "not_found", 3),
    ):
        told = shared(*arguments, "--json", code=code)
        assert told.err == ""
        assert (told.json["schema"], told.json["exit_code"]) == (1, code)
        assert told.json["error"]["kind"] == kind
    before = shared("--json", "show", "nowhere", code=3)
    assert json.loads(before.out)["error"]["ids"] == {"workstream": "nowhere"}


def test_store_that_cannot_be_opened_is_an_error_with_a_cure(shared):
    done = shared("ls", "--db", "/proc/nowhere/x.db", code=1)
    assert done.err.startswith("error: ")
    assert "UPTHREAD_HOME" in done.err


def test_output_that_cannot_be_written_is_an_error(shared):
    with Path("/dev/full").open("wb") as full:
        child = subprocess.run(
            shared.words("agents"),
            cwd=shared.directory,
            env=shared.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
    assert child.returncode == 1
    assert b"the output could not be written" in child.stderr
    assert b"Traceback" not in child.stderr
