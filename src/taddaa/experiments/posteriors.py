"""The three real posteriors, one of them with two priors: how each is fitted, what its truth is, and what is asked of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..diagnosis import diagnose
from ..problem.functional import Functional, Mean, Quantile, Variance
from ..problem.target import Target
from . import data, models, vi
from .data import Dataset
from .study import METHODS, OURS, Store
from .truth import Nuts, key_of, nuts

KERNELS = ("rwmh", "mala", "barker", "hmc")
GENE = 61  # whose λ the paper shows
QUICK_CHAINS, QUICK_ITERATIONS, QUICK_BUDGET = 64, {"rwmh": 25, "mala": 25, "barker": 25, "hmc": 5}, 2.0


@dataclass(frozen=True)
class Posterior:
    """A model of data, and how its studies are made.

    Args:
        name: of the posterior in keys and files.
        read: the data.
        build: the target of the data.
        focus: the functionals that the paper's claims are about, asked by themselves.
        extra, extra_names: functions of (flat vector, data) whose truth is needed beside the parameters', and their names.
        truth, quick_truth: how NUTS is run.
        runs: so many times, from other starts.
    """

    name: str
    read: Callable[[], Dataset]
    build: Callable[[Dataset], Target]
    focus: Callable[[Target], Sequence[Functional]]
    truth: Nuts
    quick_truth: Nuts
    runs: int = 2
    extra: Callable | None = None
    extra_names: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        return _target(self)

    def key(self) -> dict[str, Any]:
        return key_of(self.name, self.read())

    def truth_run(self, store: Store, run: int, quick: bool) -> dict[str, Any]:
        options = self.quick_truth if quick else self.truth
        return nuts(store, self.key(), self.target, run, options, self.extra, self.extra_names)

    def fit(self, store: Store, quick: bool) -> vi.Fitted:
        return vi.mean_field(store, self.key(), self.target, quick=quick)

    def diagnosis(
        self, store: Store, method: str, kernel: str, *, every: bool = False, quick: bool = False, seed: int = 0, **changes: Any
    ) -> dict[str, Any]:
        """One diagnosis of the fit, of the paper's quantities or of `every` parameter's mean and variance; `changes` of settings."""
        if quick:
            small = {"chains": QUICK_CHAINS, "iterations": QUICK_ITERATIONS[kernel], **({"budget": QUICK_BUDGET} if method == OURS else {})}
            changes = {**small, **changes}
        fitted = self.fit(store, quick)
        functionals = None if every else list(self.focus(self.target))
        report = diagnose(self.target, fitted.approximation, functionals, METHODS[method](kernel=kernel, **changes), seed)
        return {
            "rows": {
                f"{row.parameter} {row.functional}": {
                    "approximation": row.approximation,
                    "moved": row.moved,
                    "lower": row.lower,
                    "upper": row.upper,
                    "bound": row.bound,
                    "rho2": row.rho2,
                    "verdict": row.verdict,
                    "reason": row.reason,
                }
                for row in report.rows
            },
            "rho2_max": float(report.paths.rho2_max[-1]),
            "path": [round(float(value), 5) for value in report.paths.rho2_max],
            "failed": [check.name for check in report.checks if not check.passed],
            "iterations_run": report.cost.iterations,
            "gradients": report.cost.gradients,
            "chains": report.provenance.chains,
        }


@cache
def _target(posterior: Posterior) -> Target:
    """One object for all its diagnoses, so that programs are compiled once."""
    return posterior.build(posterior.read())


def _coordinates(*names: str) -> Callable[[Target], list[Functional]]:
    """Mean and variance of some parameters only."""

    def functionals(target: Target) -> list[Functional]:
        return [kind(of=_pick(target.labels.index(name)), name=name) for kind in (Mean, Variance) for name in names]

    return functionals


def _pick(position: int) -> Callable:
    def value(flat):
        return flat[position]

    return value


NOUGAT, CRISPED, WIN = "beta4 nougat", "beta5 crispedricewafer", "beta11 winpercent"
LONG, SHORT = Nuts(chains=4, warmup=1000, draws=4000, accept=0.95), Nuts(chains=2, warmup=150, draws=150)
CANDY = Posterior("candy", data.candy, models.regression, _coordinates(NOUGAT, CRISPED, WIN), LONG, SHORT)
WIDE_CANDY = Posterior(
    "candy-wide", data.candy, lambda candy: models.regression(candy, models.WIDE), _coordinates(NOUGAT, CRISPED, WIN), LONG, SHORT
)

LOCAL_SCALE, LOG_SCALE, Z = f"lambda{GENE}", f"log lambda{GENE}", f"z{GENE}"


def _leukemia_focus(target: Target) -> list[Functional]:
    own_scale: Functional = Quantile(0.5, of=models.local_scale(GENE), name=LOCAL_SCALE)  # λ's mean does not exist, its median does
    return [*_coordinates("beta0", LOG_SCALE, Z)(target), own_scale]


LEUKEMIA = Posterior(
    "leukemia",
    data.leukemia,
    models.horseshoe,
    _leukemia_focus,
    truth=Nuts(chains=4, warmup=1000, draws=1000, accept=0.9),
    quick_truth=Nuts(chains=2, warmup=60, draws=40, depth=4),
    extra=lambda flat, _: models.local_scale(GENE)(flat),
    extra_names=(LOCAL_SCALE,),
)

LOG_LOSS = "log loss"
NETWORK = Posterior(
    "network",
    data.candy,
    models.network,
    lambda target: [Mean(of=models.log_loss, name=LOG_LOSS), Quantile(0.5, of=models.log_loss, name=LOG_LOSS)],
    truth=Nuts(chains=4, warmup=1000, draws=2000, dense=False),
    quick_truth=Nuts(chains=2, warmup=100, draws=100, dense=False, depth=5),
    runs=3,
    extra=models.log_loss,
    extra_names=(LOG_LOSS,),
)

POSTERIORS = {each.name: each for each in (CANDY, WIDE_CANDY, LEUKEMIA, NETWORK)}
