"""The other commands: what they show, what they change, and what they never let through."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import azlatch
from azlatch.cli.app import COMMANDS, escape, group

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def held(shell: Any) -> Any:
    """A store in which another process holds `job`."""
    holder = shell.start("run", "job", "--ttl", "600", "--", "sh", "-c", "echo in; exec sleep 60")
    assert shell.line(holder) == "in"
    shell.holder = holder
    return shell


def test_list_inspect_top(held: Any) -> None:
    """Who holds what, as a table and as JSON."""
    assert re.search(r"job +held +\S+:\d+", held("list").stdout)
    listed = json.loads(held("list", "--json").stdout)
    assert (listed["name"], listed["state"]) == ("job", "held")
    inspected = json.loads(held("inspect", "job", "--json").stdout)
    assert inspected["fence"] == listed["fence"]
    assert inspected["holder"]["pid"] > 0
    assert "held" in held("inspect", "job").stdout
    held("inspect", "nothing", code=1)
    assert "1 held" in held("top", "--count", "1").stdout
    assert json.loads(held("top", "--count", "1", "--json").stdout)[0]["name"] == "job"


def test_break_needs_a_reason_and_a_hold(held: Any) -> None:
    """A break says why, can be conditional, and exits 1 where nobody has it."""
    held("break", "job", code=64)
    held("break", "job", "--reason", "x", "--fence", "1", code=64)
    held("break", "nothing", "--reason", "x", code=1)
    assert "freed at once" in held("break", "job", "--reason", "stuck", "--now").stderr
    held("run", "job", "--timeout", "5", "--", "true")


def test_reap_finds_and_frees_the_dead(held: Any) -> None:
    """A killed holder's latch is an orphan: found with exit 1, freed with --apply."""
    assert "no orphans" in held("reap").stderr
    held.holder.kill()
    held.holder.wait(30)
    held.until(lambda: held("reap", code=None).returncode == 1)
    assert "freed" in held("reap", "--apply").stdout
    assert "no orphans" in held("reap").stderr


def test_reap_by_age(held: Any) -> None:
    """With --max-age a living holder is an orphan too."""
    time.sleep(0.2)
    found = json.loads(held("reap", "--max-age", "0.1", "--json", code=1).stdout)
    assert found["why"].startswith("held for")


def test_purge(shell: Any) -> None:
    """Unused names go, and their fences go on rising."""
    first = int(shell("run", "job", "--", "sh", "-c", "echo $AZLATCH_FENCE").stdout)
    assert "removed 1" in shell("purge", "--older-than", "0").stderr
    assert shell("list", "--all").stdout == ""
    assert int(shell("run", "job", "--", "sh", "-c", "echo $AZLATCH_FENCE").stdout) > first


def test_doctor(shell: Any) -> None:
    """A sound store is ok; files that others can read are wrong, and mended with --apply."""
    assert "wrong" not in shell("doctor").stdout
    shell.store.chmod(0o644)
    assert "wrong rights" in re.sub(" +", " ", shell("doctor", code=1).stdout)
    assert "mended" in shell("doctor", "--apply").stdout
    assert stat.S_IMODE(shell.store.stat().st_mode) == 0o600
    checks = [json.loads(line) for line in shell("doctor", "--json").stdout.splitlines()]
    assert {check["status"] for check in checks} <= {"ok", "warn"}


def test_gate(shell: Any) -> None:
    """Equal and newer fences write, an older one exits 1 and leaves the file; a command passes too."""
    file = shell.folder / "report.txt"
    shell("gate", "write", "--fence", "7", str(file), input="seven")
    shell("gate", "write", "--fence", "7", str(file), input="seven again")
    assert "refused" in shell("gate", "write", "--fence", "6", str(file), code=1, input="six").stderr
    assert file.read_text() == "seven again"
    shell("gate", "write", str(file), env={"AZLATCH_FENCE": "8"}, input="eight")
    assert file.read_text() == "eight"
    assert (
        shell("gate", "write", "--fence", "9", str(file), "--", "sh", "-c", "echo ran; exit 4", code=4).stdout
        == "ran\n"
    )
    shell("gate", "write", "--fence", "8", str(file), "--", "true", code=1)
    shell("gate", "write", str(file), code=64)


def test_stats_and_history(shell: Any) -> None:
    """The log adds up, its history passes, and a doctored one does not."""
    for _ in range(3):
        shell("run", "job", "--", "true")
    totals = json.loads(shell("stats", "--json").stdout)
    assert totals["total"]["attempts"] == 3
    assert "job" in shell("stats").stdout
    assert json.loads(shell("audit", "check", "--json").stdout)["verdict"] == "pass"
    lines = shell.log.read_text().splitlines(keepends=True)
    grants = [index for index, line in enumerate(lines) if '"granted"' in line]
    forged = [*lines]
    fence = re.search(r'"fence":(\d+)', lines[grants[0]])
    assert fence
    forged[grants[1]] = re.sub(r'"fence":\d+', f'"fence":{fence[1]}', forged[grants[1]])
    (shell.folder / "forged").write_text("".join(forged))
    assert "fail" in shell("audit", "check", str(shell.folder / "forged"), code=1).stdout
    (shell.folder / "torn").write_text("".join(lines)[:-20])
    assert "unknown" in shell("audit", "check", str(shell.folder / "torn"), code=3).stdout
    (shell.folder / "gap").write_text("".join(lines[:1] + lines[2:]))
    shell("audit", "check", str(shell.folder / "gap"), code=3)
    shell("stats", str(shell.folder / "missing"), code=64)


