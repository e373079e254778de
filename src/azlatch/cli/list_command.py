"""`azlatch list`: who holds what."""

from __future__ import annotations

import click

from azlatch.cli.app import Options
from azlatch.cli.show import as_dict, echo, json_line, views_table


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also names that nobody holds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def command(options: Options, everything: bool, as_json: bool) -> None:
    """Who holds what, since when, until when."""
    with options.connect() as latches:
        views = [view for view in latches.list() if everything or view.state != "free"]
    if as_json:
        for view in views:
            echo(json_line(as_dict(view)))
    elif views:
        echo(views_table(views))
    else:
        click.echo("nothing is held", err=True)
