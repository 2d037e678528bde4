from upthread.core.decisions import DECISIONS, Limits


def test_each_decision_has_exactly_one_context():
    contexts = [context for _, context in DECISIONS.values()]
    assert len(set(contexts)) == len(contexts)
    assert all(contexts)


def test_the_usual_thresholds_are_those_of_the_base_rule_and_the_relay():
    usual = Limits()
    assert (usual.files_changed_max, usual.window_share_max, usual.relays_max) == (5, 0.7, 3)
    assert usual.resume_tokens_max is None
    assert usual.brief_if_times_cheaper is None
