"""Draws the pictures of these pages: PYTHONPATH=src:examples python docs/draw.py [NAME ...]

Without names it draws all: half a minute for those of the package itself, minutes for the examples of every framework, which
must be installed (a missing one is said, and its picture left as it is). The page's picture needs Chromium.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

import taddaa
from taddaa import plot
from taddaa.cli import demo

HERE = Path(__file__).parent / "img"
EXAMPLES = (
    "regression_jax",
    "eight_schools_numpyro",
    "mixture_numpyro",
    "regression_numpy",
    "regression_zuko",
    "regression_flowjax",
    "regression_distrax",
    "regression_tfp",
    "regression_sbi",
    "regression_bayesflow",
    "eight_schools_pymc",
    "regression_bambi",
    "eight_schools_pyro",
    "eight_schools_stan",
)


def of_the_demo() -> dict:
    arguments = demo.problem()
    report = taddaa.diagnose(**arguments, seed=0)
    mean, sd = demo.fit()
    wider = taddaa.diagnose(**{**arguments, "approximation": taddaa.Gaussian(mean, np.sqrt(3) * sd)}, seed=0)
    return {
        "forest": plot.forest(report),
        "movement": plot.movement(report, top=3),
        "correlation": plot.correlation(report),
        "marginals": plot.marginals(report, top=3),
        "kernel": plot.kernel(report),
        "pairs": plot.pairs(report),
        "side_by_side": plot.side_by_side({"mean-field": report, "the same, variances × 3": wider}),
    }


def of_example(name: str) -> dict:
    problem = import_module(name).problem()
    report = taddaa.diagnose(**problem) if isinstance(problem, dict) else taddaa.diagnose(*problem)
    return {name: plot.forest(report, top=12)}


def page() -> dict:
    """The top of the demo's page, as a browser shows it; in few colours, to be small."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        report, picture = Path(folder) / "demo.html", Path(folder) / "page.png"
        taddaa.diagnose(**demo.problem(), seed=0).to_html(report)
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1120,960", f"--screenshot={picture}"]
        subprocess.run([*command, report.as_uri()], check=True, capture_output=True)
        Image.open(picture).convert("RGB").quantize(64).save(HERE / "page.png", optimize=True)
    return {}


def main(names: list[str]) -> None:
    makers: dict[str, Callable[[], dict]] = {"demo": of_the_demo, "page": page} | {
        name: (lambda name=name: of_example(name)) for name in EXAMPLES
    }
    for name in names or makers:
        try:
            figures = makers[name]()
        except (ImportError, FileNotFoundError) as error:
            print(f"{name}: not drawn, {error}")
            continue
        for title, figure in figures.items():
            figure.savefig(HERE / f"{title}.png", dpi=110)


if __name__ == "__main__":
    main(sys.argv[1:])
