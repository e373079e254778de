"""`azlatch lab`: local services, alone or around a command, and the fault proxy before them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

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
from azlatch.cli.lab_services import SERVICES, CosmosService, Service
from azlatch.cli.show import echo, json_line
from azlatch.errors import UsageError
from azlatch.lab.child import die_with_parent
from azlatch.lab.proxy import FaultProxy

_PORT = click.IntRange(1, 65_535)
_LONGEST_LINE = 65_536

_port = click.option("--port", type=_PORT, help="A fixed loopback port; by default a free one.")
_faults = click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="RULE",
    help="Make the service do this to requests; may be repeated.",
)
_logs = click.option(
    "--logs",
    metavar="FOLDER",
    help="Log each request of cosmos there, as Azure Monitor's tables in JSONL and CSV.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One line of JSON.")


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
@_json
def azurite(port: int | None, faults: tuple[str, ...], as_json: bool) -> int:
    """Start the blob service and print its connection string as environment variables.

    It serves until it is ended with TERM or INT; what it stores is then gone. Exit: 0; 69 if it cannot be
    started, or ends by itself.
    """
    return _serve(SERVICES["azurite"](port, faults), as_json)


@command.command("cosmos")
@_port
@click.option("--tls", is_flag=True, help="https, with a certificate of its own.")
@click.option("--region", "regions", multiple=True, metavar="NAME", help="A region; may be repeated.")
@click.option("--consistency", default="Session", show_default=True, metavar="LEVEL", help="Of the account.")
@click.option("--multi-write", is_flag=True, help="Every region takes writes.")
@click.option("--host", default="", metavar="NAME", help="Regions are at one port, by names: NAME-westus.")
@click.option("--aad", is_flag=True, help="Take Entra ID tokens, and do not check their signatures.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is drawn.")
@click.option("--no-throttling", is_flag=True, help="Request units never run out.")
@click.option("--file", "path", metavar="PATH", help="Load the state at the start, save it at the end.")
@_logs
@click.option("--page-port", type=_PORT, help="Of its page for browsers; by default a free one.")
@_faults
@_json
def cosmos(
    port: int | None,
    tls: bool,
    regions: tuple[str, ...],
    consistency: str,
    multi_write: bool,
    host: str,
    aad: bool,
    seed: int,
    no_throttling: bool,
    path: str | None,
    logs: str | None,
    page_port: int | None,
    faults: tuple[str, ...],
    as_json: bool,
) -> int:
    """Start a Cosmos DB account and print its connection string as environment variables.

    The key of its admin interface is among them, and the address of its page for browsers. It serves until it is ended with TERM or INT; what it stores
    is then gone, unless there is a file for it. Exit: 0; 69 if it cannot be started, or ends by itself.
    """
    options: dict[str, Any] = {
        "tls": tls,
        "consistency": consistency,
        "multiple_write_regions": multi_write,
        "host": host,
        "aad": aad,
        "seed": seed,
        "throttling": not no_throttling,
        "path": path,
        "logs": logs,
    }
    if regions:
        options["regions"] = regions
    return _serve(CosmosService(port, faults, page=True, page_port=page_port, **options), as_json)


def _serve(service: Service, as_json: bool) -> int:
    """One service, until a signal ends it, or it ends by itself."""
    try:
        with Signals() as signals, _started([service]):
            signals.end_the_wait = False
            variables = service.environment()
            if as_json:
                echo(json_line(variables))
            else:
                for name, value in variables.items():
                    echo(f"{name}={value}")
            while not signals.received:
                if not service.is_alive():
                    say(f"azlatch: {service.name} has ended by itself")
                    return UNUSABLE
                _wait(signals, 1.0)
            return GOOD
    except Ended:
        return GOOD


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("names", metavar="SERVICES")
@_port
@_faults
@_logs
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def execute(
    names: str, port: int | None, faults: tuple[str, ...], logs: str | None, arguments: tuple[str, ...]
) -> int:
    """Run CMD with SERVICES (separated by commas) started and their environment variables set, and end them
    with it.

    --port and --fault are for one service; with several, start that one by itself. --logs is cosmos's.
    Exit: the child's code; 126 or 127 if it cannot be run or found; 128 + n if signal n ended it.
    """
    wanted = services(names)
    if len(wanted) > 1 and (port is not None or faults):
        raise UsageError(f"--port and --fault with {names}: give them with one service alone")
    if logs is not None and CosmosService.name not in wanted:
        raise UsageError(f"--logs with {names}: only {CosmosService.name} keeps a log")
    made: list[Service] = [
        CosmosService(port, faults, logs=logs) if name == CosmosService.name else SERVICES[name](port, faults)
        for name in wanted
    ]
    try:
        with Signals() as signals, _started(made):
            signals.end_the_wait = False
            variables = {name: value for each in made for name, value in each.environment().items()}
            code = _run(list(arguments), {**os.environ, **variables}, signals)
            for each in made:
                if not each.is_alive():
                    say(f"azlatch: {each.name} had ended before the command did")
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
def _started(wanted: Sequence[Service]) -> Iterator[None]:
    """The services, running; the last that was started ends first."""
    with contextlib.ExitStack() as stack:
        for each in wanted:
            stack.callback(each.stop)
            each.start()
        yield


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
