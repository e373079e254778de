"""`azlatch gate`: a gate for shell children."""

from __future__ import annotations

import signal
import subprocess
import sys

import click

from azlatch.cli.app import VIOLATED, Seconds, say
from azlatch.errors import FenceRejected


@click.group("gate")
def command() -> None:
    """Write a file or run a command only if the fence is not older."""


@command.command("write", context_settings={"ignore_unknown_options": True})
@click.option(
    "--fence", type=int, envvar="AZLATCH_FENCE", required=True, help="The fence; by default AZLATCH_FENCE."
)
@click.option(
    "--timeout", type=float, default=10.0, show_default=True, help="Seconds to wait for another writer."
)
@click.option("--limit", type=Seconds(), help="Seconds that CMD may take; then it is killed.")
@click.argument("path", type=click.Path(dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
def write(fence: int, timeout: float, limit: float | None, path: str, arguments: tuple[str, ...]) -> int:
    """Replace the file PATH by standard input, or run CMD, under the fence.

    What was accepted is remembered beside PATH. Exit: 0 written, or the code of CMD as `run` has it;
    1 an older fence.
    """
    from azlatch.gates import FileGate

    gate = FileGate(path, timeout=timeout)
    try:
        if arguments:
            code = gate.run(fence, list(arguments), limit=limit)
            return code if code >= 0 else 128 - code
        gate.write(fence, sys.stdin.buffer.read())
    except FenceRejected as refused:
        say(f"azlatch: {refused}")
        return VIOLATED
    except FileNotFoundError as missing:
        say(f"azlatch: {missing.filename}: not found")
        return 127
    except subprocess.TimeoutExpired:
        say(f"azlatch: {arguments[0]}: killed after {limit:g} s")
        return 128 + signal.SIGKILL
    except OSError as error:
        say(f"azlatch: {arguments[0] if arguments else path}: {error.strerror}")
        return 126
    return 0
