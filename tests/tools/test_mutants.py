"""The changes that `tools/mutants.py` makes to a source, one each, and the probes it places."""

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


def test_a_probe_stands_before_the_statement_that_holds_the_change():
    mutant = next(each for each in mutants.mutants_of(SOURCE) if each.what.startswith("raise"))
    probed = mutants.with_probes(SOURCE, {mutant.statement: [7]})
    lines = [line.strip() for line in probed.splitlines()]
    assert lines[lines.index("raise ValueError") - 1] == "_executed_(7)"
