"""Whatever a stranger said is text in a page: it makes no element, no attribute and no request."""

import base64
import hashlib
import re
from html import escape

import pytest
from tests.support.record_page import ATTACKS, Saying, Seen, page_of

from upthread.core.redaction.redactor import Redactor
from upthread.core.text import visible_line, visible_text
from upthread.core.types import ToolCallPart
from upthread.runtime.record.timeline import ToolCall
from upthread.surfaces.formats.html import policy
from upthread.surfaces.page.markup import ATTRIBUTES, Html
from upthread.surfaces.page.turns import call_piece

ELEMENTS = frozenset(
    "a blockquote body br caption code dd details div dl dt figcaption figure footer h1 h2 h3 h4 h5 head header html "
    "li main mark meta nav ol p pre section span strong style summary table tbody td th thead time title tr ul".split()
)
ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Seen:
    return Seen(page_of(tmp_path_factory.mktemp("plain"), Saying("plain")))


@pytest.mark.soak
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_hostile_text_changes_no_element_and_is_shown_as_text(tmp_path, plain, attack):
    html = page_of(tmp_path, Saying(attack))
    seen = Seen(html)
    assert seen.tags == plain.tags
    assert [name for name, _ in seen.attributes] == [name for name, _ in plain.attributes]
    assert {tag.lstrip("/") for tag in seen.tags} <= ELEMENTS
    assert {name for name, _ in seen.attributes} <= ATTRIBUTES
    assert all(value.startswith("#") for name, value in seen.attributes if name == "href" and value)
    assert visible_text(attack) in seen.text
    assert visible_line(attack) in seen.text
    assert not ACTING.search(html)


def test_half_a_character_and_a_name_that_is_mark_up_are_shown_escaped(tmp_path):
    values = Saying("plain", name="<b>&amp;")
    values.line = "half \ud83d"
    html = page_of(tmp_path, values)
    seen = Seen(html)
    assert "half \\ud83d" in seen.text
    assert "<b>&amp;" in seen.text
    html.encode("utf-8")


def test_the_policy_lets_in_the_style_sheet_of_this_page_and_nothing_else(tmp_path):
    html = page_of(tmp_path, Saying("plain"))
    head = html.partition("</head>")[0]
    # Before anything that it is to hold for.
    assert head.index("Content-Security-Policy") < head.index("<style")
    assert policy().startswith("default-src 'none'; style-src 'sha256-")
    # A digest looks like a secret, and is none.
    assert escape(policy()) in head
    assert "unsafe" not in policy()
    assert "script" not in Seen(html).tags


BAD = (
    *('<p onclick="{}">', "<p{:style}>", '<a href="//x/{}">', '<img src="#{}">'),
    '<a href="{}">',
)


@pytest.mark.parametrize("template", BAD)
def test_a_template_lets_in_no_handler_style_or_address(template):
    with pytest.raises(AssertionError):
        Html(Redactor(b"k" * 32))(template, "javascript:alert(1)")


SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
KEY_LINES = tuple(
    base64.b64encode(hashlib.sha512(str(n).encode()).digest()[:48]).decode() for n in range(4)
)
KEY = "\n".join(("-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"))


@pytest.mark.extended
def test_secrets_are_taken_out_of_every_text(tmp_path):
    html = page_of(tmp_path, Saying(f"token {SECRET}\n{KEY}"))
    assert SECRET not in html
    assert not any(line in html for line in KEY_LINES)
    assert '<mark class="gone">[redacted:' in html


def test_secrets_are_taken_out_of_an_edit_before_it_is_cut_into_lines():
    edited = {"file_path": "key.pem", "old_string": KEY, "new_string": f"{KEY}\n{SECRET}"}
    asked = ToolCallPart(call_id="c", title="Edit", tool_kind="edit", arguments=edited)
    html = call_piece(Html(Redactor(b"k" * 32)), ToolCall(seq=1, call_id="c", at_ms=0, asked=asked))
    assert not any(line in html for line in (*KEY_LINES, SECRET))
    assert "[redacted:" in html
