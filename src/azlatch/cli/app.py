"""The group of commands, what they share, and how errors become exit codes."""

from __future__ import annotations

import importlib
import math
import os
from dataclasses import dataclass
from typing import Any

import click

import azlatch
from azlatch.errors import (
    AcquireTimeout,
    BackendError,
    HeartUnavailable,
    HoldLost,
    LatchError,
    OutcomeUnknown,
    UsageError,
)

GOOD, VIOLATED, UNKNOWN, USAGE, UNUSABLE, SOFTWARE, CONTENDED, LOST = 0, 1, 3, 64, 69, 70, 75, 76

#: The commands, in the order of the help; each is the function `command` of a module of its name.
COMMANDS = {
    "run": "Run a command while holding a latch.",
    "gate": "Write a file or run a command only if the fence is not older.",
    "list": "Who holds what.",
    "inspect": "One latch, in full.",
    "top": "Who holds what, live.",
    "break": "End someone's hold, as an operator.",
    "reap": "Find orphans, and free them.",
    "purge": "Remove the records of unused names.",
    "doctor": "Check the store.",
    "stats": "What the audit log adds up to.",
    "audit": "Check a history, or explain a moment of it.",
    "prove": "Prove mutual exclusion with real processes and real faults.",
    "explain": "What an answer of Cosmos DB means, and whether a retry is safe.",
    "lab": "Run local Azure services, and a proxy with faults.",
}


@dataclass
class Options:
    """What stands before the command."""

    url: str | None
    audit: str | None

    @property
    def audit_path(self) -> str:
        """The audit log: --audit, AZLATCH_AUDIT, else in the user's state directory."""
        from azlatch.runtime.connect import state_directory

        environment = dict(os.environ)
        return (
            self.audit
            or environment.get("AZLATCH_AUDIT")
            or os.path.join(state_directory(environment), "audit.jsonl")
        )

    def connect(self, **options: Any) -> azlatch.Latches:
        """Latches in the store that the user named."""
        return azlatch.connect(self.url, audit=self.audit_path, **options)


class Seconds(click.FloatRange):
    """A finite number of seconds, from `least` to `most`."""

    name = "seconds"

    def __init__(self, least: float = 0.0, most: float | None = None) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return number


class _Group(click.Group):
    """Loads a command when it is used, and not for the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"azlatch.cli.{name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", metavar="URL", help="The store; by default AZLATCH_URL, else the embedded one.")
@click.option(
    "--audit", metavar="PATH", help="The audit log; by default AZLATCH_AUDIT, else in the state directory."
)
@click.version_option(azlatch.__version__, prog_name="azlatch")
@click.pass_context
def group(ctx: click.Context, url: str | None, audit: str | None) -> None:
    """Safe concurrency: distributed latches with fencing tokens.

    Exit codes: 0 good, 1 violated, 3 unknown or inconclusive, 64 usage, 69 the store cannot be used,
    75 not acquired in time, 76 lost.
    """
    ctx.obj = Options(url, audit)


def run(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code; no traceback reaches the user."""
    try:
        result = group.main(arguments, prog_name="azlatch", standalone_mode=False)
        return result if isinstance(result, int) else GOOD
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(error.ctx.get_usage(), err=True)
        say(f"azlatch: {error.format_message()}")
        return USAGE
    except LatchError as error:
        say(f"azlatch: {error}")
        return exit_code(error)
    except SystemExit as done:
        # Whoever read the output has gone; click makes an exit of that.
        return GOOD if isinstance(done.__context__, BrokenPipeError) else int(done.code or 0)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last line of defence
        say(f"azlatch: {type(error).__name__}: {error}; please report this")
        return SOFTWARE


def exit_code(error: LatchError) -> int:
    """The documented exit code of an error."""
    for kind, code in (
        (UsageError, USAGE),
        (AcquireTimeout, CONTENDED),
        (HoldLost, LOST),
        (BackendError, UNUSABLE),
        (HeartUnavailable, UNUSABLE),
        (OutcomeUnknown, UNKNOWN),
    ):
        if isinstance(error, kind):
            return code
    return VIOLATED


def say(text: str) -> None:
    """A message for a person, on stderr, with whatever a terminal might obey escaped."""
    click.echo(escape(text), err=True)


def escape(text: object) -> str:
    """Text from outside as one line for a terminal: controls, overrides and line ends are shown, not obeyed."""
    return "".join(each if each.isprintable() else _shown(ord(each)) for each in str(text))


def _shown(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
