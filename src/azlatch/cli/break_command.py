"""`azlatch break`: ends someone's hold, as an operator."""

from __future__ import annotations

import click

from azlatch.cli.app import VIOLATED, Options, say


@click.command("break")
@click.argument("name")
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--fence", type=int, help="Only if this fence still has it.")
@click.option("--now", is_flag=True, help="Free the name at once: two holders may believe, only gates protect.")
@click.pass_obj
def command(options: Options, name: str, reason: str, fence: int | None, now: bool) -> int:
    """End the hold of NAME. Its holder is told at its next look.

    The name is granted again when the holder has noticed, or a ttl after the break. Exit 1 if nobody has it.
    """
    with options.connect() as latches:
        broken = latches.break_hold(name, reason=reason, fence=fence, now=now)
    if broken is None:
        say(f"azlatch: nobody holds {name!r}")
        return VIOLATED
    if now:
        say("azlatch: freed at once: the old holder may still write, and only gates stop it")
    say(f"azlatch: broke fence {broken.fence} of {name!r}; free in {broken.free_in:.1f} s at the latest")
    return 0
