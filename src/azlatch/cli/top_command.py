"""`azlatch top`: who holds what, live."""

from __future__ import annotations

import sys
import time

import click

from azlatch.cli.app import Options, Seconds
from azlatch.cli.show import as_dict, echo, json_line, views_table


@click.command("top")
@click.option(
    "--every", type=Seconds(0.1, 3_600), default=1.0, show_default=True, help="Seconds between looks."
)
@click.option("--count", type=click.IntRange(1), help="How many looks; by default until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array a look.")
@click.pass_obj
def command(options: Options, every: float, count: int | None, as_json: bool) -> None:
    """Who holds what, live; ends with Ctrl-C."""
    live = sys.stdout.isatty() and not as_json
    looks = 0
    with options.connect() as latches:
        while True:
            views = [view for view in latches.list() if view.state != "free"]
            if as_json:
                echo(json_line([as_dict(view) for view in views]))
            else:
                if live:
                    click.clear()
                echo(f"{time.strftime('%H:%M:%S')}  {len(views)} held\n{views_table(views)}")
            looks += 1
            if looks == count:
                return
            time.sleep(every)
