"""`azlatch explain`: what it reads, what it prints, how it ends, and that it loads nothing that is slow."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from azlatch.cli.app import run

ACTIVITY = "3f2a1b44-55aa-4a11-9b1c-0123456789ab"


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    return Explain(monkeypatch, capsys)


class Explain:
    """Runs the command, with or without something on standard input."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, given: str | bytes = b"") -> tuple[int, str, str]:
        data = given.encode() if isinstance(given, str) else given
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = run(["explain", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def kinds(self, given: str | bytes, *arguments: str) -> list[str]:
        code, out, _ = self(*arguments, "--json", given=given)
        kinds = [json.loads(line)["kind"] for line in out.splitlines()]
        assert code == (3 if "unknown" in kinds else 0)
        return kinds


def test_a_status(explain: Explain) -> None:
    """A status is explained for people: kind, cause, whose job, whether to send it again, what to do."""
    code, out, err = explain("404/1002")
    assert (code, err) == (0, "")
    first, *rows = out.splitlines()
    assert first == "404/1002 ReadSessionNotAvailable"
    assert [row[2:12].strip() for row in rows] == [
        "kind", "cause", "whose job", "send again", "next step", "note", "source",
    ]  # fmt: skip
    assert "yes, after 0.1 s" in out


def test_portuguese(explain: Explain) -> None:
    """`--lang pt` says everything in Portuguese, but the words for programs and the names of sources."""
    code, out, _ = explain("412", "--lang", "pt", "--operation", "replace")
    assert code == 0
    for part in ("412 PreconditionFailed", "stale_version", "causa", "Nunca retire a condição.", "nota"):
        assert part in out
    assert "cause " not in out
    assert "next step" not in out


@pytest.mark.parametrize(
    "arguments", [("404", "1002"), ("404/1002",), ("ReadSessionNotAvailable",), ("404:1002",)]
)
def test_ways_to_write_it(explain: Explain, arguments: tuple[str, ...]) -> None:
    """A pair may be written in several ways."""
    assert explain(*arguments)[1].startswith("404/1002 ")


def test_the_operation_refines(explain: Explain) -> None:
    """`--operation` says what the request was."""
    assert "owner_missing" in explain("404/0", "--operation", "create")[1]
    assert "absent" in explain("404/0", "--operation", "read")[1]
    assert "operation" in explain("404/0", "--operation", "read")[1]


def test_what_is_read_from_standard_input(explain: Explain) -> None:
    """An error as JSON, the results of a batch, rows of a log, lines, and a traceback of several lines."""
    error = {"code": "NotFound", "message": f"Owner resource does not exist\r\nActivityId: {ACTIVITY}, x"}
    assert explain.kinds(json.dumps(error)) == ["owner_missing"]
    assert ACTIVITY in explain(given=json.dumps(error))[1]
    batch = [{"statusCode": 424}, {"statusCode": 412}, {"statusCode": 424}]
    assert explain.kinds(json.dumps(batch)) == ["stale_version"]
    rows = [{"StatusCode": 429, "SubStatusCode": 3214}, {"statusCode": 449, "operationName": "Patch"}]
    assert explain.kinds(json.dumps(rows)) == ["hot_key", "concurrent_write"]
    assert explain.kinds("\n".join(map(json.dumps, rows)), "-") == ["hot_key", "concurrent_write"]
    assert explain.kinds("t=1 op=read status=404 sub=1002\n\n410/1007\n") == [
        "behind_session",
        "partition_moved",
    ]
    trace = (
        "Traceback (most recent call last):\n  File 'x', line 404\n"
        "CosmosHttpResponseError: (TooManyRequests)\nStatus code: 429 Sub-status: 3200\n"
    )
    assert explain.kinds(trace) == ["throttled"]


def test_what_is_not_known_ends_with_3(explain: Explain) -> None:
    """Exit 3 for what is not known; what stands beside it is explained all the same."""
    code, out, _ = explain("nonsense")
    assert code == 3
    assert "unknown" in out
    assert explain("1002")[0] == 3
    assert "404/1002" in explain("1002")[1]
    assert explain.kinds("412\nnonsense\n404/1003") == ["stale_version", "unknown", "owner_missing"]


@pytest.mark.parametrize(
    "given", [b"", b" \n \n", b"x" * (1 << 20) + b"x", b"412\n" * 1_001, b"[" + b"1," * 2_000 + b"1]"]
)
def test_input_that_is_refused(explain: Explain, given: bytes) -> None:
    """Nothing, or too much, is a usage error that says so."""
    code, out, err = explain(given=given)
    assert (code, out) == (64, "")
    assert "standard input" in err


@pytest.mark.parametrize("arguments", [("412", "--operation", "x"), ("412", "--lang", "fr"), ("412", "--frob")])
def test_wrong_options(explain: Explain, arguments: tuple[str, ...]) -> None:
    """A wrong option is a usage error."""
    assert explain(*arguments)[0] == 64


@pytest.mark.parametrize(
    "given", [b"\xff\xfe\x00", b"{" * 50_000, b'{"status": 1e999}', b"\x1b[2J 404/1002 \x1b]0;x\x07"]
)
def test_hostile_input(explain: Explain, given: bytes) -> None:
    """What other people wrote is neither believed nor repeated."""
    code, out, err = explain(given=given)
    assert code in (0, 3)
    assert err == ""
    assert "\x1b" not in out
    assert "\x07" not in out


def test_it_loads_nothing_slow(tmp_path: Path) -> None:
    """As a process it loads neither an SDK, nor asyncio, nor a store; that is what makes it quick."""
    code = (
        "import sys; sys.argv = ['azlatch', 'explain', '404/1002', '--lang', 'pt'];"
        "from azlatch.cli import main; code = main(); print(*sorted(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "behind_session" in done.stdout
    loaded = done.stdout.splitlines()[-1].split()
    slow = {
        "azure",
        "asyncio",
        "sqlite3",
        "rich",
        "azlatch.runtime",
        "azlatch.backends",
        "azlatch.lab",
        "azlatch.aio",
    }
    assert not {name for name in loaded if name in slow or name.partition(".")[0] in slow}
    assert list(tmp_path.iterdir()) == []
