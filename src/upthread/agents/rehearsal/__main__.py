"""Start the rehearsal agent on standard input and output, until the client closes its end."""

import os
import signal
import sys

from upthread.agents.rehearsal.methods import Methods
from upthread.agents.rehearsal.protocol import Connection
from upthread.agents.rehearsal.sessions import (
    OUTLIVES,
    READ_ONLY,
    EventLog,
    SessionStore,
    SettingsError,
    UnsafeDirectoryError,
    read_settings,
)
from upthread.agents.rehearsal.turn import Agent

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
OUTLIVES_S = 30.0


def main() -> None:
    """Serve one client. Ends the process; exit code 2 and a line on stderr for bad settings."""
    try:
        settings = read_settings(os.environ)
        is_read_only = READ_ONLY in settings.words
        store = SessionStore(settings.sessions_directory, is_read_only=is_read_only)
    except (SettingsError, UnsafeDirectoryError, OSError) as error:
        sys.stderr.write(f"rehearsal agent: {error}\n")
        sys.exit(EXIT_USAGE)
    outlives_client = OUTLIVES in settings.words
    connection = Connection(
        sys.stdin.buffer,
        output_descriptor=sys.stdout.fileno(),
        outlives_client=outlives_client,
    )
    log = EventLog(settings.log_path)
    methods = Methods(Agent(store=store, connection=connection, log=log, settings=settings))
    if outlives_client:
        # upthread's end sends it, and what is rehearsed is an agent that outlives it (ADR 88).
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        connection.serve(methods.requests(), methods.cancel)
    except KeyboardInterrupt:
        connection.leave(EXIT_INTERRUPTED)
    if outlives_client:
        methods.end_turns(within_s=OUTLIVES_S)
    connection.leave()


if __name__ == "__main__":
    main()
