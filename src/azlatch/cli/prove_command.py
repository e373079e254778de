"""`azlatch prove`: mutual exclusion, proved with real processes and real faults."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from typing import IO

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

import azlatch
from azlatch.cli.app import GOOD, UNKNOWN, VIOLATED, Options, escape, say
from azlatch.cli.show import echo, json_line, table
from azlatch.errors import UsageError
from azlatch.proof.run import TTL, Plan, Result, run

#: Opened before the run, so that it is known to be writable.
_FILE = click.File("w", encoding="utf-8", lazy=False)


@click.command("prove")
@click.option("--instances", type=int, default=16, show_default=True, help="Processes at a time.")
@click.option(
    "--names", type=int, help="Guarded values; by default 8, or two an instance where leases are long."
)
@click.option("--seconds", type=float, default=20.0, show_default=True, help="How long.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all choices.")
@click.option("--unprotected", is_flag=True, help="The same work without a latch.")
@click.option(
    "--json", "json_file", type=_FILE, metavar="FILE", help="Write the result as JSON; - for standard output."
)
@click.option(
    "--html", "html_file", type=_FILE, metavar="FILE", help="Write the result as a page with a timeline."
)
@click.option("--keep", metavar="FOLDER", help="Keep the values, the audit log and what the instances said.")
@click.option("--mutant", default="", hidden=True, help="Break a rule of the engine on purpose.")
@click.pass_obj
def command(
    options: Options,
    instances: int,
    names: int | None,
    seconds: float,
    seed: int,
    unprotected: bool,
    json_file: IO[str] | None,
    html_file: IO[str] | None,
    keep: str | None,
    mutant: str,
) -> int:
    """Start processes that change guarded values, kill some, stop some past their ttl, and judge.

    Without --url an embedded store of its own is used. Exit 0 pass, 1 fail, 3 inconclusive.
    """
    folder = _empty_folder(keep) if keep else tempfile.mkdtemp(prefix="azlatch-prove-")
    try:
        url = options.url or f"sqlite:///{os.path.join(os.path.abspath(folder), 'latches.db')}"
        ttl = TTL
        if not unprotected:
            # What cannot be used is said at once, and not by each instance.
            with azlatch.connect(url, audit=os.path.join(folder, "audit.jsonl"), create=True) as latches:
                ttl = max(TTL, latches._connection.backend.limits.min_ttl)
        plan = Plan(
            url,
            os.path.abspath(folder),
            instances,
            names if names is not None else (8 if ttl == TTL else 2 * instances),
            seconds,
            seed,
            not unprotected,
            mutant,
            options.url is None,
            ttl,
        )
        with _Progress() as progress:
            result = run(plan, progress)
        if json_file is not None:
            json_file.write(json.dumps(result.to_dict(), indent=2) + "\n")
        if html_file is not None:
            from azlatch.proof.report import page

            html_file.write(page(result))
            say(f"azlatch: the report is {html_file.name}")
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if json_file is not sys.stdout:
        echo(summary(result))
    return {"pass": GOOD, "fail": VIOLATED, "inconclusive": UNKNOWN}[result.outcome]


def summary(result: Result) -> str:
    """The result as a table and a verdict."""
    facts = result.to_dict()
    rows = [[key, json_line(value)] for key, value in facts.items() if key not in ("verdict", "reasons")]
    what = "latched" if result.plan.protected else "unprotected"
    lines = [table(["WHAT", "VALUE"], rows), *(f"- {escape(reason)}" for reason in result.reasons)]
    return "\n".join([*lines, f"verdict: {result.outcome} ({what})"])


class _Progress:
    """A bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._bar = (
            Progress(
                TextColumn("proving"),
                BarColumn(40, complete_style="green", finished_style="green"),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
            )
            if sys.stderr.isatty()
            else None
        )
        self._next = 0.0

    def __enter__(self) -> _Progress:
        if self._bar is not None:
            self._task = self._bar.add_task("", total=1.0)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            # Whatever ended it, the terminal gets its cursor back.
            self._bar.stop()

    def __call__(self, share: float, result: Result) -> None:
        text = f"{result.kills} killed, {result.pauses} stopped"
        if self._bar is not None:
            self._bar.update(self._task, completed=share, description=text)
            return
        now = time.monotonic()
        if now < self._next and (share < 1 or self._next == float("inf")):
            return
        self._next = float("inf") if share >= 1 else now + 5.0
        say(f"proving: {share:4.0%}  {text}")


def _empty_folder(path: str) -> str:
    """Makes the folder; what an earlier run left there would be judged as this one's."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        left = os.listdir(path)
    except OSError as error:
        raise UsageError(f"--keep {path}: {error.strerror}") from None
    if left:
        raise UsageError(f"--keep {path} is not empty: name a new folder")
    return path
