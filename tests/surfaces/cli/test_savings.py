"""`savings` says what was told and that the rest was not; a price is the person's, whole or none."""

import pytest

PRICES = "read=3,cached=0.3,cache_written=3.75,written=15"


@pytest.fixture(scope="module")
def up(tmp_path_factory, make_upthread):
    up = make_upthread(tmp_path_factory.mktemp("savings"))
    tell = ("tell", "w/planner")
    up(
        *tell,
        "[[rehearse: read README.md]] [[rehearse: tokens 900 100]] [[rehearse: say a]]",
        "--agent",
        "rehearsal",
    )
    up(*tell, "[[rehearse: tokens 2000 500]] [[rehearse: say b]]")
    up(
        *tell,
        "[[rehearse: read README.md]] [[rehearse: say hi]] [[rehearse: tokens 90 9]]",
        "--fresh",
    )
    up("tell", "w/clarifier", "[[rehearse: say hi]]", "--agent", "rehearsal")
    up("tell", "other/auditor", "[[rehearse: say hi]]", "--agent", "rehearsal")
    return up


def test_a_project_has_its_sums_by_workstream_role_and_month(up):
    out = up("savings").out
    assert out.startswith("all workstreams: 5 delegations")
    heads = [line.split()[0] for line in out.splitlines() if line.isupper()]
    assert heads == ["WORKSTREAM", "ROLE", "MONTH"]
    told = up("savings", "--json").json
    assert [each["workstream"] for each in told["by_workstream"]] == ["w", "other"]
    assert [each["role"] for each in told["by_role"]] == ["planner", "clarifier", "auditor"]
    assert told["total"]["tokens_read"] == {"total": 2990, "told": 3, "of": 5}
    # 1,000 and 99 where a session began, 2,500 where it was resumed: a loss.
    assert told["total"]["tokens_saved"] == {"total": 550 - 2500, "told": 1, "of": 1}
    assert "saved       -2k\n" in out


def test_a_cost_is_told_only_of_what_was_told_whole(up):
    told = up("savings", "w", "--prices", PRICES)
    assert "cost        not told" in told.out
    assert up("savings", "w", "--prices", PRICES, "--json").json["total"]["cost"] is None


@pytest.mark.parametrize(
    "prices",
    ["", "read=3", f"{PRICES},more=1", "read=x,cached=0,cache_written=0,written=0"]
    + [PRICES.replace("read=3", f"read={odd}") for odd in ("-1", "NaN", "Infinity")],
)
def test_prices_that_are_not_whole_are_refused(up, prices):
    refused = up("savings", "w", "--prices", prices, code=2)
    assert "price" in refused.err
    assert "--prices read=3,cached=0.3" in refused.err


def test_where_nothing_was_delegated_it_says_so_and_a_workstream_nobody_knows_is_an_error(
    make_upthread, tmp_path
):
    up = make_upthread(tmp_path)
    assert "nothing was delegated here yet" in up("savings").err
    assert "there is no workstream" in up("savings", "nope", code=3).err
