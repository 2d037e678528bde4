"""Whatever reaches a caller stands in one tree of errors; its second level says what to do next."""

import pickle
import pydoc

import upthread
from upthread import errors
from upthread.integrations.durable_tell import NotToldError


def test_every_error_of_the_tree_says_what_a_caller_does_next():
    below = errors.UpthreadError.__subclasses__()
    assert {each.__name__ for each in below if each.__module__ == errors.__name__} == {
        *("UsageError", "ConfigError", "UpstreamError", "StoreError", "ConflictError"),
        "RefusedError",
    }


def test_a_program_catches_each_by_the_packages_name_and_can_ask_for_help_with_every_name():
    below = {each.__name__ for each in errors.UpthreadError.__subclasses__()}
    assert below - {"NotToldError"} <= {"UpthreadError", *upthread.__all__}
    assert upthread.UsageError is errors.UsageError
    for name in upthread.__all__:
        assert name == "__version__" or name in pydoc.render_doc(getattr(upthread, name))


def test_an_error_that_an_engine_keeps_pickled_comes_back_whole():
    error = NotToldError("no reply", hint="ask", is_retried=True, outcome="auth")
    kept = pickle.loads(pickle.dumps(error))  # our own bytes
    assert (kept.message, kept.hint, kept.is_retried) == ("no reply", "ask", True)
    assert kept.outcome == "auth"
