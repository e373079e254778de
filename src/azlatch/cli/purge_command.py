"""`azlatch purge`: removes the records of unused names."""

from __future__ import annotations

import click

from azlatch.cli.app import Options, Seconds, say


@click.command("purge")
@click.option("--older-than", type=Seconds(), required=True, metavar="S", help="Unused for so many seconds.")
@click.pass_obj
def command(options: Options, older_than: float) -> None:
    """Remove the records of names that nobody used for S seconds. Their fences go on rising."""
    with options.connect() as latches:
        gone = latches.purge(older_than=older_than)
    say(f"azlatch: removed {gone} records")
