"""`azlatch stats`: what the audit log adds up to."""

from __future__ import annotations

import os
import time

import click

from azlatch.cli.app import Options, escape, say
from azlatch.cli.show import echo, json_line, table
from azlatch.errors import UsageError


def paths_of(options: Options, files: tuple[str, ...]) -> list[str]:
    """The logs to read: those named, else the user's own, rotated parts included."""
    from azlatch.audit.log import rotated

    for file in files:
        if not os.path.isfile(file):
            raise UsageError(f"{file} is not a file: name an audit log")
    found = list(files) or [str(path) for path in rotated(options.audit_path)]
    if not found:
        raise UsageError(f"there is no audit log at {options.audit_path}: name one, or set AZLATCH_AUDIT")
    return found


@click.command("stats")
@click.argument("files", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def command(options: Options, files: tuple[str, ...], as_json: bool) -> None:
    """Attempts, contention, timeouts, outages, waits and holds, the alarm, and what ttl to choose."""
    from azlatch.audit.log import Damage, read
    from azlatch.audit.statistics import Statistics

    damage: list[Damage] = []
    statistics = Statistics.of(read(paths_of(options, files), damage))
    for part in damage:
        say(f"azlatch: {part.path}:{part.line}: {part.why}")
    if as_json:
        echo(json_line(statistics.to_dict(time.time())))
        return
    rows = []
    for one in [*(statistics.latches[name] for name in sorted(statistics.latches)), statistics.total]:
        facts = one.to_dict(time.time())
        rows.append(
            [
                one.name,
                str(one.attempts),
                f"{one.contention:.1%}",
                f"{one.timeout_share:.1%}",
                str(one.slow),
                str(one.outages),
                str(sum(one.losses.values())),
                f"{one.waits.quantile(0.5):.3f}/{one.waits.quantile(0.99):.3f}",
                f"{one.holds.quantile(0.5):.3f}/{one.holds.maximum:.3f}",
                str(facts["advised_ttl_with_heartbeat_s"] or "-"),
                str(facts["advised_ttl_without_heartbeat_s"] or "-"),
            ]
        )
    titles = [
        "NAME",
        "ATTEMPTS",
        "CONTENTION",
        "TIMEOUTS",
        "SLOW",
        "OUTAGES",
        "LOST",
        "WAIT p50/p99",
        "HOLD p50/max",
    ]
    echo(table([*titles, "TTL+HEART", "TTL-HEART"], rows))
    for alarm in statistics.alarms:
        echo(f"ALARM {escape(alarm)}")
