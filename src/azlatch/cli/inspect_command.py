"""`azlatch inspect`: one latch, in full."""

from __future__ import annotations

import click

from azlatch.backends.protocol import View
from azlatch.cli.app import VIOLATED, Options, escape, say
from azlatch.cli.show import as_dict, echo, json_line, seconds, since


@click.command("inspect")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def command(options: Options, name: str, as_json: bool) -> int:
    """One latch: state, holder, fence, note, waiters. Exit 1 if the store has no record of NAME."""
    with options.connect() as latches:
        view = latches.inspect(name)
    if view is None:
        say(f"azlatch: no record of {name!r}")
        return VIOLATED
    if as_json:
        echo(json_line(as_dict(view)))
        return 0
    facts = {
        "name": view.name,
        "state": view.state,
        "holder": _holder(view),
        "instance": view.holder.id if view.holder is not None else "-",
        "since": since(view.since),
        "last beat": f"{seconds(view.age)} ago" if view.age is not None else "-",
        "expires in": seconds(view.expires_in),
        "ttl": seconds(view.ttl),
        "fence": view.fence,
        "waiters": view.waiters,
        "note": view.note or "-",
        "broken by": f"{view.breaker}: {view.reason}" if view.breaker else "-",
    }
    if view.orphan:
        facts["orphan"] = view.orphan
    for title, fact in facts.items():
        echo(f"{title:<11} {escape(fact)}")
    return 0


def _holder(view: View) -> str:
    if view.holder is None:
        return "unknown" if view.state == "held" else "-"
    return (
        view.holder.label
        if view.certain
        else f"{view.holder.label} (as recorded; the lease may be a later one)"
    )
