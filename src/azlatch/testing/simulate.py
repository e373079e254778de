"""The simulator: the real core and both real drivers in virtual time, with faults, from one seed.

``python -m azlatch.testing.simulate --seeds 2000`` runs many worlds; ``--seed 17`` runs one and prints its
schedule. A world is a handful of processes, sync and async, that contend for a name or two on a store of
`azlatch.testing.simulated_store`, or with the real Blob backend on `azlatch.testing.lease_store`, while
processes are stopped, killed and frozen, calls are lost, and operators break and purge. A referee watches M1 to
M7 of the design at every step.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from azlatch.errors import LatchError
from azlatch.testing.mutant import Mutant
from azlatch.testing.mutants import MUTANTS
from azlatch.testing.referee import Violation
from azlatch.testing.scenario import PROFILES, Scenario
from azlatch.testing.virtual import Deadlock, StepsExhausted
from azlatch.testing.watched import Profile


@dataclass
class Result:
    """How a seed ended."""

    seed: int
    mutant: str
    profile: Profile | None = None
    violation: str = ""
    schedule: list[str] = field(default_factory=list)
    grants: int = 0
    losses: int = 0
    rejected: int = 0

    @property
    def replay(self) -> str:
        """The command that runs this very world again."""
        mutant = f" --mutant {self.mutant}" if self.mutant else ""
        profile = f" --profile {self.profile}" if self.profile else ""
        return f"python -m azlatch.testing.simulate --seed {self.seed}{mutant}{profile}"


def run_seed(seed: int, mutant: str = "", profile: Profile | None = None) -> Result:
    """Runs the world of a seed, with the engine as it is or a mutant of it, on one kind of store or any."""
    result = Result(seed, mutant, profile)
    level = logging.getLogger("azlatch").level
    logging.getLogger("azlatch").setLevel(logging.CRITICAL + 1)
    chosen: Mutant | None = MUTANTS[mutant] if mutant else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)
        if chosen is not None:
            stack.enter_context(chosen.applied())
        profiles = chosen.profiles if chosen is not None else PROFILES
        stress = chosen.stress if chosen is not None else None
        scenario = Scenario(seed, stress, (profile,) if profile is not None else profiles)
        if chosen is not None:
            chosen.prepare(scenario.store)
        try:
            scenario.run()
        except Violation as violation:
            result.violation = str(violation)
        except (StepsExhausted, Deadlock) as error:
            result.violation = f"M7: the world came to no end: {error}"
        except LatchError as error:
            result.violation = f"an error that nobody foresaw: {type(error).__name__}: {error}"
        finally:
            result.schedule = [
                f"{at:12.4f} {who:8} {thread:12} {text}" for at, who, thread, text in scenario.world.trace
            ]
            result.grants = scenario.referee.grants
            result.losses = scenario.referee.losses
            result.rejected = scenario.referee.rejected
            scenario.world.close()
            logging.getLogger("azlatch").setLevel(level)
    return result


def run_many(
    seeds: list[int], mutant: str = "", profile: Profile | None = None, *, stop: bool = True
) -> list[Result]:
    """Runs seeds one after the other; the violated ones, or the first of them."""
    bad: list[Result] = []
    for seed in seeds:
        result = run_seed(seed, mutant, profile)
        if result.violation:
            bad.append(result)
            if stop:
                break
    return bad


def explain(result: Result) -> str:
    """A failure as text: the seed, the schedule and the command that replays it."""
    return "\n".join([f"seed {result.seed}: {result.violation}", *result.schedule, f"replay: {result.replay}"])


def _chunk(
    arguments: tuple[list[int], str, Profile | None],
) -> tuple[int, int, int, int, list[Result]]:
    seeds, mutant, profile = arguments
    grants = losses = rejected = 0
    bad = []
    for seed in seeds:
        result = run_seed(seed, mutant, profile)
        grants, losses, rejected = grants + result.grants, losses + result.losses, rejected + result.rejected
        if result.violation:
            bad.append(result)
    return len(seeds), grants, losses, rejected, bad


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 when no promise was broken, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m azlatch.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one world and print its schedule")
    parser.add_argument("--mutant", default="", choices=["", *sorted(MUTANTS)], help="break a rule on purpose")
    parser.add_argument("--profile", choices=PROFILES, help="worlds of this kind of store only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="worlds at a time")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        result = run_seed(options.seed, options.mutant, options.profile)
        print("\n".join(result.schedule))
        print(f"seed {result.seed}: {result.violation or 'no promise was broken'}")
        return 1 if result.violation else 0
    seeds = range(options.first, options.first + options.seeds)
    chunks = [(list(seeds[at : at + 50]), options.mutant, options.profile) for at in range(0, len(seeds), 50)]
    done = grants = losses = rejected = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for count, some_grants, some_losses, some_rejected, bad in pool.map(_chunk, chunks):
            done, grants = done + count, grants + some_grants
            losses, rejected = losses + some_losses, rejected + some_rejected
            if bad:
                print(explain(bad[0]))
                pool.shutdown(cancel_futures=True)
                return 1
            if done % 500 == 0 or done == len(seeds):
                print(
                    f"{done}/{len(seeds)} worlds: {grants} grants, {losses} losses, {rejected} refused writes"
                )
                sys.stdout.flush()
    print("no promise was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
