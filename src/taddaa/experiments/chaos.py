"""Study 9: Theorem 1 at work: chains that share a step size become independent as their number grows (section 3.2)."""

from dataclasses import replace

import numpy as np
from scipy import stats

from ..diagnosis import diagnose
from ..problem.approximation import Gaussian
from ..problem.functional import Mean
from . import synthetic
from .picture import GREY, LABEL, STYLE, grid
from .study import METHODS, OURS, PAPER, Cell, Claim, Result, Study, Table

LEVEL = 0.95
CASES = {  # kernel, dimension, iterations, and the start: its mean and standard deviation in those of the target
    "usual": {"kernel": "barker", "d": 5, "iterations": 20, "shift": 1.0, "scale": 0.5},
    "far": {"kernel": "rwmh", "d": 2, "iterations": 20, "shift": 30.0, "scale": 0.3},
}
ABOUT_CASE = {
    "usual": "Barker, d = 5, start off by one standard deviation",
    "far": "random walk, d = 2, start 30 standard deviations away",
}


def within_correlation(states: np.ndarray) -> tuple[float, float]:
    """The correlation of two chains of one replication from states (R, N), and its standard error if they are independent.

    Var(mean of N) = σ²(1 + (N − 1)ρ)/N for exchangeable chains, so ρ = (N Var(mean)/σ² − 1)/(N − 1).
    """
    replications, chains = states.shape
    ratio = chains * np.var(states.mean(axis=1), ddof=1) / np.var(states, ddof=1)
    return float((ratio - 1) / (chains - 1)), float(np.sqrt(2 / (replications - 1)) / (chains - 1))


