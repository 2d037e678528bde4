"""Which values may be secrets, and which are names, templates or examples."""

import base64

from upthread.core.redaction.values import (
    anything,
    entropy_bits,
    is_a_pair,
    is_assigned,
    is_chosen,
    is_no_example,
    is_real,
    is_set,
    looks_random,
)


def test_a_word_is_neither_random_nor_chosen():
    assert looks_random(b"a1b2c3d4e5f6")
    assert not looks_random(b"planner")
    assert not looks_random(b"12345678")
    assert not looks_random(b"a1a1a1a1a1a1a1")
    assert is_chosen(b"hunter2")
    assert not is_chosen(b"correct-horse")
    assert not is_chosen(b"123456")
    assert not is_chosen(b"password")


def test_templates_dummies_and_examples_are_not_real():
    for value in (b"", b"${TOKEN}", b"<token>", b"changeme", b"xxxxxxxx", b"********", b'"null"'):
        assert not is_real(value)
    assert is_real(b"correcthorse")
    assert not is_no_example(b"AKIAIOSFODNN7EXAMPLE")
    assert entropy_bits(b"") == 0
    assert entropy_bits(b"ab") == 1


def test_a_value_without_quotes_is_a_password_when_no_name_in_code_is_like_it():
    for value in (b"harbour73", b"Winter!2026", b"aB3dE5fG7h", b"pa55+w0rd"):
        assert is_assigned(value), value
    for value in (
        *(b"argument1", b"sha256", b"self.password2", b"config::db1", b"path/to/file1"),
        *(b"12345", b"10.5px", b"@name1", b"key=value1", b"label1:"),
    ):
        assert not is_assigned(value), value


def test_a_word_in_capitals_is_the_name_of_what_belongs_there():
    assert is_set(b"geheimnis")
    assert not is_set(b"NEW_PASSWORD")
    assert not is_set(b"<password>")
    assert anything(b"")


def test_names_of_things_are_not_random():
    assert not looks_random(b"arn:aws:iam::123456789012:user/abc")
    assert not looks_random(b"messages_1.Messages.MissingFrom2")
    assert not is_real(b"wJalrXUtnFEMIEXAMPLEKEY")


def test_a_pair_is_the_base64_of_a_user_and_a_password():
    assert is_a_pair(base64.b64encode(b"app:geheim"))
    for value in (b"no base64", base64.b64encode(b"no colon"), base64.b64encode(b":x"), b"x:y="):
        assert not is_a_pair(value), value
