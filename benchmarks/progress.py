"""What the progress line costs: the same diagnosis with and without it, in turns, in one run.

    python benchmarks/progress.py

The line is drawn from the first moment on and five times a second, to a stream that throws it away. Processor time, all
threads, is compared: it is less disturbed by other work on the machine than the clock is.
"""

import os
import time
from pathlib import Path

import numpy as np
from loop import network

import taddaa
from taddaa.chains.walk import Progress
from taddaa.show.progress import REDRAW_SECONDS, ProgressLine, line

TURNS = 9


def main() -> None:
    target = network()
    approximation = taddaa.Gaussian(np.zeros(target.dim), np.full(target.dim, 1.5))
    settings = taddaa.Settings(iterations=600, budget=1)

    def plain() -> None:
        taddaa.diagnose(target, approximation, settings=settings)

    def watched() -> None:
        with Path(os.devnull).open("w") as stream, ProgressLine(stream, patience=0.0) as progress:
            taddaa.diagnose(target, approximation, settings=settings, progress=progress)

    plain()  # compile
    seconds: dict[str, list[float]] = {"plain": [], "watched": []}
    for turn in range(TURNS):
        for run in (plain, watched) if turn % 2 else (watched, plain):
            begun = time.process_time()
            run()
            seconds[run.__name__].append(time.process_time() - begun)
    ratios = np.array(seconds["watched"]) / np.array(seconds["plain"])
    middle, low, high = np.median(ratios), *np.quantile(ratios, [0.25, 0.75])
    print(f"{np.median(seconds['plain']):.2f} s without progress; with it {middle:.3f} times that (middle half {low:.3f} to {high:.3f})")
    with Path(os.devnull).open("w") as stream:
        begun = time.process_time()
        for i in range(1000):
            stream.write("\r\033[K" + line(Progress("first round", i, 1000, 0.4, 0.5), i / 5))
            stream.flush()
        one = (time.process_time() - begun) / 1000
    print(f"one redraw takes {1e6 * one:.0f} µs, {one / REDRAW_SECONDS:.3%} of the {REDRAW_SECONDS:g} s between two of them")


if __name__ == "__main__":
    main()
