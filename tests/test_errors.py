"""What reaches a caller stands in the one tree of errors; what steers within a layer is named."""

import ast
from pathlib import Path

import upthread
from upthread import errors

ROOT = Path(upthread.__file__).parent

TURNED_AT = {
    "AbsentError": "testing: a promise that does not hold for an agent",
    "Again": "the job queue: a job that is not over",
    "BusyError": "client/hooks.py: the hooks' own files are locked",
    "EndedBySignalError": "surfaces/cli/failures.py: an exit code",
    "FileRefusedError": "whoever opens the file: an OSError with its cure",
    "GitFileError": "runtime/working_tree: an OSError in a repository",
    "GivenUpError": "nobody: its caller has gone",
    "LoopNeededError": "surfaces/cli/call.py: the verb begins again on an event loop",
    "MalformedReportError": "runtime/runs/steps.py: the role is asked again",
    "NotJsonError": "runtime/bindings/files.py: a damaged file",
    "ScriptError": "testing: a scripted model's script",
    "UnreadableError": "client/hooks.py: a damaged file",
    "_NotComparedError": "client/database_files.py",
    "_OwnError": "testing",
}
"""Exceptions outside the tree, and where each is turned into one of it or ends."""

ELSEWHERE = ("agents", "store", "surfaces/hook", "agent_stores")
"""Programs and adapters of their own, whose errors end with them or at their port."""


def _bases(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def test_exceptions_outside_the_tree_are_known_with_where_they_are_turned():
    known = {name for name, _ in _bases(ast.parse(Path(errors.__file__).read_text()))}
    outside = {"Exception", "BaseException", "OSError", "ValueError", "RuntimeError"}
    found = {
        name
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE)
        for name, bases in _bases(ast.parse(path.read_text()))
        if bases & outside and name not in known
    }
    assert found <= TURNED_AT.keys(), found - TURNED_AT.keys()


def test_every_error_of_the_tree_says_what_a_caller_does_next():
    below = errors.UpthreadError.__subclasses__()
    assert {each.__name__ for each in below if each.__module__ == errors.__name__} == {
        *("UsageError", "ConfigError", "UpstreamError", "StoreError", "ConflictError"),
        "RefusedError",
    }
