"""Small files for hooks: written whole whatever was left beside them, under a lock that ends."""

from __future__ import annotations

import os

from upthread.runtime.bindings import files


def test_a_lock_is_given_back_although_a_child_was_forked_under_it(tmp_path):
    path = str(tmp_path / "lock")
    reading, writing = os.pipe()
    with files.Lock(path):
        child = os.fork()
        if child == 0:  # as the one that feeds a drain: it lives until somebody has read its words
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    try:
        with files.Lock(path, wait_s=0.0):
            pass
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_what_a_killed_process_with_our_pid_left_does_not_keep_a_file_from_being_written(tmp_path):
    path = tmp_path / "binding.json"
    (tmp_path / f"binding.json.{os.getpid()}").write_text("half wri")
    files.replace(str(path), {"turns": 3})
    assert files.read(str(path)) == {"schema": files.SCHEMA, "turns": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["binding.json"]