def test_why(held: Any) -> None:
    """Contention, a break and a loss are told apart in words."""
    held("run", "job", "--timeout", "0.2", "--", "true", code=75)
    assert "timeout: " in held("audit", "why", "job", "--at", str(time.time())).stdout
    held("audit", "why", "other", "--at", str(time.time()), code=3)
    held("audit", "why", "job", "--at", "noon", code=64)


HOSTILE = "a\x1b]0;owned\x07\u202e<script>alert(1)</script>"


def test_hostile_texts_are_shown_not_obeyed(shell: Any, tmp_path: Path) -> None:
    """Notes and reasons with terminal controls, overrides and HTML come out escaped, everywhere."""
    name = "job\u202e<b>"
    with azlatch.connect(shell.environment["AZLATCH_URL"], audit=str(shell.log)) as latches:
        with latches.hold(name) as hold:
            hold.note(HOSTILE)
            outputs = [shell("list").stdout, shell("inspect", name).stdout, shell("list", "--json").stdout]
            done = shell("break", name, "--reason", HOSTILE)
            outputs += [
                done.stderr,
                shell("inspect", name).stdout,
                shell("audit", "why", name, "--at", str(time.time())).stdout,
            ]
            hold.release()
    outputs += [shell("stats").stdout, shell("audit", "check").stdout, shell.log.read_text()]
    for output in outputs:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", output)
    assert escape("a\nb") == "a\\u000ab"
    from azlatch.proof.report import _text

    assert _text(HOSTILE) == "a\\u001b]0;owned\\u0007\\u202e&lt;script&gt;alert(1)&lt;/script&gt;"


def test_secrets_are_not_repeated(shell: Any) -> None:
    """A URL that is refused may carry a key: it is not shown."""
    for url in ("http://user:CANARY@host", "blobs://x?sig=CANARY", "CANARY", "blob://a/b?sig=CANARY"):
        done = shell("--url", url, "list", code=64)
        assert "CANARY" not in done.stderr + done.stdout


def test_help_is_fast_to_load_and_complete() -> None:
    """--help names every command and loads neither a store nor asyncio."""
    code = "import sys; from azlatch.cli.app import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(command in done.stdout for command in COMMANDS)
    assert {"asyncio", "sqlite3", "rich", "azlatch.proof"} & set(done.stderr.split()) == set()


def test_without_click_it_says_what_brings_it() -> None:
    """Without the extra, the command names the pip command."""
    code = "import sys; sys.modules['click'] = None; from azlatch.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "pip install 'azlatch[cli]'" in done.stderr


def test_every_command_and_option_is_documented() -> None:
    """docs/command-line.md has every command, option and exit code."""
    import click

    text = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    context = click.Context(group)
    wanted = ["--url", "--audit", *(f"`{code}`" for code in (0, 1, 3, 64, 69, 75, 76))]
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        commands = [command, *(command.commands.values() if isinstance(command, click.Group) else [])]
        wanted.append(f"azlatch {name}")
        for each in commands:
            options = [each for each in each.params if isinstance(each, click.Option) and not each.hidden]
            wanted.extend(max(option.opts, key=len) for option in options)
    assert [each for each in wanted if each not in text] == []
    # And the other way round: what the page has exists.
    known = {option for each in _commands(group, context) for param in each.params for option in param.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - known - {"--"} == set()
    headings = re.findall(
        r"azlatch ((?:gate|audit|lab) )?([a-z]+)", "\n".join(re.findall("^## azlatch.*$", text, re.MULTILINE))
    )
    for parent, name in headings:
        found = group.get_command(context, parent.strip() or name)
        assert found is not None, name
        assert not parent or name in found.commands


def _commands(parent: Any, context: Any) -> list[Any]:
    """A command and all below it."""
    found = [parent]
    if hasattr(parent, "list_commands"):
        for name in parent.list_commands(context):
            found += _commands(parent.get_command(context, name), context)
    return found


def test_broken_pipe_is_quiet(shell: Any) -> None:
    """Whoever reads may go."""
    for number in range(3):
        shell("run", f"n{number}", "--", "true")
    line = " ".join(shell.command("list", "--all", "--json"))
    done = subprocess.run(
        f"{line} | head -c 1", shell=True, capture_output=True, text=True, env=shell.environment, check=False
    )
    assert "Traceback" not in done.stderr
    assert os.path.exists(shell.store)
