"""What stands in a text where a secret was."""

from __future__ import annotations

from upthread.core.redaction.values import has_placeholder, placeholder


def test_a_placeholder_names_the_family_and_a_keyed_digest():
    made = placeholder("jwt", b"a secret", b"key").decode()
    assert made.startswith("[redacted:jwt:")
    assert len(made) == len("[redacted:jwt:01234567]")
    assert placeholder("jwt", b"a secret", b"key").decode() == made
    assert placeholder("jwt", b"a secret", b"other").decode() != made


def test_a_placeholder_is_told_from_its_look_alikes():
    assert has_placeholder(f"x {placeholder('jwt', b'', b'').decode()} y")
    for other in ("[redacted]", "[redacted:jwt:0123456]", "[redacted:JWT:01234567]", ""):
        assert not has_placeholder(other)
