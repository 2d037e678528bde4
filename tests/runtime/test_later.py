"""A value that is made when something of it is first asked for."""

from upthread.runtime.later import later


def test_a_value_is_made_once_and_only_when_it_is_asked_for():
    made = []

    def make() -> str:
        made.append("made")
        return "text"

    value = later(make, known="told beforehand")
    assert vars(value)["known"] == "told beforehand"
    assert made == []
    assert value.upper() + value.title() == "TEXTText"
    assert made == ["made"]
