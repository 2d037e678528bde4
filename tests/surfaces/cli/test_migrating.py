"""A shared database: named, migrated, used by every verb; never found by accident."""

from upthread.store.streams import SCHEMA_VERSION as NEWEST


def test_a_turn_is_resumed_on_a_database_that_was_migrated_first(up, fresh_address):
    up.environment["UPTHREAD_DB"] = fresh_address
    refused = up("ls", "--json", code=1).json["error"]
    assert refused["kind"] == "store"
    assert "upthread migrate" in refused["hint"]
    assert up("migrate").out.endswith(f": schema 0 → {NEWEST}\n")
    assert up("migrate").out.endswith(f": schema {NEWEST}, nothing to do\n")
    first = up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal", "--json")
    second = up("tell", "w/planner", "[[rehearse: say hi]]", "--json")
    decisions = [done.stream[0]["decision"] for done in (first, second)]
    assert decisions == ["first", "resume"]
    assert up("show", "w", "--json").json["roles"][0]["turns"] == 2
    assert not (up.home / "upthread" / "upthread.db").exists()


def test_the_address_of_the_users_application_is_never_read(up, fresh_address):
    up.environment["DATABASE_URL"] = fresh_address
    up("ls")
    assert (up.home / "upthread" / "upthread.db").exists()


def test_a_file_needs_no_migrating(up):
    refused = up("migrate", code=2).err
    assert "brought up to date when it is opened" in refused
    assert "--db postgres://" in refused


def test_without_its_driver_postgresql_says_what_to_install(up):
    (up.home / "psycopg.py").write_text("raise ModuleNotFoundError('no psycopg', name='psycopg')")
    up.is_cold = True
    up.environment["PYTHONPATH"] = f"{up.home}:{up.environment['PYTHONPATH']}"
    refused = up("ls", "--db", "postgres://ada@127.0.0.1:1/work", code=2).err
    assert "pip install 'upthread[postgres]'" in refused
    up("ls")
