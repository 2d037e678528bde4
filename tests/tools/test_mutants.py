"""The changes that `tools/mutants.py` makes to a source, one each, and how it tells who notices."""

from __future__ import annotations

import ast

import pytest

from tools import mutants

SOURCE = '''
def guard(known, action):
    """Refuse what is known."""
    note(action)
    if action in known and known:
        raise ValueError
    return action
'''


def test_each_mutant_differs_in_one_place_and_is_a_source():
    found = list(mutants.mutants_of(SOURCE))
    assert len({each.source for each in found}) == len(found)
    for each in found:
        ast.parse(each.source)
        assert each.source != ast.unparse(ast.parse(SOURCE))
        assert '"""Refuse what is known."""' in each.source


@pytest.mark.parametrize(
    "what",
    [
        "note(action)  →  pass",
        "raise ValueError  →  pass",
        "return action  →  return None",
        "action in known and known  →  action in known or known",
        "action in known  →  action not in known",
        "if action in known and known:  →  if not (action in known and known):",
    ],
)
def test_a_statement_is_left_out_and_a_condition_turned(what):
    assert what in {each.what for each in mutants.mutants_of(SOURCE)}


def test_every_target_is_there_and_has_tests():
    for name, tests in mutants.TARGETS.items():
        assert (mutants.ROOT / "src" / "upthread" / name).is_file()
        assert tests
        assert all((mutants.ROOT / each).exists() for each in tests)
