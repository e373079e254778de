"""`azlatch audit`: checks a history, or explains a moment of it."""

from __future__ import annotations

from datetime import datetime

import click

from azlatch.cli.app import GOOD, UNKNOWN, VIOLATED, Options, Seconds, escape
from azlatch.cli.show import echo, json_line, since
from azlatch.cli.stats_command import paths_of
from azlatch.errors import UsageError


@click.group("audit")
def command() -> None:
    """Check a history, or explain a moment of it."""


@command.command("check")
@click.argument("files", nargs=-1)
@click.option("--max-skew", type=Seconds(), help="Seconds that wall clocks of machines differ by at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def check(options: Options, files: tuple[str, ...], max_skew: float | None, as_json: bool) -> int:
    """Check M1, M2 and M3 on a log. Exit 0 pass, 1 fail, 3 unknown."""
    from azlatch.audit import history
    from azlatch.audit.log import Damage, read

    damage: list[Damage] = []
    events = list(read(paths_of(options, files), damage))
    verdict = history.check(events, damage, max_skew=max_skew)
    findings = [
        {"status": each.status, "rule": each.rule, "name": each.name, "text": each.text}
        for each in verdict.findings
    ]
    if as_json:
        counts = {"grants": verdict.grants, "accepted": verdict.accepted, "rejected": verdict.rejected}
        echo(json_line({"verdict": verdict.status, **counts, "findings": findings}))
    else:
        for each in findings:
            echo(escape(f"{each['status']}: {each['rule']} {each['name']}: {each['text']}"))
        echo(
            f"{verdict.status}: {verdict.grants} grants of {verdict.instances} instances, {verdict.accepted} writes "
            f"accepted, {verdict.rejected} refused"
        )
    return {"pass": GOOD, "fail": VIOLATED, "unknown": UNKNOWN}[verdict.status]


@command.command("why")
@click.argument("name")
@click.argument("files", nargs=-1)
@click.option(
    "--at", required=True, metavar="TIME", help="Seconds since 1970, or 2026-01-31T12:00:00 (local time)."
)
@click.option("--window", type=Seconds(), default=60.0, show_default=True, help="Seconds around it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def why(options: Options, name: str, files: tuple[str, ...], at: str, window: float, as_json: bool) -> int:
    """What happened to NAME at a time: contention, timeout, slow store, outage, loss, break or race."""
    from azlatch.audit import why as reasons
    from azlatch.audit.log import Damage, read

    damage: list[Damage] = []
    found = reasons.why(read(paths_of(options, files), damage), name, _time_of(at), window=window)
    for each in found:
        if as_json:
            events = [event.to_json() for event in each.events]
            echo(json_line({"what": each.what, "words": each.words, "events": events}))
        else:
            when = since(each.events[0].wall, "%H:%M:%S") if each.events else "-"
            echo(escape(f"{when}  {each.words}"))
    return UNKNOWN if found[0].what == "nothing" or damage else GOOD


def _time_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"--at {text!r} is no time: give seconds since 1970, or 2026-01-31T12:00:00") from None
