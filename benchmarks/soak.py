"""Many small diagnoses in one process: memory, open files, threads and compiled programs must not grow, nor must objects of ours stay
behind.

    python benchmarks/soak.py               # 1,000 of them; minutes
    python benchmarks/soak.py --count 200

Every tenth has a target of its own, whose programs must go with it; the others share one. Memory is read after a collection. The
first quarter is not judged: caches of JAX and of the allocator fill in it. Exit code 1 if anything grew.
"""

import argparse
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import taddaa

FRESH_EVERY = 10
LOOKS = 9  # at the counts; the judged ones are those after the first quarter
MOST_BYTES = 200_000  # of memory for each diagnosis, on average: its report alone is larger
OURS = (taddaa.Target, taddaa.Report)


class Look(NamedTuple):
    done: int
    megabytes: float
    threads: int
    files: int
    objects: int  # of ours that are alive
    programs: int  # that JAX keeps, ours and its own


def look(done: int) -> Look:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    status = Path("/proc/self/status").read_text()
    threads = int(status.split("Threads:")[1].split()[0])
    alive = sum(isinstance(thing, OURS) for thing in gc.get_objects())
    files = len(list(Path("/proc/self/fd").iterdir()))
    programs = len(jax.devices()[0].client.live_executables())
    return Look(done, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, threads, files, alive, programs)


def target() -> taddaa.Target:
    centre = np.zeros(3)
    return taddaa.Target(lambda x, data: -0.5 * jnp.sum((x - data) ** 2), dim=3, names=["a", "b", "c"], data=centre)


def soak(count: int) -> list[Look]:
    shared, rng, looks = target(), np.random.default_rng(0), []
    settings = taddaa.Settings(chains=100)
    marks = set(np.linspace(count // LOOKS, count, LOOKS).round().astype(int).tolist())
    for number in range(1, count + 1):
        chosen = shared if number % FRESH_EVERY else target()
        approximation = taddaa.Gaussian(rng.normal(0, 0.3, 3), rng.uniform(0.5, 1.5, 3))
        report = taddaa.diagnose(chosen, approximation, settings=settings, seed=number)
        assert len(str(report)) > 100 and len(report.to_json()) > 1000 and len(report._repr_html_()) > 1000
        del chosen, report
        if number in marks:
            seen = look(number)
            looks.append(seen)
            print(
                f"{seen.done:>6} {seen.megabytes:>9.1f} {seen.threads:>8} {seen.files:>6} {seen.objects:>8} {seen.programs:>9}", flush=True
            )
    return looks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    print(f"{'done':>6} {'MB':>9} {'threads':>8} {'files':>6} {'objects':>8} {'programs':>9}")
    begun = time.monotonic()
    judged = [each for each in soak(count) if each.done > count / 4]
    done = np.array([each.done for each in judged])
    slope = 1e6 * float(np.polyfit(done, [each.megabytes for each in judged], 1)[0])
    print(f"{slope:,.0f} bytes of memory a diagnosis, {time.monotonic() - begun:.0f} s in all")
    first, last = judged[0], judged[-1]
    grown = [name for name in ("threads", "files", "objects", "programs") if getattr(last, name) > getattr(first, name)]
    grown += ["memory"] * (slope > MOST_BYTES) + ["Python threads"] * (threading.active_count() > 1)
    print(f"grew: {', '.join(grown)}" if grown else "nothing grew")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
