"""Whatever reaches a caller stands in one tree of errors; its second level says what to do next."""

from upthread import errors


def test_every_error_of_the_tree_says_what_a_caller_does_next():
    below = errors.UpthreadError.__subclasses__()
    assert {each.__name__ for each in below if each.__module__ == errors.__name__} == {
        *("UsageError", "ConfigError", "UpstreamError", "StoreError", "ConflictError"),
        "RefusedError",
    }
