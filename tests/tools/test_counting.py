import pytest
from tools.counting import count_code_lines, count_written_words, find_comments, measure_python

PYTHON = '''"""Say what
the module is for."""

# why
LIMIT = 3  # of ours
"""What the limit limits."""


def one():
    """Return one."""
    return """a
# heading

text"""
'''


def test_python_is_counted_without_comments_docstrings_and_blank_lines():
    assert measure_python(PYTHON).code_lines == 5
    assert find_comments(PYTHON) == ["why", "of ours"]


@pytest.mark.parametrize(
    ("suffix", "text", "count"),
    [
        (".sql", "-- why\n\nSELECT 1 -- here\n/* a\nb */ FROM a\n/* c */\n;", 3),
        (".js", "// why\n\nf(); // here\n/* a\n * b\n */\nlet a = '/*'\n/* c */ g()\n", 3),
        (".css", "/* a */\n/* b\n\n*/\n#id {\n  --size: 1px;\n}\n", 3),
        (".scss", "// why\n#id {\n  #{$a}: 1px;\n}\n", 3),
        (".other", "# no comment\n\n// neither\n", 2),
        (".html", "<!-- a\nb --> <!-- c -->\n\n<p>\n<!-- d --> <b>\n</p>\n", 3),
        (".md", "# Title\n\n<!-- why -->\nText\n", 2),
        (".toml", "# why\n\na = 1\n", 1),
        (".sh", "#!/bin/sh\n\nset -u  # here\n", 1),
        ("", "A licence.\n", 1),
    ],
)
def test_each_kind_of_file_is_counted_without_its_own_comments(suffix, text, count):
    assert count_code_lines(text, suffix) == count


def test_words_of_a_generated_part_are_not_counted():
    text = "Two words.\n<!-- generated: adrs -->\nnot these\n<!-- end -->\nAnd three more.\n"
    assert count_written_words(text) == 5
