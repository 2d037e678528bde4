"""TOML that somebody made to stop its reader: an error at once, and ordinary documents as ever."""

import pytest

from upthread.core.text.toml_text import KEY_PARTS_MAX, read_toml

DOTTED = ".".join(["a"] * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        f"{DOTTED} = 1",
        f"[{DOTTED}]",
        f"[[ {DOTTED} ]]",
        f"x = {{ {DOTTED} = 1 }}",
        f"x = {{ a = 1, {DOTTED} = 1 }}",
        " . ".join(["'a'", '"b.c"'] * KEY_PARTS_MAX) + " = 1",
    ],
    ids=["key", "table", "array of tables", "inline", "second inline", "quoted"],
)
@pytest.mark.timeout(5)
def test_a_key_of_too_many_parts_is_refused_before_it_is_parsed(text: str):
    with pytest.raises(ValueError, match=f"more than {KEY_PARTS_MAX} parts"):
        read_toml(text)


@pytest.mark.parametrize("nested", ["[" * 100_000, "{a=" * 20_000])
def test_values_nested_too_deeply_are_an_error_of_the_document(nested: str):
    with pytest.raises(ValueError, match="nested too deeply"):
        read_toml(f"x = {nested}")


def test_ordinary_documents_are_read_as_they_are():
    text = '\ufeffa.b.c = 1\n["d.e"."f"]\ng = "..a.b.c.." # ' + "x.y." * 99
    assert read_toml(text) == {"a": {"b": {"c": 1}}, "d.e": {"f": {"g": "..a.b.c.."}}}
    assert read_toml('x = "' + "a." * 500 + '"') == {"x": "a." * 500}


def test_what_is_no_toml_is_an_error_with_its_place():
    with pytest.raises(ValueError, match="Invalid value"):
        read_toml("a = ")
