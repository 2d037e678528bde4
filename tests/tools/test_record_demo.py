"""The picture in the README is what the demo prints now, and asks nobody for anything."""

from __future__ import annotations

import re

from tests.support.decisions_told import decisions_told
from tools.record_demo import PICTURE, drawn, recorded, words_in

from upthread.core.decision.words import RESUME


def test_the_picture_is_what_the_demo_prints_on_a_terminal():
    assert words_in(drawn(recorded())) == words_in(PICTURE.read_text("utf-8"))


def test_the_picture_loads_nothing():
    picture = PICTURE.read_text("utf-8")
    assert not re.search(r"url\((?!#)|href|<script|<image|@font-face", picture)
    assert RESUME in decisions_told(" ".join(words_in(picture)))
