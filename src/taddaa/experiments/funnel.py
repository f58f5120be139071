"""Studies 2 and 3: Neal's funnel, by a mean-field Gaussian (section 4.2) and by a mean-field Student t (appendix C.2)."""

import numpy as np

from ..problem.functional import Quantile
from . import synthetic, vi
from .dimension import FALSE, LARGEST_K, DimensionStudy, available, ds, false_by, median, of, overshoots, tightness
from .study import PAPER, Claim, Result

PRECISE = 0.5  # of the true error: what we ask of a bound that is “quite precise”
ABOUT = (
    "x₁ ~ N(0, 1), the others N(0, exp x₁) given x₁, where exp x₁ is the variance (the text's Var(xᵢ) = e^½ agrees). The truth is "
    "known in closed form"
)


class Funnel(DimensionStudy):
    name, title, place = "funnel", "Neal's funnel, mean-field Gaussian", "section 4.2, figure 4; appendix C.2, figure 13"
    about = (
        f"{ABOUT}; so is the best mean-field Gaussian: means 0, variances 2/(d + 1) and exp(−1/(d + 1)), which the fit comes near. "
        "Dimensions beyond the paper's 30 are added."
    )
    dims = (2, 5, 10, 20, 30, 60)
    quick_dims = (10,)
    rows = ("mean", "variance")

    def subject(self, d, store, quick):
        target = synthetic.funnel(d)
        return target, vi.mean_field(store, {"funnel": d}, target, tolerance=0.01, quick=quick)

    def covariance(self, d):
        return synthetic.funnel_covariance(d)

    def claims(self, results):
        names = ["X1 variance", "X2 variance"]
        return [
            *_precise_claims(
                self,
                results,
                names,
                "section 4.2, figure 4",
                "“the lower bounds constructed using Barker are quite precise”",
                "they are lower bounds: “the diagnostic remains valid … even if the chains remain far from stationarity” (section 3.3)",
            ),
            _no_worse_with_d(results, names),
            self.claim_mixing("section 4.2, figure 13", "“the reliability check passes for all d”", results),
            _noisy_k_hat(results),
            self.claim_wasserstein(
                "section 4.2, figure 4",
                "“The Wasserstein-based mean and covariance upper bounds are orders-of-magnitude too large”",
                100,
                results,
            ),
            _unavailable(results),
            self.claim_never_looser(results, names),
            self.claim_untrusted_not_wrong(results),
        ]


class FunnelT(DimensionStudy):
    name, title, place = "funnel-t", "Neal's funnel, mean-field Student t", "appendix C.2, figure 14"
    about = (
        f"{ABOUT}; the quantiles of x₂ are those of a normal variance mixture, by quadrature. (The authors' scripts compare with "
        "a normal distribution's quantile, 1.65 for the 90 % quantile of x₂, where the right one is {quantile:.3g}.) The paper does not "
        "give the degrees of freedom. Its scripts have 100, so we take 100; they also fit a multivariate t and use MALA, where the "
        "text says mean-field and Barker, which we follow."
    ).format(quantile=synthetic.funnel_quantile(0.9))
    dims = (2, 5, 10, 20, 30)
    quick_dims = (10,)
    rows = ("q0.5", "q0.9")
    functionals = (Quantile(0.5), Quantile(0.9))
    df = 100.0

    def subject(self, d, store, quick):
        target = synthetic.funnel(d)
        fitted = vi.mean_field(store, {"funnel": d}, target, family="student-t", df=100.0, tolerance=0.02, quick=quick)
        return target, fitted

    def covariance(self, d):
        return synthetic.funnel_covariance(d)

    def truth(self, d, q):
        sd = np.sqrt(np.diag(self.covariance(d)))
        errors = {}
        for p in (0.5, 0.9):
            own, right = np.asarray(q.quantile(p)), (synthetic.normal_quantile(p), synthetic.funnel_quantile(p))
            for i in (0, 1):
                errors[f"X{i + 1} q{p:g}"] = (abs(float(own[i] - right[i])), float(sd[i]))
        return errors

    def claims(self, results):
        paper = of(results, PAPER)
        most = max(median(r["rows"]["X2 q0.5"]["bound"]) / r["rows"]["X2 q0.5"]["unit"] for r in paper)
        error = max(r["rows"]["X2 q0.5"]["error"] / r["rows"]["X2 q0.5"]["unit"] for r in paper)
        place = "appendix C.2, figure 14"
        return [
            *_precise_claims(
                self,
                results,
                ["X1 q0.9", "X2 q0.9"],
                place,
                "“the median and tail quantile lower bounds … are quite precise”",
                "“… and remain valid when d and k-hat are large”",
            ),
            self.claim_mixing(place, "the reliability check passes for all d", results),
            self.claim_k_hat(place, "“k-hat is large (k-hat > 0.7) for almost any dimension”", results),
            Claim.judged(
                place,
                "“if we are only interested in … [the] median of X₂, mean field t-distribution VI should be considered as reliable”",
                {"largest relative bound": most, "largest true relative error": error},
                "the bound and the true error are at most 0.1 standard deviations at every d",
                most <= 0.1 and error <= 0.1,
            ),
            self.claim_never_looser(results, ["X1 q0.9", "X2 q0.9"]),
            self.claim_untrusted_not_wrong(results),
        ]


