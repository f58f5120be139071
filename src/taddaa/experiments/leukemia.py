"""Study 5: mean-field VI of a logistic regression with a regularised horseshoe prior on 100 genes (section 4.4)."""

from .posteriors import GENE, LEUKEMIA, LOCAL_SCALE, LOG_SCALE, Z
from .real import (
    KERNEL_NAME,
    TABLE_COLUMNS,
    Findings,
    Quantity,
    RealStudy,
    error_figure,
    never_looser,
    never_wrong,
    reliability_figure,
    tightness_figure,
    truth_and_bounds,
)
from .study import OURS, PAPER, Claim, Table

WHERE = "section 4.4, figure 7"
NEAR_MEAN, NEAR_VARIANCE = 0.1, 0.065  # the planned half-widths: in standard deviations, and 0.15 in the log variance as log₁₀
BETA0 = [Quantity("beta0 mean", "β₀: mean error, sd"), Quantity("beta0 variance", "β₀: log₁₀ variance error")]
LAMBDA = [
    Quantity(f"{LOG_SCALE} mean", f"log λ{GENE}: mean error, sd"),
    Quantity(f"{LOG_SCALE} variance", f"log λ{GENE}: log₁₀ variance error"),
]
STANDARDISED = [Quantity(f"{Z} mean", f"z{GENE}: mean error, sd"), Quantity(f"{Z} variance", f"z{GENE}: log₁₀ variance error")]
MEDIAN = [Quantity(f"{LOCAL_SCALE} q0.5", f"λ{GENE}: median error", plain=True)]


class Leukemia(RealStudy):
    name, title, place = "leukemia", "Leukemia, regularised horseshoe", "section 4.4, figures 7 and 8"
    posteriors = (LEUKEMIA,)
    about = (
        "71 patients, the 100 genes of the largest χ² scores, a regularised horseshoe prior in non-centred form: the intercept β₀, z, "
        "log τ, log λ and log c², d = 203. Not in the text: β₀ ~ N(0, 10²) and τ₀ = 2/(99 √71). What the paper calls λ₆₁ seems to be the "
        "62nd coordinate, z₆₁ with β₆₁ = z₆₁ τ λ̃₆₁; both are shown, and the median of λ₆₁ on its own scale (its mean does not exist). "
        "The posterior was expected to have several modes, so the truth is two independent NUTS runs of four chains from scattered "
        "starts: R-hat, effective draws and the runs' disagreement are in the table. Both presets were asked for the shown quantities "
        "with each kernel, and for every parameter with Barker."
    )

    def claims(self, results):
        findings = Findings(results)
        shown = BETA0 + LAMBDA + STANDARDISED + MEDIAN
        made = [
            *_inaccurate(findings),
            *_accurate(findings),
            _reliability(findings),
            never_looser(findings, LEUKEMIA, shown, "the shown quantities"),
        ]
        if findings.diagnosis(LEUKEMIA, OURS, every=True) is not None:
            made += [_truth(findings), *(never_wrong(findings, LEUKEMIA, method, "every parameter") for method in (PAPER, OURS))]
        return made

    def figures(self, results):
        findings = Findings(results)
        figures = {
            "errors": (
                error_figure(findings, [(LEUKEMIA, BETA0 + LAMBDA + STANDARDISED + MEDIAN)]),
                "Errors of the mean-field fit and of the moved draws, (value − truth); the length of a gold line is the bound.",
            ),
            "reliability": (
                reliability_figure(findings, [(LEUKEMIA, "")]),
                "Largest squared correlation of the chains with their starts; dotted: the cutoff.",
            ),
        }
        if findings.diagnosis(LEUKEMIA, OURS, every=True) is not None:
            caption = "Every parameter's bound against its true error, Barker; on the line is as tight as can be, above it wrong."
            figures["tightness"] = (tightness_figure(findings, [(LEUKEMIA, "")]), caption)
        return figures

    def table(self, results):
        return Table(TABLE_COLUMNS, truth_and_bounds(Findings(results), LEUKEMIA, BETA0 + LAMBDA + STANDARDISED + MEDIAN))


