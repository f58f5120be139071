"""Draws the pictures of these pages: PYTHONPATH=src:examples python docs/draw.py (half a minute; needs matplotlib and NumPyro)."""

from importlib import import_module
from pathlib import Path

import numpy as np

import taddaa
from taddaa import demo, plot

HERE = Path(__file__).parent / "img"


def main() -> None:
    arguments = demo.problem()
    report = taddaa.diagnose(**arguments, seed=0)
    mean, sd = demo.fit()
    wider = taddaa.diagnose(**{**arguments, "approximation": taddaa.Gaussian(mean, np.sqrt(3) * sd)}, seed=0)
    pictures = {
        "forest": plot.forest(report, tolerance=0.1),
        "movement": plot.movement(report, top=3),
        "correlation": plot.correlation(report),
        "marginals": plot.marginals(report, top=3),
        "kernel": plot.kernel(report),
        "side_by_side": plot.side_by_side({"mean-field": report, "the same, variances × 3": wider}),
    }
    for example in ("regression_jax", "eight_schools_numpyro"):
        pictures[example] = plot.forest(taddaa.diagnose(*import_module(example).problem()), top=12)
    for name, figure in pictures.items():
        figure.savefig(HERE / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
