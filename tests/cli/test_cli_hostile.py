"""What other people wrote, and what a user mistyped: shown as text, with an exit code of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest

import azlatch
from azlatch.cli.app import COMMANDS, escape

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def test_a_note_cannot_forge_a_line(shell: Any) -> None:
    """Line ends in notes and reasons are shown: nobody writes another line of `inspect`, `list` or `why`."""
    forged = "fine\nstate       free\r\nholder      -\u2028x\u0085y"
    with azlatch.connect(shell.environment["AZLATCH_URL"], audit=str(shell.log)) as latches:
        with latches.hold("job") as hold:
            hold.note(forged)
            inspected = shell("inspect", "job").stdout
            outputs = [inspected, shell("list").stdout, shell("top", "--count", "1").stdout]
            outputs.append(shell("reap", "--max-age", "0", code=1).stdout)
            shell("break", "job", "--reason", forged)
            outputs += [shell("inspect", "job").stdout, shell("list").stdout]
            hold.release()
    outputs.append(shell("audit", "why", "job", "--at", str(time.time())).stdout)
    assert len(re.findall("^state ", inspected, re.MULTILINE)) == 1
    for output in outputs:
        assert not re.search("^(state +free|holder +-)", output, re.MULTILINE)
        assert "\r" not in output
        assert not UNSAFE.search(output)


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x9b2J",
        "\u202eabc",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\u061c",
        "\U000e0041",
        "a\nb",
        "\x7f",
    ],
    ids=ascii,
)
def test_escape(hostile: str) -> None:
    """Controls, overrides, invisible characters and line ends come out as their numbers."""
    shown = escape(hostile)
    assert not UNSAFE.search(shown)
    assert "\n" not in shown
    assert escape("Größe 日本 ✓") == "Größe 日本 ✓"


@pytest.mark.parametrize(
    "arguments",
    [
        ["\x1b[2Jcommand"],
        ["list", "--\x1b[2J"],
        ["run", "job", "--ttl", "\x1b[2J", "--", "true"],
        ["gate", "write", "--fence", "1", "/nonexistent/\x1b[2J"],
        ["run", "job", "--", "/\x1b[2J"],
        ["inspect", "\u202ename"],
        ["break", "\u202ename", "--reason", "\x1b[2J"],
        ["stats", "\x1b[2J"],
        ["audit", "why", "\u202e", "--at", "\x1b[2J"],
        ["prove", "--keep", "/proc/\x1b[2J"],
    ],
    ids=ascii,
)
def test_arguments_are_not_echoed_raw(shell: Any, arguments: list[str]) -> None:
    """What a script passed on from somebody else does not reach the terminal raw in an error either."""
    done = shell(*arguments, code=None, input="")
    assert done.returncode != 0
    assert not UNSAFE.search(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "job"],
        ["run", "", "--", "true"],
        ["run", "a\nb", "--", "true"],
        ["run", "x" * 1_025, "--", "true"],
        ["run", "job", "--ttl", "0", "--", "true"],
        ["run", "job", "--ttl", "nan", "--", "true"],
        ["run", "job", "--timeout", "-1", "--", "true"],
        ["run", "job", "--max-hold", "0", "--", "true"],
        ["run", "job", "--grace", "nan", "--", "true"],
        ["run", "job", "--grace", "-1", "--", "true"],
        ["reap", "--max-age", "nan"],
        ["reap", "--every", "nan"],
        ["top", "--every", "nan"],
        ["purge"],
        ["purge", "--older-than", "-1"],
        ["purge", "--older-than", "inf"],
        ["break", "job", "--reason", " "],
        ["gate", "write", "--fence", "-1", "file"],
        ["gate", "write", "--fence", "x", "file"],
        ["gate", "write", "--fence", "1", "--timeout", "nan", "file"],
        ["gate", "write", "--fence", "1", "--limit", "nan", "file", "--", "true"],
        ["inspect", ""],
        ["prove", "--seconds", "nan"],
        ["prove", "--instances", "0"],
        ["prove", "--json", "/nonexistent/file"],
        ["prove", "--html", "/nonexistent/file"],
        ["prove", "--keep", "/proc/nothing"],
        ["nonsense"],
        ["list", "--nonsense"],
        [],
    ],
    ids=str,
)
def test_wrong_input_is_64(shell: Any, arguments: list[str]) -> None:
    """Every kind of wrong input is 64, and leaves nothing behind."""
    done = shell(*arguments, code=64, input="", cwd=shell.folder)
    assert "please report" not in done.stderr
    assert not os.path.exists(shell.folder / "file")


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["inspect", "job"],
        ["top", "--count", "1"],
        ["break", "job", "--reason", "x"],
        ["reap"],
        ["purge", "--older-than", "0"],
        ["doctor"],
        ["doctor", "--apply"],
        ["run", "job", "--timeout", "3", "--", "echo", "ran"],
        ["prove"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unusable_store_is_69(shell: Any, arguments: list[str]) -> None:
    """With a file that is no store every command says so soon: exit 69, and the file is untouched."""
    garbage = shell.folder / "garbage"
    garbage.write_bytes(b"no database at all" * 500)
    began = time.monotonic()
    done = shell("--url", f"sqlite:///{garbage}", *arguments, code=69)
    assert time.monotonic() - began < 10
    assert str(garbage) in done.stderr
    assert done.stdout == ""
    assert garbage.read_bytes() == b"no database at all" * 500


def test_a_command_that_overstays_its_limit(shell: Any) -> None:
    """`gate write --limit` kills: 137; what cannot be run or found is 126 and 127."""
    file = str(shell.folder / "file")
    write = ["gate", "write", "--fence", "1", "--limit", "0.3", file, "--"]
    assert "killed after 0.3 s" in shell(*write, "sleep", "60", code=137).stderr
    shell(*write, "/nonexistent/command", code=127)
    shell(*write, "/etc/passwd", code=126)
    shell(*write, "sh", "-c", "kill -TERM $$", code=143)


def test_gate_without_its_folder_is_69(shell: Any) -> None:
    """A gate whose folder is missing cannot be used."""
    shell("gate", "write", "--fence", "1", "/nonexistent/file", code=69, input="x")


def test_the_default_store_reaches_the_child(shell: Any) -> None:
    """Where no URL is given, the child still is told which store it is."""
    environment = {**shell.environment}
    del environment["AZLATCH_URL"]
    command = shell.command("run", "job", "--", "sh", "-c", 'echo "$AZLATCH_URL"')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"sqlite:///{shell.folder}/state/azlatch/latches.db\n"


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_the_extra(module: str) -> None:
    """What is not installed is named by the pip command that brings it; help needs no rich."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from azlatch.cli import main
sys.argv = ["azlatch", "--help"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    if done.returncode == 64:
        assert "pip install 'azlatch[cli]'" in done.stderr
    else:
        assert (module, done.returncode) == ("rich", 0)


def test_every_command_explains_itself(shell: Any) -> None:
    """--help works for every command, and names what each is for."""
    for command, purpose in COMMANDS.items():
        text = shell(command, "--help").stdout
        assert "Usage: azlatch " + command in text
        assert purpose