def _inaccurate(findings):
    scale, z, variance = (findings.shown(LEUKEMIA, quantity, PAPER) for quantity in (LAMBDA[0], STANDARDISED[0], BETA0[1]))
    return [
        Claim.judged(
            WHERE,
            f"The “mean estimate for λ{GENE}” is inaccurate, and Barker captures it",
            {
                f"bound, log λ{GENE}": scale.bound,
                "true error": abs(scale.before),
                f"bound, z{GENE}": z.bound,
                "its true error": abs(z.before),
            },
            f"bound > 0 and below the true error, for log λ{GENE}",
            0 < scale.bound <= abs(scale.before),
            partly=0 < z.bound <= abs(z.before),
            reason=f"It holds for z{GENE}, the 62nd coordinate, which the figure seems to show; λ{GENE} itself is fitted well."
            * (not scale.bound),
        ),
        Claim.judged(
            WHERE,
            "The “variance estimate for β₀” is inaccurate, and Barker captures it",
            {"bound, log₁₀": variance.bound, "true error": abs(variance.before)},
            "bound > 0 and below the true error",
            0 < variance.bound <= abs(variance.before),
            partly=variance.bound > 0,
        ),
    ]


def _accurate(findings):
    mean, variance, of_z = (findings.shown(LEUKEMIA, quantity, PAPER) for quantity in (BETA0[0], LAMBDA[1], STANDARDISED[1]))
    return [
        Claim.judged(
            WHERE,
            "“for the accurate mean estimate for β₀ … the lower bounds are zero or close to zero”",
            {"bound, sd": mean.bound, "true error": abs(mean.before)},
            "bound < 0.1 sd, and the true error below 0.2: twice the planned half-width",
            mean.bound < NEAR_MEAN and abs(mean.before) < 2 * NEAR_MEAN,
            partly=mean.bound < NEAR_MEAN,
            reason="The bound is zero, but the mean is not accurate: the preset's chains do not get far enough to see it, ours do."
            * (abs(mean.before) >= 2 * NEAR_MEAN),
        ),
        Claim.judged(
            WHERE,
            f"“for the accurate … variance estimate for λ{GENE}, the lower bounds are zero or close to zero”",
            {f"bound, log λ{GENE}, log₁₀": variance.bound, "true error": abs(variance.before), f"bound, z{GENE}": of_z.bound},
            f"for log λ{GENE}: bound < 0.065 in log₁₀ (the planned half-width), and the true error below 0.13",
            variance.bound < NEAR_VARIANCE and abs(variance.before) < 2 * NEAR_VARIANCE,
            partly=variance.bound < NEAR_VARIANCE,
        ),
    ]


def _reliability(findings):
    rho2 = {KERNEL_NAME[kernel]: findings.diagnosis(LEUKEMIA, PAPER, kernel)["rho2_max"] for kernel in KERNEL_NAME}
    share = {kernel: findings.shown(LEUKEMIA, BETA0[1], PAPER, kernel).share for kernel in ("barker", "hmc")}
    better = max(rho2["MALA"], rho2["Barker"])
    return Claim.judged(
        "section 4.4, figure 8",
        "The checks “correctly reflect the worse performance of RWMH … and HMC (due to a smaller number of iterations)”",
        {
            **{f"ρ²_max, {name}": value for name, value in rho2.items()},
            "share of β₀'s variance error found, Barker": share["barker"],
            "and HMC": share["hmc"],
        },
        "ρ²_max of RWMH and of HMC above those of MALA and Barker",
        rho2["RWMH"] > better and rho2["HMC"] > better,
        partly=rho2["RWMH"] > better,
        reason="HMC's 18 iterations of 10 leapfrog steps forget their starts as well as MALA's 293." * (rho2["HMC"] <= better),
    )


def _truth(findings):
    true = findings.truth(LEUKEMIA)
    return Claim.judged(
        "our truth",
        "Independent NUTS runs from scattered starts agree: no mode was seen by one run and missed by another",
        {
            "largest R-hat": true.rhat.max(),
            "fewest effective draws": true.ess.min(),
            "largest disagreement of two runs' means, sd": true.disagreement.max(),
            "divergences": sum(run["divergences"] for run in true.runs),
            "gradients of NUTS after its warm-up": sum(run["gradients"] for run in true.runs),
        },
        "R-hat ≤ 1.01 and at least 400 effective draws for all 204 quantities, disagreement below 0.1",
        true.rhat.max() <= 1.01 and true.ess.min() >= 400 and true.disagreement.max() < 0.1,
        method=OURS,
    )
