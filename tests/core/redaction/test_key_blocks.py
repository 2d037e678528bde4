"""Private keys through what stands before and behind their lines, whole and cut."""

import json
import random

import pytest
from tests.support.secret_corpus import FORMS, sample_of
from tests.support.sets import spread

from upthread.core.redaction.key_blocks import KEY_LINES_MAX, is_key_line, key_blocks
from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)
KEYS = {form.name: sample_of(form).text for form in FORMS if form.family == "private keys"}
RSA = KEYS["PKCS 1"].split("\n")
PEM_NAMES = spread([name for name in KEYS if KEYS[name].startswith("-----BEGIN")], first=["PKCS 1"])
GUTTERS = (
    *("", "{n}: ", "{n:05}| ", "{n:6}\u2192", "{n}\t"),
    *("a/b.pem:{n}:", "a/b.pem-{n}-", "+", "> "),
)


def body(lines):
    return [line for line in lines if not line.startswith("-----")]


def shown(lines, gutter):
    return "\n".join(gutter.format(n=number) + line for number, line in enumerate(lines, 8))


@pytest.mark.parametrize("gutter", GUTTERS)
def test_a_key_is_gone_whole_and_what_is_around_it_stays(gutter):
    text = shown(["before", *RSA, "after"], gutter)
    redacted = REDACTOR.redact(text)
    first, last = redacted.splitlines()[0], redacted.splitlines()[-1]
    assert first == gutter.format(n=8) + "before"
    assert last.endswith("after")
    assert redacted.count("[redacted:private-key:") == 1
    assert "-----" not in redacted


@pytest.mark.parametrize("gutter", GUTTERS)
@pytest.mark.parametrize("cut", ["no end", "no beginning", "first lines only", "last lines only"])
def test_a_key_that_was_cut_is_found_by_the_end_it_has(gutter, cut):
    lines = {
        "no end": RSA[:-1],
        "no beginning": RSA[2:],
        "first lines only": RSA[1:5],
        "last lines only": RSA[-6:],
    }[cut]
    redacted = REDACTOR.redact(shown(["before", *lines, "", "some words after it."], gutter))
    assert [line for line in body(lines) if line[:-1] in redacted] == []
    assert "some words after it." in redacted


@pytest.mark.parametrize("name", KEYS)
def test_a_key_in_json_leaves_it_valid(name):
    document = json.dumps({"output": "\n" + KEYS[name] + "\n", "next": 1})
    assert json.loads(REDACTOR.redact(document))["next"] == 1
    assert "[redacted:private-key:" in REDACTOR.redact(document)


@pytest.mark.parametrize(
    "text",
    [
        'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text:',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "a line\nsome words\n-----END RSA PRIVATE KEY-----\n",
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(RSA[3:9]) + "\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----\n" + "a line of words\n" * 20 + RSA[3],
        "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n-----END PRIVATE KEY-----",
    ],
)
def test_what_is_no_key_stays(text):
    # A line of base64 alone is redacted for its looks, and is no key for that.
    assert "[redacted:private-key:" not in REDACTOR.redact(text)


def test_a_key_on_one_line_is_found():
    one = "-----BEGIN RSA PRIVATE KEY----- " + RSA[1] + " -----END RSA PRIVATE KEY-----"
    assert REDACTOR.redact(f"k='{one}'").startswith("k='[redacted:private-key:")
    der = "".join(body(RSA))
    redacted = REDACTOR.redact(f"key = {der}; next")
    assert redacted.startswith("key = [redacted:private-key:")
    assert redacted.endswith("; next")


@pytest.mark.parametrize("name", PEM_NAMES)
@pytest.mark.parametrize("joint", [" ", "  "])
def test_a_key_whose_lines_were_put_into_one_is_gone_wherever_it_was_cut(name, joint):
    lines = KEYS[name].strip().split("\n")
    whole = joint.join(line for line in lines if ":" not in line and line)
    for text in (whole, f"{whole} and then", *(whole[:cut] for cut in range(100, len(whole), 17))):
        redacted = REDACTOR.redact(f"use {text}")
        left = [
            line
            for line in body(lines)
            for at in range(len(line) - 8)
            if line[at : at + 8] in redacted.replace("[redacted:private-key:", "")
        ]
        assert left == []
    assert REDACTOR.redact(f"use {whole} and then").endswith(" and then")


@pytest.mark.parametrize("name", PEM_NAMES)
@pytest.mark.parametrize("columns", range(8, 64, 5))
def test_a_key_that_was_wrapped_narrower_is_gone_wherever_it_was_cut(name, columns):
    first, *lines = [line for line in KEYS[name].strip().split("\n") if ":" not in line and line]
    text = "".join(line for line in lines if not line.startswith("-----"))
    rows = [text[at : at + columns] for at in range(0, len(text), columns)]
    whole = "\n".join([first, *rows])
    for cut in (len(whole), len(whole) - 3, len(whole) // 2):
        redacted = REDACTOR.redact(whole[:cut])
        left = [row for row in rows if len(row) > 7 and row in redacted]
        assert left == []
    assert REDACTOR.redact(f"{whole}\n{lines[-1]}\nand then").endswith("and then")


def test_marked_up_and_painted_lines_are_looked_through():
    html = "\n".join(f"<td>8</td><td>{line}</td></tr>" for line in RSA)
    painted = "\n".join(f"\x1b[2m8\x1b[0m {line}\x1b[0m" for line in RSA)
    for text in (html, painted):
        redacted = REDACTOR.redact(text)
        assert [line for line in body(RSA) if line in redacted] == []


def test_a_line_is_a_keys_when_a_run_of_base64_closes_it():
    assert is_key_line(b" 12| " + RSA[3].encode())
    assert is_key_line(b"abcdefgh1jklmnopqrstuvwx")
    assert not is_key_line(b"abcdefghijklmnopqrstuvwx")
    assert not is_key_line(b"a line of words")
    assert not is_key_line(b"=" * 64)


HOSTILE = {
    "beginnings": "-----BEGIN RSA PRIVATE KEY-----" * 3_000,
    "beginnings on lines": "-----BEGIN RSA PRIVATE KEY-----\n\n\n" * 1_000,
    "ends": "-----END RSA PRIVATE KEY-----\n" * 3_000,
    "ends on a line": "-----END RSA PRIVATE KEY----- a" * 3_000,
    "first lines on one": "MHcCAQEEAAAAAAAAA " * 1_500,
    "first lines": "MHcCAQEEAAAAAAAAAAAAAAAAAA1\n" * 1_500,
    "lines before": "MIIEowIBAAKCAQEAAAAAAAAA1\n" * 1_500 + "-----END RSA PRIVATE KEY-----",
    "backslashes": "-----BEGIN RSA PRIVATE KEY-----" + "\\" * 100_000,
    "tags": "-----BEGIN RSA PRIVATE KEY-----\n" + "</a>" * 25_000,
    "blanks": "-----BEGIN RSA PRIVATE KEY-----" + "\n" * 100_000,
}


@pytest.mark.parametrize("kind", spread(HOSTILE, first=["first lines on one", "tags"]))
def test_a_long_text_is_read_in_one_go(kind):
    """A reader that went back for each line would run into the time limit."""
    list(key_blocks((HOSTILE[kind] * 10).encode()))


def test_a_block_longer_than_any_key_is_not_followed_to_its_end():
    chance = random.Random(1)
    lines = ["".join(chance.choices("abcABC123", k=64)) for _ in range(KEY_LINES_MAX + 50)]
    text = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines])
    ((_, end),) = key_blocks(text.encode())
    assert end < len(text)
