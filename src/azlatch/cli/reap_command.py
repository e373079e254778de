"""`azlatch reap`: finds orphans, and frees them."""

from __future__ import annotations

import time

import click

from azlatch.backends.protocol import View
from azlatch.cli.app import VIOLATED, Options, Seconds, say
from azlatch.cli.show import as_dict, echo, json_line, table
from azlatch.errors import UsageError
from azlatch.runtime.latches import Latches


@click.command("reap")
@click.option("--apply", is_flag=True, help="Free them; without it they are only listed.")
@click.option("--max-age", type=Seconds(), help="Also holds older than so many seconds, alive or not.")
@click.option("--every", type=Seconds(0.1, 86_400), help="Repeat every so many seconds, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def command(options: Options, apply: bool, max_age: float | None, every: float | None, as_json: bool) -> int:
    """Find holds whose ttl has passed, whose holder is dead, or that are over-age.

    Exit 1 if there are any and --apply is not given.
    """
    watched: dict[tuple[str, int | None], float] = {}
    with options.connect() as latches:
        while True:
            found = _reap(latches, apply, max_age, as_json, watched)
            if max_age is not None and watched and every is None:
                say(
                    f"azlatch: the age of {len(watched)} held names is not known to this store: with --every it is "
                    "watched"
                )
            if every is None:
                return VIOLATED if found and not apply else 0
            time.sleep(every)


def _reap(
    latches: Latches,
    apply: bool,
    max_age: float | None,
    as_json: bool,
    watched: dict[tuple[str, int | None], float],
) -> int:
    views = list(latches.list())
    _watch(views, watched)
    orphans = [(view, why) for view in views if (why := _orphaned(view, max_age, watched)) is not None]
    rows = []
    for view, why in orphans:
        done = _free(latches, view, why) if apply else "found"
        if as_json:
            echo(json_line({**as_dict(view), "why": why, "done": done}))
        rows.append([view.name, why, view.holder.label if view.holder else "-", str(view.fence), done])
    if rows and not as_json:
        echo(table(["NAME", "WHY", "HOLDER", "FENCE", "DONE"], rows))
    elif not rows:
        click.echo("no orphans", err=True)
    return len(rows)


def _watch(views: list[View], watched: dict[tuple[str, int | None], float]) -> None:
    """Since when a hold has been seen whose age the store does not know for certain."""
    now = time.monotonic()
    seen = {(view.name, view.fence): now for view in views if view.state == "held" and not view.certain}
    present = {key: watched.get(key, since) for key, since in seen.items()}
    watched.clear()
    watched.update(present)


def _orphaned(view: View, max_age: float | None, watched: dict[tuple[str, int | None], float]) -> str | None:
    if view.state == "free":
        return None
    if view.orphan:
        return view.orphan
    if view.state == "expired":
        return "expired or its holder is dead"
    held_for = time.time() - view.since if view.since is not None and view.certain else None
    if held_for is None:
        held_for = time.monotonic() - watched.get((view.name, view.fence), time.monotonic())
    if max_age is not None and held_for > max_age:
        return f"held for {held_for:.0f} s"
    return None


def _free(latches: Latches, view: View, why: str) -> str:
    try:
        broken = latches.break_hold(view.name, reason=f"reaped: {why}", fence=view.fence)
    except UsageError:
        return "taken by another meanwhile"
    if broken is None:
        return "free meanwhile"
    return "freed" if broken.free_in == 0 else f"broken, free in {broken.free_in:.0f} s"