class Chaos(Study):
    name, title, place = "chaos", "Independence of adapted chains", "section 3.2, theorem 1"
    about = (
        "The paper proves that chains which share an adapted step size become independent as their number N grows, at a fixed number "
        "of iterations, and shows no experiment. Here is one, on the correlated Gaussian with 20 iterations, so that chains are still on "
        "their way: over replications, the spread of the shared step size; the correlation between the final x₁ of two chains; and how "
        "often the 95 % interval for the mean of x₁ covers its limit for large N, which is taken from all replications with the largest N. "
        "Intervals are plain: our sharper ones are about the target's own mean, and not about where chains are on their way. "
        "In the first case the start is off by one standard deviation. The second is the worst that we found: a random walk from "
        "30 standard deviations away travels as far as its step allows, so that all chains inherit the step's noise."
    )
    sources = (synthetic, within_correlation)

    def cells(self, quick):
        counts = (10, 50) if quick else (10, 30, 100, 300, 1000)
        replications = 40 if quick else 200
        return [
            Cell(
                f"{case} N={count} {method}",
                {"case": case, "chains": count, "method": method, "replications": replications, "quick": quick, **CASES[case]},
            )
            for case in CASES
            for count in counts
            for method in METHODS
        ]

    def run(self, cell, store):
        chosen = cell.parameters
        d, target = chosen["d"], synthetic.correlated_gaussian(chosen["d"])
        sd = np.sqrt(np.diag(synthetic.gaussian_covariance(d)))
        start = Gaussian(chosen["shift"] * sd, chosen["scale"] * sd)
        settings = replace(
            METHODS[chosen["method"]](kernel=chosen["kernel"], chains=chosen["chains"], iterations=chosen["iterations"], budget=1),
            simultaneous=False,
            groups=1,
            interval="plain",
        )
        steps, states, rows = [], [], []
        for seed in range(chosen["replications"]):
            report = diagnose(target, start, [Mean()], settings, seed)
            steps.append(np.log(report.paths.step[-1]))
            states.append(report.moved_draws[:, 0])
            rows.append(report.rows[0])
        correlation, noise = within_correlation(np.array([some[: min(map(len, states))] for some in states]))  # chains may be left out
        return {
            "step_spread": float(np.std(steps, ddof=1)),
            "correlation": correlation,
            "correlation_noise": noise,
            "moved": [row.moved for row in rows],
            "lower": [row.lower for row in rows],
            "upper": [row.upper for row in rows],
            "approximation": rows[0].approximation,
            "untrusted": float(np.mean([row.verdict == "untrusted" for row in rows])),
        }

    def claims(self, results):
        found = []
        for case in dict.fromkeys(r["case"] for r in results):
            for method in METHODS:
                some = _of(results, case, method)
                found += [self._step_claim(some, case, method), self._correlation_claim(some, case, method)]
                found.append(self._coverage_claim(some, case, method))
        return found

    def _step_claim(self, some: list[Result], case: str, method: str) -> Claim:
        slope = float(np.polyfit(np.log([r["chains"] for r in some]), np.log([r["step_spread"] for r in some]), 1)[0])
        return Claim.judged(
            "theorem 1",
            f"the shared step size becomes deterministic as N grows ({ABOUT_CASE[case]})",
            {
                f"sd of the log step, N = {some[0]['chains']}": some[0]["step_spread"],
                f"N = {some[-1]['chains']}": some[-1]["step_spread"],
                "slope of log sd against log N": slope,
            },
            "the slope lies between −0.65 and −0.35 (independent chains would give −0.5)",
            -0.65 <= slope <= -0.35,
            partly=slope < 0,
            method=method,
        )

    def _correlation_claim(self, some: list[Result], case: str, method: str) -> Claim:
        first, last = some[0], some[-1]
        seen = first["correlation"] > 2 * first["correlation_noise"]
        shrinks = last["correlation"] <= 0.5 * first["correlation"] if seen else True
        return Claim.judged(
            "theorem 1",
            f"two chains' final states become independent as N grows ({ABOUT_CASE[case]})",
            {
                f"correlation, N = {first['chains']}": first["correlation"],
                f"± noise, N = {first['chains']}": first["correlation_noise"],
                f"correlation, N = {last['chains']}": last["correlation"],
                f"± noise, N = {last['chains']}": last["correlation_noise"],
            },
            "below 0.01 at the largest N, and at most half of what it is at the smallest, if that is above two noises",
            last["correlation"] < 0.01 and shrinks,
            partly=shrinks,
            reason="" if seen else "It is within its noise even with the fewest chains.",
            method=method,
        )

    def _coverage_claim(self, some: list[Result], case: str, method: str) -> Claim:
        covered, replications = coverage(some), len(some[0]["moved"])
        last = some[-1]
        least = stats.binom.ppf(0.01, replications, LEVEL) / replications
        large = [covered[r["chains"]] for r in some if r["chains"] >= 100] or [covered[last["chains"]]]
        reason = ""
        if min(large) < least:
            reason = COVERAGE_REASON.format(c=(last["chains"] - 1) * last["correlation"], doubt=last["untrusted"])
        return Claim.judged(
            "section 3.2",
            f"“for any fixed T, [independence] holds asymptotically in N”: a mean's interval covers nominally ({ABOUT_CASE[case]})",
            {
                **{f"coverage, N = {count}": value for count, value in covered.items()},
                "share untrusted at the largest N": last["untrusted"],
            },
            f"at least {least:.3g}, the 1 % point of a nominal {LEVEL:.0%} over {replications} replications, from N = 100 on",
            min(large) >= least,
            partly=method == OURS and last["untrusted"] > 0.95,
            reason=reason,
            method=method,
        )

    def figures(self, results):
        cases = list(dict.fromkeys(r["case"] for r in results))
        figure, panels = grid(3 * len(cases), columns=3, width=2.9, height=2.2)
        for i, case in enumerate(cases):
            step, correlation, cover = panels[3 * i : 3 * i + 3]
            for method, shift in ((PAPER, 0.97), (OURS, 1.03)):
                some = _of(results, case, method)
                counts = np.array([r["chains"] for r in some])
                step.plot(counts, [r["step_spread"] for r in some], label=LABEL[method], **STYLE[method])
                values, noises = ([r[key] for r in some] for key in ("correlation", "correlation_noise"))
                correlation.errorbar(shift * counts, values, 2 * np.array(noises), label=LABEL[method], lw=1, **STYLE[method])
                cover.plot(counts, list(coverage(some).values()), label=LABEL[method], **STYLE[method])
            guide = some[0]["step_spread"] * np.sqrt(counts[0] / counts)
            step.plot(counts, guide, color=GREY, ls=":", label="1/√N")
            step.set(yscale="log", title=f"{case}: sd of the log step size")
            correlation.axhline(0, color="black", lw=0.8)
            correlation.set(title=f"{case}: correlation of two chains (± 2 noises)")
            noise = 2 * np.sqrt(LEVEL * (1 - LEVEL) / len(some[0]["moved"]))
            cover.axhspan(LEVEL - noise, LEVEL + noise, color=GREY, alpha=0.2, lw=0)
            cover.axhline(LEVEL, color="black", lw=0.8)
            cover.set(title=f"{case}: coverage of the mean's interval", ylim=(min(0.85, cover.get_ylim()[0]), 1.005))
            for axes in (step, correlation, cover):
                axes.set(xscale="log", xlabel="chains N")
                axes.set_xticks(counts, [str(count) for count in counts])
                axes.minorticks_off()
        panels[0].legend()
        told = "; ".join(f"{case}: {ABOUT_CASE[case]}" for case in cases)
        return {"theorem": (figure, f"Theorem 1 at work over replications ({told}). Grey: what chance allows around 95 %.")}

    def table(self, results):
        rows = []
        for case in dict.fromkeys(r["case"] for r in results):
            for method in METHODS:
                some = _of(results, case, method)
                covered = coverage(some)
                rows += [[case, LABEL[method], r["chains"], r["step_spread"], r["correlation"], covered[r["chains"]]] for r in some]
        return Table(["case", "settings", "N", "sd of the log step", "correlation of two chains", "coverage"], rows)


COVERAGE_REASON = (
    "The correlation of two chains falls like 1/N, which is what the theorem says, but an interval for a mean needs it to fall faster: "
    "the variance of the mean of N chains is σ²(1 + (N − 1)ρ)/N, and (N − 1)ρ tends to a constant, here {c:.2g}, so the interval stays too "
    "narrow however many chains there are. Convergence to independence does not give the central limit theorem with the variance of "
    "independent chains. It matters only where the mean still depends on the step size, that is while chains are far from "
    "where they are going; a share of {doubt:.2g} of the reports call this row untrusted."
)


def coverage(some: list[Result]) -> dict[int, float]:
    """How often the movement's interval holds the limit, which is the mean movement of the largest N."""
    limit = np.mean(some[-1]["moved"]) - some[-1]["approximation"]
    return {r["chains"]: float(np.mean((np.array(r["lower"]) <= limit) & (limit <= np.array(r["upper"])))) for r in some}


def _of(results: list[Result], case: str, method: str) -> list[Result]:
    return [r for r in results if r["case"] == case and r["method"] == method]
