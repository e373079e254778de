"""`azlatch lab`: local services, alone or around a command, and the fault proxy before them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator

import click

from azlatch.cli.app import GOOD, UNUSABLE, escape, say
from azlatch.cli.child import (
    NOT_FOUND,
    NOT_RUNNABLE,
    Ended,
    Signals,
    Terminal,
    reap_orphans,
    signal_group,
    stopped_by_terminal,
)
from azlatch.cli.show import echo, json_line
from azlatch.errors import UsageError
from azlatch.lab.azurite import Azurite
from azlatch.lab.child import die_with_parent
from azlatch.lab.faults import parse
from azlatch.lab.proxy import FaultProxy

#: The services that there are.
SERVICES = {"azurite": Azurite}
_PORT = click.IntRange(1, 65_535)
_LONGEST_LINE = 65_536

_port = click.option("--port", type=_PORT, help="A fixed loopback port; by default a free one.")
_faults = click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="RULE",
    help="Put a fault proxy before the service; may be repeated.",
)


class _Lab(click.Group):
    """Takes several services at once, separated by commas."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = super().get_command(ctx, name)
        if found is None:
            services(name)
        return found


@click.group("lab", cls=_Lab)
def command() -> None:
    """Run local Azure services, and a proxy with faults.

    A RULE is a fault and the requests that it is for, such as "drop-reply lease=acquire times=1",
    "status=503 p=0.1" or "delay=5 method=PUT after=2".
    """


@command.command("azurite")
@_port
@_faults
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def serve(port: int | None, faults: tuple[str, ...], as_json: bool) -> int:
    """Start the blob service and print its connection string as environment variables.

    It serves until it is ended with TERM or INT; what it stores is then gone. Exit: 0; 69 if it cannot be
    started, or ends by itself.
    """
    try:
        with Signals() as signals, _started("azurite", faults, port) as (azurite, variables):
            signals.end_the_wait = False
            if as_json:
                echo(json_line(variables))
            else:
                for name, value in variables.items():
                    echo(f"{name}={value}")
            while not signals.received:
                if azurite.pid is None:
                    say("azlatch: azurite has ended by itself")
                    return UNUSABLE
                _wait(signals, 1.0)
            return GOOD
    except Ended:
        return GOOD


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("names", metavar="SERVICES")
@_port
@_faults
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def execute(names: str, port: int | None, faults: tuple[str, ...], arguments: tuple[str, ...]) -> int:
    """Run CMD with SERVICES started and their environment variables set, and end them with it.

    Exit: the child's code; 126 or 127 if it cannot be run or found; 128 + n if signal n ended it.
    """
    try:
        with Signals() as signals, _started(names, faults, port) as (azurite, variables):
            signals.end_the_wait = False
            code = _run(list(arguments), {**os.environ, **variables}, signals)
            if azurite.pid is None:
                say("azlatch: azurite had ended before the command did")
            return code
    except Ended as ended:
        return 128 + ended.number


@command.command("proxy")
@click.option("--target", required=True, metavar="HOST:PORT", help="The service behind the proxy.")
@_port
@_faults
@click.option("--seed", type=int, default=0, show_default=True, help="Of what p= draws.")
def proxy(target: str, port: int | None, faults: tuple[str, ...], seed: int) -> int:
    """Run the fault proxy alone, until it is ended with TERM or INT.

    Prints its URL. Lines on standard input change the rules: "add RULE", "clear", and "show", which prints
    the rules with how often each was applied.
    """
    try:
        with Signals() as signals, FaultProxy(target, port=port, seed=seed) as running:
            signals.end_the_wait = False
            for fault in faults:
                running.add(fault)
            echo(running.endpoint)
            control = _Control(running)
            while not signals.received:
                _wait(signals, 1.0, control)
            return GOOD
    except Ended:
        return GOOD


def services(text: str) -> list[str]:
    """The services that a comma-separated text names.

    Raises:
        UsageError: one of them is unknown or there twice.
    """
    names = text.split(",")
    for name in names:
        if name not in SERVICES:
            raise UsageError(f"there is no service {escape(name)!r} in the lab: use {', '.join(SERVICES)}")
    if len(set(names)) != len(names):
        raise UsageError(f"services {text!r} name one of them twice")
    return names


@contextlib.contextmanager
def _started(names: str, faults: tuple[str, ...], port: int | None) -> Iterator[tuple[Azurite, dict[str, str]]]:
    """The services, running, and the variables that lead to them; with faults, by way of a proxy."""
    services(names)
    for fault in faults:
        parse(fault)
    with contextlib.ExitStack() as stack:
        # Where there is a proxy, the port that was asked for is the proxy's: it is the one that is used.
        azurite = stack.enter_context(Azurite(None if faults else port))
        if not faults:
            yield azurite, azurite.environment()
            return
        running = stack.enter_context(FaultProxy(azurite, port=port))
        for fault in faults:
            running.add(fault)
        yield azurite, azurite.environment(running.port)


def _run(arguments: list[str], environment: dict[str, str], signals: Signals) -> int:
    try:
        child = subprocess.Popen(
            arguments, env=environment, process_group=0, preexec_fn=die_with_parent(os.getpid())
        )
    except FileNotFoundError:
        say(f"azlatch: {arguments[0]}: not found")
        return NOT_FOUND
    except OSError as error:
        say(f"azlatch: {arguments[0]}: {error.strerror}")
        return NOT_RUNNABLE
    with Terminal(child.pid) as terminal:
        while child.poll() is None:
            while signals.received:
                signal_group(child.pid, signals.received.pop(0))
            if terminal.was_given and stopped_by_terminal(child.pid):
                terminal.stop_along()
                signal_group(child.pid, signal.SIGCONT)
                continue
            _wait(signals, 1.0)
            if os.getpid() == 1:
                reap_orphans(child.pid)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


class _Control:
    """Lines of standard input that change a proxy's rules."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._buffer = b""
        self.is_open = True

    def read(self) -> None:
        piece = os.read(0, 4_096)
        self.is_open = bool(piece)
        *lines, self._buffer = (self._buffer + piece).split(b"\n")
        if len(self._buffer) > _LONGEST_LINE:
            say("azlatch: the line is too long")
            self._buffer = b""
        for line in lines:
            self.line(line.decode(errors="replace").strip())

    def line(self, text: str) -> None:
        """Obeys one line, or says on stderr why not."""
        verb, _, rule = text.partition(" ")
        try:
            if verb == "add":
                self._proxy.add(rule)
            elif text == "clear":
                self._proxy.clear()
            elif text == "show":
                for each in self._proxy.rules:
                    echo(f"{escape(each)}  # matched {each.seen}, applied {each.fired}")
                echo(f"# {self._proxy.count()} requests")
            elif text:
                say(f"azlatch: {text!r} is unknown: write add RULE, clear or show")
        except UsageError as error:
            say(f"azlatch: {error}")


def _wait(signals: Signals, longest: float, control: _Control | None = None) -> None:
    """Until a signal, a line of input, or `longest` seconds."""
    files = [signals.wakeup, *([0] if control is not None and control.is_open else [])]
    for file in select.select(files, [], [], longest)[0]:
        if file == 0 and control is not None:
            control.read()
        else:
            os.read(file, 4_096)
