"""Study 1: mean-field VI of correlated Gaussians, d = 2 to 256 (section 4.1)."""

import numpy as np

from . import synthetic, vi
from .dimension import FALSE, LARGEST_K, DimensionStudy, false_by, median, of, overshoots, tightness
from .study import OURS, PAPER, Claim


class CorrelatedGaussian(DimensionStudy):
    name, title, place = "gaussian", "Gaussian with correlated coordinates", "section 4.1, figures 2 and 3"
    about = (
        "N(0, Σ) with all correlations 0.7, σ₁² = 10 and the other variances 1, approximated by mean-field VI. The truth is known. "
        "The best mean-field Gaussian has the right mean, and variances 1/(Σ⁻¹)ᵢᵢ that are too small; the fit comes near it. Five "
        "diagnoses of each fit, from different seeds. The paper does not say how far its d goes; its scripts name 30."
    )
    dims = (2, 4, 8, 16, 32, 64, 128, 256)
    quick_dims = (8,)
    rows = ("mean", "variance")

    def subject(self, d, store, quick):
        target = synthetic.correlated_gaussian(d)
        return target, vi.mean_field(store, {"correlated gaussian": d}, target, tolerance=0.003, quick=quick)

    def covariance(self, d):
        return synthetic.gaussian_covariance(d)

    def claims(self, results):
        paper, ours = of(results, PAPER), of(results, OURS)
        variances, means = ["X1 variance", "X2 variance"], ["X1 mean", "X2 mean"]
        excess = max(false_by(r, name) for r in paper for name in self.names())
        least = {
            d: min(median(r["rows"][name]["bound"]) for r in paper if r["d"] == d for name in variances) for d in {r["d"] for r in paper}
        }
        small_d = min(value for d, value in least.items() if d <= 32)
        mean_bound = max(median(r["rows"][name]["bound"]) / r["rows"][name]["unit"] for r in paper for name in means)
        mean_error = max(r["rows"][name]["error"] / r["rows"][name]["unit"] for r in paper for name in means)
        unavailable = sum(k > LARGEST_K and np.isfinite(w or np.nan) for r in paper for k, w in zip(r["k_hat"], r["w_mean"], strict=True))
        large = [r for r in ours if r["d"] >= 128] or ours
        return [
            Claim.judged(
                "section 4.1, figure 2",
                "“the lower bounds B_mean and B_variance remain valid … even when d and k-hat are large”",
                {
                    "largest median bound − true error": excess,
                    "share of bounds above the true error": np.mean([overshoots(r, name) for r in paper for name in self.names()]),
                },
                f"no median bound is more than {FALSE} above the true error",
                excess <= FALSE,
            ),
            Claim.judged(
                "section 4.1, figure 2",
                "“… and useful”: “correctly captures that … the variance estimates are inaccurate”",
                {f"smallest bound, d = {d}": value for d, value in sorted(least.items())},
                "the median B_variance of X₁ and X₂ is at least 0.1 at every d",
                min(least.values()) >= 0.1,
                partly=small_d >= 0.1,
                reason="" if min(least.values()) >= 0.1 else USEFUL_REASON,
            ),
            Claim.judged(
                "section 4.1, figure 2",
                "“correctly captures that the mean estimates are accurate”",
                {"largest relative B_mean": mean_bound, "largest true relative mean error of the fit": mean_error},
                "the median B_mean is at most 0.1 standard deviations at every d",
                mean_bound <= 0.1,
            ),
            self.claim_mixing("section 4.1, figure 3", "“the Barker chains mix well in all cases”", results),
            self.claim_k_hat(
                "section 4.1, figure 2", "“VI approximation is not reliable for almost any dimension (since k-hat > 0.7)”", results
            ),
            self.claim_wasserstein(
                "section 4.1, figure 2", "“the Wasserstein upper bounds are too conservative by a factor of 10–1,000”", 10, results
            ),
            Claim.judged(
                "section 4.1",
                "“the upper bounds are unavailable once k-hat > 0.7”",
                {"bounds given there": unavailable},
                "none is given (by the rule of Huggins et al. 2020, which the package follows)",
                unavailable == 0,
            ),
            self.claim_never_looser(results, variances),
            Claim.judged(
                "our aim",
                "Our defaults stay tight where the paper's method is loose, d ≥ 128",
                {
                    "smallest bound / true error, ours": min(tightness(r, name) for r in large for name in variances),
                    "the preset's largest there": max(tightness(r, n) for r in paper for n in variances if r["d"] >= large[0]["d"]),
                },
                "ours is at least 0.7",
                min(tightness(r, name) for r in large for name in variances) >= 0.7,
                method=OURS,
            ),
            self.claim_untrusted_not_wrong(results),
        ]


USEFUL_REASON = (
    "It holds as far as the paper's figure goes, but the bound falls as d grows and is next to nothing at d = 256, while ρ²_max passes. "
    "With q's covariance as preconditioner all chains take small steps along the one direction that is wide, and T grows too slowly to "
    "make up for it; every coordinate forgets its start, since its variance is mostly elsewhere. Longer runs bring the bound back (see "
    "ablation), so it is the method and not a seed."
)
