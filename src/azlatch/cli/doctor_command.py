"""`azlatch doctor`: checks the store."""

from __future__ import annotations

import click

from azlatch.cli.app import GOOD, VIOLATED, Options, escape
from azlatch.cli.show import echo, json_line


@click.command("doctor")
@click.option("--apply", is_flag=True, help="Mend what can be mended without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def command(options: Options, apply: bool, as_json: bool) -> int:
    """Check that the store is reachable, private, sound and safe. Exit 1 if something is wrong."""
    latches = options.connect(create=apply)
    with latches:
        backend = latches._connection.backend
        checks = backend.doctor(apply=apply) if hasattr(backend, "doctor") else []
    for check in checks:
        if as_json:
            echo(json_line(check._asdict()))
        else:
            cure = f"; {check.cure}" if check.cure and check.status != "ok" else ""
            echo(escape(f"{check.status:<5} {check.what}: {check.found}{cure}"))
    return VIOLATED if any(check.status == "wrong" for check in checks) else GOOD
