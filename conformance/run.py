"""`make conformance`: the test suite of the Cosmos DB SDK, unmodified, against the lab, file by file.

Each file runs in its own process, against a fresh server with the account that it needs. What is known to fail
is listed with its reason in expected.toml; the exit code is 1 if a test fails that is not listed, or a listed
one passes.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import signal
import sys
import threading
from pathlib import Path

import accounts
import expectations
import report
import servers
import suite
import trial
from expectations import Expected, Verdict
from trial import Trial


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        serve = servers.chosen(options.server)
        found = suite.bring()
        chosen, not_run = _choose(found.files(), options.files, everything=options.all)
    except (suite.SuiteMissing, servers.ServerMissing, ValueError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 69
    expected = expectations.load() if options.server == "lab" else None
    run = _Run(found, serve, expected, options.test)
    trials = run.all(chosen, options.jobs)
    for line in report.summary(trials, run.verdicts, not_run):
        print(line)
    if options.json:
        _write(Path(options.json), options.server, trials)
    if expected is None:
        print(f"conformance: {options.server} is measured, not judged")
        return 0
    print(report.verdict_line(run.verdicts))
    return 0 if all(each.good for each in run.verdicts) else 1


class _Run:
    """The trials, and what they mean."""

    def __init__(self, found: suite.Suite, serve: servers.Serve, expected: Expected | None, test: str) -> None:
        self._suite, self._serve, self._expected, self._test = found, serve, expected, test
        #: Only one server can have the emulator's port.
        self._fixed = threading.Lock()
        self._printing = threading.Lock()
        self.verdicts: list[Verdict] = []

    def all(self, files: list[str], jobs: int) -> list[Trial]:
        """Runs the files, the long ones first, and prints each when it is done."""
        order = sorted(files, key=lambda each: -accounts.account_of(each).bound)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                trials = list(pool.map(self._one, order))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return sorted(trials, key=lambda each: each.file)

    def _one(self, file: str) -> Trial:
        account = accounts.account_of(file)
        done = Trial(file, account)
        try:
            if account.fixed:
                with self._fixed:
                    done = self._try(file, account)
            else:
                done = self._try(file, account)
        except servers.ServerMissing as error:
            done.broken = f"the server: {error}"
        verdict = None
        if self._expected is not None:
            verdict = expectations.judge(done, self._expected, whole=not self._test)
        with self._printing:
            if verdict is not None:
                self.verdicts.append(verdict)
            print(report.line(done, verdict), flush=True)
            for line in report.failures(done, verdict):
                print(line, flush=True)
        return done

    def _try(self, file: str, account: accounts.Account) -> Trial:
        with self._serve(account) as served:
            return trial.run(self._suite, file, account, served.endpoint, served.key, self._test)


def _choose(there: list[str], asked: list[str], *, everything: bool) -> tuple[list[str], list[str]]:
    """The files that run, and those that do not."""
    if gone := accounts.subjects() - {name for each in there for name in accounts.names_of(each)}:
        raise ValueError(f"the suite has no file about {', '.join(sorted(gone))}")
    if not asked:
        left = {*accounts.NOT_SERVED, *(() if everything else accounts.CLIENT_ONLY)}
        chosen = [each for each in there if accounts.subject(each) not in left]
        return chosen, [each for each in there if each not in chosen]
    names = {name if name.endswith(".py") else f"{name}.py" for name in asked}
    names = {name if name.startswith("test_") else f"test_{name}" for name in names}
    if missing := names - set(there):
        raise ValueError(f"the suite has no {', '.join(sorted(missing))}")
    return sorted(names), []


def _write(path: Path, server: str, trials: list[Trial]) -> None:
    report_of = {
        "server": server,
        "sdk": suite.VERSION,
        "files": {
            each.file: {
                "passed": each.passed,
                "total": each.total,
                "skipped": each.count("skipped"),
                "seconds": round(each.seconds, 1),
                "account": each.account.shape,
                "broken": each.broken,
                "tests": [dataclasses.asdict(outcome) for outcome in each.outcomes],
            }
            for each in trials
        },
    }
    path.write_text(json.dumps(report_of, indent=1) + "\n", encoding="utf-8")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance/run.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--server", default="lab", help="lab, vercel, or the URL of one that runs (default: lab)"
    )
    parser.add_argument(
        "--files", nargs="+", default=[], metavar="FILE", help="only these: test_crud.py or crud"
    )
    parser.add_argument(
        "--test", default="", metavar="EXPRESSION", help="only tests that match, as pytest's -k"
    )
    parser.add_argument("--all", action="store_true", help="files that ask nothing of a server, too")
    parser.add_argument("--jobs", type=int, default=2, help="files at once (default: 2)")
    parser.add_argument("--json", metavar="FILE", help="write every outcome to FILE, too")
    options = parser.parse_args(arguments)
    if not 1 <= options.jobs <= 64:
        parser.error("--jobs: 1 to 64")
    return options


if __name__ == "__main__":
    sys.exit(main())
