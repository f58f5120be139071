"""Study 1: mean-field VI of correlated Gaussians, d = 2 to 256 (section 4.1)."""

import numpy as np

from ..plot import BLUE, GREY, VERMILION
from . import synthetic, vi
from .picture import grid
from .study import METHODS, OURS, PAPER, Cell, Claim, Study, Table


class CorrelatedGaussian(Study):
    name, title, place = "gaussian", "Correlated Gaussian", "section 4.1, figures 1 and 2"
    sources = (synthetic, vi)

    def cells(self, quick):
        dims = [2, 16] if quick else [2, 4, 8, 16, 32, 64, 128, 256]
        return [Cell(f"d={d} {method}", {"d": d, "method": method, "quick": quick}) for d in dims for method in METHODS]

    def run(self, cell, store):
        d = cell.parameters["d"]
        target, covariance = synthetic.correlated_gaussian(d), synthetic.gaussian_covariance(d)
        fitted = vi.mean_field(store, {"gaussian": d}, target, quick=cell.parameters["quick"])
        report, others = synthetic.judge(target, fitted.approximation, METHODS[cell.parameters["method"]](), seed=0)
        mean, variance = np.asarray(fitted.approximation.mean()), np.asarray(fitted.approximation.covariance())
        return {
            "rows": synthetic.rows_of(report, ("X1", "X2")),
            "errors": {
                f"X{i + 1} {kind}": value
                for i in (0, 1)
                for kind, value in (("mean", abs(mean[i])), ("variance", np.log(covariance[i, i] / variance[i])))
            },
            "k_hat": others.k_hat,
            "w_mean": others.mean_error,
            "w_covariance": others.covariance_error,
            "rho2_max": report.rho2_max,
            "path": synthetic.thinned(report.paths.rho2_max),
            "gradients": report.cost.gradients,
            "vi_gradients": fitted.gradients,
            "vi_converged": fitted.converged,
        }

    def claims(self, results):
        paper = [r for r in results if r["method"] == PAPER]
        rho2 = max(r["rho2_max"] for r in paper)
        return [
            Claim.judged(
                "Figure 2",
                "the Barker chains mix well in all cases",
                {"largest ρ²_max": rho2},
                "ρ²_max < 0.1 at every d",
                rho2 < 0.1,
            )
        ]

    def figures(self, results):
        figure, panels = grid(2)
        for axes, row in zip(panels, ("X1 variance", "X2 variance"), strict=True):
            for method, colour in ((PAPER, BLUE), (OURS, VERMILION)):
                chosen = [r for r in results if r["method"] == method]
                axes.plot([r["d"] for r in chosen], [r["rows"][row]["bound"] for r in chosen], "o-", color=colour, label=method)
            axes.plot([r["d"] for r in chosen], [abs(r["errors"][row]) for r in chosen], "k--", label="true error")
            axes.set(xscale="log", xlabel="d", title=row)
            axes.axhline(0, color=GREY, lw=0.5)
        panels[0].legend()
        return {"bounds": (figure, "Bounds on log variance errors.")}

    def table(self, results):
        rows = [[r["d"], r["method"], r["rows"]["X1 variance"]["bound"], r["errors"]["X1 variance"], r["rho2_max"]] for r in results]
        return Table(["d", "settings", "bound, log variance of X₁", "true error", "ρ²_max"], rows)
