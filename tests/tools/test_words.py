import pytest

from tools import words


def test_a_rate_is_given_for_a_thousand_words_and_marked_beyond_its_goal():
    count, *lines = words.describe_rates(["He told us, because it is so.", "word " * 93])
    assert count == "100 words; for each 1,000:"
    rates = {line[2:43].strip(): (line[0], line.split()[-3]) for line in lines}
    assert rates["told, tell (not the verb `tell`)"] == ("!", "10.0")
    assert rates["it, they, them, these, those, that"] == (" ", "10.0")
    assert rates["reasons (because, so that, otherwise)"] == (" ", "10.0")
    assert rates["examples"] == ("!", "0.0")
    assert rates["goes on, gone on with"] == (" ", "0.0")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("told", True), ("kept_of", True), ("parked", True), ("seed_rows", False), ("find", False)],
)
def test_a_participle_is_a_first_word(name, is_one):
    assert words.is_participle(name) is is_one
