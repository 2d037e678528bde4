"""Workers whose server is no primary any more: they wait for the new one and go on."""

import os
import signal

import anyio
import pytest
from tests.runtime.conftest import fork_server
from tests.store.postgres.test_failover import fail_over, pair
from tests.support.laboratory.sharing import Observer, Passage, Workers, until
from tests.support.postgres_server import with_database
from tests.support.sets import EXTENDED

__all__ = ["fork_server", "pair"]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@EXTENDED
async def test_a_run_comes_to_its_end_through_a_failover_while_the_old_primary_stays_up(
    pair, tmp_path
):
    primary, _, proxy = pair
    passage = Passage(tmp_path / "passage", proxy.address)
    observer = Observer(with_database(primary.address, "work"))
    try:
        with Workers(tmp_path, passage.world.environment, [passage.world.project]) as workers:
            worker = workers.start()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(passage.play)
                await until(lambda: observer.held_by(worker.pid))
                primary.demote()
                # Longer than one call waits.
                await anyio.sleep(25)
                await anyio.to_thread.run_sync(fail_over, *pair)
            assert worker.is_running
            os.kill(worker.pid, signal.SIGTERM)
            assert worker.exit_code == 0
            workers.check_no_traceback()
            assert "bug" not in worker.stderr
        judged = passage.judged()
        assert judged["faults"] == [], judged
    finally:
        observer.close()
        passage.close()
