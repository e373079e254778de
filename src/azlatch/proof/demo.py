"""The same work with and without a latch, side by side: ``make demo``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any

from azlatch.proof.report import page
from azlatch.proof.run import Plan, Result, run

_SHOWN = (
    "instances", "names", "seconds", "attempted", "accepted", "final_value", "lost_updates", "overlaps",
    "stale_writes_accepted", "stale_writes_rejected", "kills", "pauses", "takeovers", "takeover_s",
    "ops_per_second", "verdict",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Runs both; 0 if the unprotected run lost updates and the latched one passed."""
    parser = argparse.ArgumentParser(prog="python -m azlatch.proof.demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the latched run takes")
    parser.add_argument("--report", default="build/proof.html", help="where the page goes")
    options = parser.parse_args(arguments)
    print("1 of 2: 16 processes change 8 values without a latch ...", flush=True)
    unprotected = _run(min(options.seconds, 8.0), protected=False)
    print(
        "2 of 2: the same with latches and a gate; some are killed, some stopped past their ttl ...", flush=True
    )
    latched = _run(options.seconds, protected=True)
    os.makedirs(os.path.dirname(os.path.abspath(options.report)), exist_ok=True)
    with open(options.report, "w", encoding="utf-8") as file:
        file.write(page(latched))
    left, right = unprotected.to_dict(), latched.to_dict()
    print(f"\n{'':<24}{'unprotected':>16}{'latched':>28}")
    for key in _SHOWN:
        print(f"{key:<24}{_shown(left[key]):>16}{_shown(right[key]):>28}")
    for reason in latched.reasons:
        print(f"- {reason}")
    good = unprotected.lost_updates > 0 and latched.outcome == "pass"
    print(f"\nThe report is {os.path.abspath(options.report)}")
    print(
        f"demo: {'passed' if good else 'FAILED'}: {unprotected.lost_updates} updates lost without a latch, "
        f"{latched.lost_updates} with"
    )
    return 0 if good else 1


def _run(seconds: float, *, protected: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="azlatch-demo-") as folder:
        url = f"sqlite:///{os.path.join(folder, 'latches.db')}"
        told = [0]

        def progress(share: float, result: Result) -> None:
            if share * 4 >= told[0] + 1:
                told[0] += 1
                print(f"  {share:4.0%}  {result.kills} killed, {result.pauses} stopped", flush=True)

        return run(Plan(url, folder, seconds=seconds, protected=protected, alone=True), progress)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return "-" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
