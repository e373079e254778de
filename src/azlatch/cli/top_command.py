"""`azlatch top`: who holds what, live."""

from __future__ import annotations

import contextlib
import sys
import time

import click
from rich.live import Live
from rich.text import Text

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
    looks = 0
    with options.connect() as latches, contextlib.ExitStack() as stack:
        screen = stack.enter_context(_screen()) if sys.stdout.isatty() and not as_json else None
        while True:
            views = [view for view in latches.list() if view.state != "free"]
            if as_json:
                echo(json_line([as_dict(view) for view in views]))
            else:
                text = f"{time.strftime('%H:%M:%S')}  {len(views)} held\n{views_table(views)}"
                if screen is None:
                    echo(text)
                else:
                    # As Text: nothing in it is taken for markup.
                    screen.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            looks += 1
            if looks == count:
                return
            time.sleep(every)


def _screen() -> Live:
    return Live(auto_refresh=False, vertical_overflow="ellipsis")
