"""What is told of damage, and that a cut at the beginning is none."""

from tests.core.history.histories import call, message, result, text

from upthread.core.history.damage_note import damage_told

SOUND = (
    message("user", text("go")),
    message("assistant", call("c1", "git push")),
    message("tool", result("c1")),
    message("assistant", text("done")),
)


def test_of_a_sound_history_nothing_is_told():
    assert damage_told(SOUND) == ""
    assert damage_told(()) == ""


def test_a_call_without_a_result_is_told():
    told = damage_told((SOUND[0], SOUND[1]))
    assert "call c1 (git push) has no result" in told
    assert "look before you do it again" in told


def test_a_cut_before_the_first_user_is_no_damage():
    assert damage_told((SOUND[2], SOUND[3], *SOUND)) == ""
    assert damage_told((SOUND[2],)) == ""
