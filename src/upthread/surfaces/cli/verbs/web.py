"""`upthread web`: serves the record to a person's browser."""

import secrets
import webbrowser

import click

from upthread.client.project import Project
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, extra


@options.verb
@options.port
@click.option(
    "--no-open",
    "opens_browser",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Only print the address, open no browser.",
)
def main(call: Call, *, port: int, opens_browser: bool) -> None:
    """Show the record in a browser: live, read-only, only for you, until Ctrl-C.

    The printed address has a token, so that no other user of this machine can open it.
    """
    with extra("the web pages", "web"):
        from upthread.surfaces.web import server

    def listening(address: str) -> None:
        call.output.note(f"listening on {address}")
        call.output.note("Ctrl-C ends it", "dim")
        if opens_browser and call.output.is_terminal:
            webbrowser.open(address)

    async def serve(project: Project) -> None:
        token = secrets.token_urlsafe(24)
        try:
            await server.serve(project, port=port, token=token, listening=listening)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be listened on: {error.strerror}", hint="leave --port out"
            ) from error

    call.with_project(serve)
