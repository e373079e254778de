"""How often common ways to lock with Cosmos DB let two in at once: docs/experiments/cosmos-locks.md.

    python bench/cosmos_locks.py            prints the table
    python bench/cosmos_locks.py --write    puts it into the page

It takes no socket and no time but that of the machine: the same seeds give the same table everywhere.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from lock_ways import WAYS
from lock_world import CALM, ROUGH, Judge, Way, Weather, play

PAGE = Path(__file__).parents[1] / "docs/experiments/cosmos-locks.md"
BEGIN, END = "<!-- the table: bench/cosmos_locks.py --write -->\n", "<!-- end of the table -->\n"
SEEDS, SECONDS = range(5), 150.0
#: ConsistentPrefix is Eventual, for a single item: the same run gives the same numbers.
LEVELS, LAGS = ("Strong", "Session", "Eventual"), (0.05, 2.0)

HEAD = (
    "| way | level | lag | calm: grants | double | rough: grants | double | after a death free within |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def rows() -> Iterator[str]:
    """The table, line by line."""
    for name, way in WAYS.items():
        # Of a create the service decides, whatever the level of reads.
        places = [(level, lag) for level in LEVELS for lag in LAGS] if name[0] != "c" else [("Session", 0.05)]
        for level, lag in places:
            yield row(name, way, level, lag)


def row(name: str, way: Way, level: str, lag: float) -> str:
    """One way in one place, in both weathers, on all seeds."""
    calm, rough = (each_seed(way, level, lag, weather) for weather in (CALM, ROUGH))
    return f"| {name} | {level} | {lag:g} s | {share(calm)} | {share(rough)} | {freed(rough)} |\n"


def each_seed(way: Way, level: str, lag: float, weather: Weather) -> list[Judge]:
    return [play(way, level, lag, weather, seed, SECONDS) for seed in SEEDS]


def share(judged: list[Judge]) -> str:
    """Grants, and the share of them that let another one in."""
    grants, doubles = sum(len(each.holds) for each in judged), sum(each.doubles for each in judged)
    return f"{grants:,} | {doubles:,} ({100 * doubles / max(grants, 1):.1f} %)"


def freed(judged: list[Judge]) -> str:
    """How long the lock of a dead process lasts beyond its time."""
    found = [each for judge in judged for each in judge.freed_after()]
    never = sum(each is None for each in found)
    if never:
        return f"never, {never} of {len(found)} times"
    return f"{max((each for each in found if each is not None), default=0.0):.1f} s, {len(found)} deaths"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        # Of its threads one runs at a time: on one core they take turns much faster.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    table = HEAD
    print(HEAD, end="")
    for each in rows():
        print(each, end="", flush=True)
        table += each
    if arguments.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
