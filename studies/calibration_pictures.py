"""The pictures of docs/calibration.md."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd


def draw_widths(rows: pd.DataFrame, to: Path, tolerance: dict[str, float]) -> None:
    """What would have been detected in mean-field fits, target by target: plain intervals and sharper ones."""
    some = rows[(rows.kind == "mean-field") & rows.method.isin(["plain", "ours"]) & np.isfinite(rows.detectable)]
    names = list(dict.fromkeys(some.problem))
    figure, axes = plt.subplots(1, 2, figsize=(9, 1 + 0.24 * len(names)), sharey=True, layout="constrained")
    for axis, (functional, limit) in zip(axes, tolerance.items(), strict=True):
        middle = some[some.functional == functional].groupby(["problem", "method"]).detectable.median()
        for place, name in enumerate(names):
            before, after = (middle.get((name, method), np.nan) for method in ("plain", "ours"))
            axis.plot([before, after], [place, place], color="#999999", linewidth=1)
            axis.plot(before, place, "o", color="white", markeredgecolor="#D55E00", label="plain" if place == 0 else None)
            axis.plot(after, place, "o", color="#0072B2", label="sharper" if place == 0 else None)
        axis.axvline(limit, color="black", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", title="means, in sd" if functional == "mean" else "log variances", xlabel="detectable error (median row)")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].legend(frameon=False)
    figure.savefig(to, dpi=110)
    plt.close(figure)


def draw_bounds(rows: pd.DataFrame, to: Path, methods: list[str]) -> None:
    """Bounds against true errors, ours beside the paper's; a point above the diagonal is a false bound."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True, layout="constrained")
    colours = {"error": "#0072B2", "within tolerance": "#009E73", "no error found": "#999999", "untrusted": "#D55E00"}
    for axis, method in zip(axes, methods, strict=True):
        some = rows[(rows.method == method) & (rows.kind != "exact")]
        for verdict, colour in colours.items():
            part = some[some.verdict == verdict].sample(frac=1, random_state=0)[:3000]
            axis.scatter(part.error + 0.01, part.bound + 0.01, s=5, alpha=0.4, color=colour, label=verdict, rasterized=True)
        axis.plot([0.01, 10], [0.01, 10], color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlim=(0.009, 12), ylim=(0.009, 12), title=method, xlabel="true error + 0.01")
    axes[0].set_ylabel("bound + 0.01")
    axes[0].legend(markerscale=3, frameon=False, loc="upper left")
    figure.savefig(to, dpi=110)
    plt.close(figure)
