"""What a log comes to is kept up to date by what is new, and read again where it must be."""

from __future__ import annotations

from upthread.integrations.folds import REMEMBERED_MAX, Folds
from upthread.runtime.record.entry_log import NewEntry


class Values:
    made = 0

    def __init__(self):
        Values.made += 1
        self.values = []

    def apply(self, entry):
        self.values.append(entry.value)


def append(log, *values):
    log.append([NewEntry(value=value) for value in values])


def test_what_another_opening_appends_is_taken_in_once_and_nothing_is_read_again(place):
    with place.open() as one, place.open() as other:
        folds, log = Folds(one, Values), one.log("trial", "t")
        append(log, 1)
        assert folds.of(log).fold.values == [1]
        made = Values.made
        append(other.log("trial", "t"), 2, 3)
        followed = folds.of(log)
        assert (followed.fold.values, followed.seen) == ([1, 2, 3], 3)
        assert Values.made == made


def test_a_log_that_was_begun_anew_elsewhere_is_read_again(place):
    with place.open() as one, place.open() as other:
        folds, log = Folds(one, Values), one.log("trial", "t")
        append(log, 1, 2)
        folds.of(log)
        other.log("trial", "t").rewrite(lambda entries: [NewEntry(value=entries[1].value)])
        assert folds.of(log).fold.values == [2]


def test_of_many_logs_those_used_last_are_remembered(sqlite_place):
    with sqlite_place.open() as opened:
        folds = Folds(opened, Values)
        for at in range(REMEMBERED_MAX + 3):
            append(opened.log("trial", f"t{at}"), at)
            folds.of(opened.log("trial", f"t{at}"))
        assert len(folds.known()) == REMEMBERED_MAX
        assert folds.known()[0].values == [REMEMBERED_MAX + 2]
        assert folds.of(opened.log("trial", "t0")).fold.values == [0]