def _precise_claims(study: DimensionStudy, results: list[Result], names: list[str], where: str, precise_text: str, valid_text: str):
    """Tight where there is an error, and valid everywhere."""
    paper = of(results, PAPER)
    found = {name: [tightness(r, name) for r in paper if r["rows"][name]["error"] > FALSE * r["rows"][name]["unit"]] for name in names}
    least = {name: min(values, default=np.nan) for name, values in found.items()}
    width = {name: float(np.mean([half_width(r, name) / r["rows"][name]["error"] for r in paper])) for name in names}
    precise = all(not value < PRECISE for value in least.values())
    excess = {name: max(false_by(r, name) for r in paper) for name in study.names()}
    worst = max(excess, key=lambda name: excess[name])
    return [
        Claim.judged(
            where,
            precise_text,
            {
                **{f"smallest bound / true error, {name}": value for name, value in least.items()},
                **{f"the interval's half-width / true error, {name}": value for name, value in width.items()},
            },
            f"at least {PRECISE} at every d (where the true error is at least {FALSE})",
            precise,
            partly=any(value >= PRECISE for value in least.values()),
            reason="" if precise else PRECISION_REASON,
        ),
        Claim.judged(
            where,
            valid_text,
            {
                **{f"largest bound − true error, {name}": value for name, value in excess.items()},
                **{
                    f"share of bounds above the true error, {name}": np.mean([overshoots(r, name) for r in paper]) for name in study.names()
                },
            },
            f"no median bound is more than {FALSE} above the true error (in standard deviations, or log variance)",
            excess[worst] <= FALSE,
            partly=sum(value > FALSE for value in excess.values()) <= 1,
            reason="" if excess[worst] <= FALSE else VALIDITY_REASON,
        ),
    ]


def half_width(result: Result, name: str) -> float:
    row = result["rows"][name]
    return median([(upper - lower) / 2 for lower, upper in zip(row["lower"], row["upper"], strict=True)])


def _no_worse_with_d(results: list[Result], names: list[str]) -> Claim:
    paper = [r for r in of(results, PAPER) if r["d"] <= 30]
    first, last = (float(np.mean([tightness(r, name) for name in names])) for r in (paper[0], paper[-1]))
    beyond = float(np.mean([tightness(of(results, PAPER)[-1], name) for name in names]))
    return Claim.judged(
        "section 4.2, figure 4",
        "“… and do not degrade as the dimension increases”",
        {f"bound / true error, d = {ds(paper)[0]}": first, f"d = {ds(paper)[-1]}": last, f"d = {ds(of(results, PAPER))[-1]}": beyond},
        "the mean over X₁ and X₂ of bound / true error falls by less than 0.15 from the smallest d to 30",
        last >= first - 0.15,
        partly=last >= 0.5 * first,
    )


def _noisy_k_hat(results: list[Result]) -> Claim:
    paper = of(results, PAPER)
    spread = max(max(r["k_hat"]) - min(r["k_hat"]) for r in paper)
    torn = sum(min(r["k_hat"]) <= LARGEST_K < max(r["k_hat"]) for r in paper)
    return Claim.judged(
        "section 4.2, figure 4",
        "“The k-hat diagnostic … is noisy and provides little insight”",
        {"largest range over seeds at one d": spread, "dimensions where seeds disagree about 0.7": torn},
        "k-hat of the same fit ranges over more than 0.1 at some d, or seeds fall on both sides of 0.7",
        spread > 0.1 or torn > 0,
    )


def _unavailable(results: list[Result]) -> Claim:
    high = [r for r in of(results, PAPER) if r["d"] > 10] or of(results, PAPER)
    share = np.mean([len(available(r, "w_mean")) * 2 < len(r["w_mean"]) for r in high])
    return Claim.judged(
        "section 4.2, figure 4",
        "“… and unavailable for most d > 10 because k-hat > 0.7”",
        {"share of d > 10 without a bound": share},
        "more than half",
        share > 0.5,
    )


PRECISION_REASON = (
    "Where a bound is far from the truth here, it is the interval that takes the most: its half-width is a large part of the true error, "
    "which is small, and no number of iterations mends that; more chains do."
)
VALIDITY_REASON = (
    "Chains that start in the narrow part or enter it hardly move there with a step that all share, so that after T iterations x₁ is "
    "too high on average: the movement is real, but it overshoots (Condition 1 fails), and ρ²_max does not see it. Five seeds agree, and "
    "it is not over at eight times T (see ablation)."
)
