"""The diagnosis: plan → start → walk while quantities move → summarise → report (Algorithm 1 and what goes beyond it)."""

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import jax
import numpy as np
import scipy
from scipy import stats

from .approximation import Approximation, Draws, as_approximation
from .engine import Engine, Meter
from .errors import InputError
from .functional import Covariance, Functional, as_functionals
from .interval import Interval, bound, exactly, movement
from .reliability import Check, RowGroup, all_checks, correlation_check, row_rho2
from .report import ERROR, NO_ERROR, UNTRUSTED, Cost, Handover, Paths, Provenance, Report, Row
from .settings import Settings
from .target import Target, as_target, indexed
from .walk import Progress, Walk, find_step

REFERENCE_DRAWS = 20_000  # of q, where a functional of it has no closed form
REFERENCE_NUMBERS = 40_000_000  # at most, draws × dimension
FOUND_PROBABILITY = 0.95  # with which an error of the size `detectable` is found
ONE_SIGMA = 2 * stats.norm.cdf(1) - 1


def diagnose(
    target: Target | Callable,
    approximation: Approximation | Any,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    other_starts: Approximation | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Lower bounds on the error of an approximation, quantity by quantity, with reasons to trust them or not.

    Args:
        target: a `Target`, or a log density function of a flat vector.
        approximation: `Gaussian`, `StudentT`, `Draws`, `Sampler`, or a distribution with `sample(key, shape)`.
        functionals: what to judge; the mean and variance of every parameter by default.
        settings: `Settings()` by default.
        seed: the same seed gives the same report.
        other_starts: a second arm of chains, from another approximation or from "inflated" draws of this one (three times
            as wide); rows on which the arms disagree are untrusted, for example because of another mode.
        progress: called with a `Progress` after each block of iterations.
    """
    settings = _checked_settings(settings)
    seed = _checked_seed(seed)
    approximation = as_approximation(approximation)
    target = as_target(target, approximation.dim)
    if target.dim != approximation.dim:
        raise InputError(f"target has dim = {target.dim}, but the approximation has dimension {approximation.dim}")
    meter = Meter()
    with jax.enable_x64(settings.precision == "float64"):
        study = _Study.prepare(target, approximation, as_functionals(functionals), settings, seed, meter)
        walk = study.walk_from(approximation, arm=0, progress=progress)
        looks = 0
        while True:
            walk.round()
            looks += 1
            checks = study.check(walk)
            if walk.iteration * 2 > study.plan.most_iterations or not _worth_running_on(checks, looks):
                break
        if other_starts is not None:
            checks.append(study.compare_arms(walk, other_starts, looks, progress))
        return study.report(walk, checks, looks)


def _worth_running_on(checks: list[Check], looks: int) -> bool:
    """Something still moves or remembers, and more iterations may cure it; chains stuck at two looks are not cured by them."""
    failed = [check for check in checks if not check.passed]
    stuck = any(check.name == "all chains move" for check in failed)
    return any(check.more_iterations for check in failed) and not (stuck and looks >= 2)


@dataclass
class _Study:
    """What is fixed before the chains move."""

    target: Target
    approximation: Approximation
    settings: Settings
    seed: int
    plan: Any
    engine: Engine
    groups: list[RowGroup]
    functions: tuple[Callable, ...]
    references: list[Callable[[float], Interval]]  # for each group: level → interval of F(q)
    notes: list[str]

    @classmethod
    def prepare(cls, target, approximation, functionals, settings, seed, meter) -> "_Study":
        plan = settings.plan(target.dim)
        target.check()
        engine = Engine(target, settings.kernel, plan.chains, seed, settings.precision, meter)
        functions, groups = _row_groups(target, functionals, engine)
        study = cls(target, approximation, settings, seed, plan, engine, groups, functions, [], [])
        study.references = study._references()
        return study

    def observe(self, positions: np.ndarray) -> np.ndarray:
        return self.engine.observe(positions, self.functions)

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])

    # Start ------------------------------------------------------------------------------------------------------------

    def walk_from(self, approximation: Approximation, arm: int, progress) -> Walk:
        """Draw starts and pilots, find a metric and a step size from the pilots, and open the walk."""
        engine, chains = self.engine, self.plan.chains
        preconditioner = self.settings.preconditioner
        wanted = preconditioner.pilots(self.target.dim, chains)
        draws = np.asarray(approximation.sample(self._rng(10 + arm), chains + wanted), float)
        starts, pilots = draws[:chains], draws[chains:]
        if wanted:
            values, gradients = engine.evaluate(pilots)
            found = preconditioner.initial(approximation, pilots, gradients)
        else:
            found = preconditioner.initial(approximation, starts, np.zeros_like(starts))
        if found.note:
            self.notes.append(found.note)
        step = engine.kernel.initial_step(self.target.dim)
        if wanted:
            trial = engine.start(pilots[:chains], found.metric, step)
            step = find_step(engine, trial, found.metric, pilots[:chains])
        begun = engine.start(starts, found.metric, step)
        outside = int(np.sum(~np.isfinite(np.asarray(begun.point.logdensity))))
        if outside == chains:
            value = float(np.asarray(begun.point.logdensity)[0])
            raise InputError(
                f"logdensity is {value} at every one of {chains} draws of the approximation; "
                "do target and approximation use the same coordinates and support?"
            )
        if outside:
            self.notes.append(f"logdensity was not finite at {outside} of {chains} starts, whose chains moved only once they found support")
        walk = Walk(engine, preconditioner, self.plan, starts, found.metric, begun, self.observe, self._summarise, progress)
        self._refuse_nan(walk.origin.quantities, "start")
        walk.open()
        return walk

    def _refuse_nan(self, quantities: np.ndarray, where: str) -> None:
        for group in self.groups:
            bad = np.isnan(quantities[:, group.columns]).any(axis=1)
            if bad.any():
                what = f"the functional {group.labels[0]!r}" if group.functional.of else f"constrain's {group.labels[0]!r}"
                raise InputError(f"{what} is NaN at {bad.sum()} of {len(bad)} {where}s; it must be a number wherever q puts draws")

    # Judge ------------------------------------------------------------------------------------------------------------

    def _summarise(self, quantities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each row's estimate and standard error at one snapshot."""
        estimates, errors = [], []
        for group in self.groups:
            found = group.functional.interval(group.window([quantities]), ONE_SIGMA, self.settings.variance_interval)
            estimates.append(found.estimate)
            errors.append((found.upper - found.lower) / 2)
        return np.concatenate(estimates), np.concatenate(errors)

    def check(self, walk: Walk) -> list[Check]:
        if self.settings.checks == "correlation":
            return [correlation_check(walk, self.groups)]
        reference = np.concatenate([interval(ONE_SIGMA).estimate for interval in self.references])
        return all_checks(walk, self.groups, reference)

    def level(self, looks: int, rows: int) -> float:
        """Each interval's own level: look r of R may spend α/2^r (the last what is left), shared by all rows."""
        alpha = 1 - self.settings.level
        most = 1 + int(np.log2(self.plan.most_iterations / self.plan.iterations) + 1e-9)
        spent = alpha / 2 ** min(looks, most - 1)
        return 1 - spent / rows if self.settings.simultaneous else self.settings.level

    def intervals(self, walk: Walk, level: float) -> tuple[list[Interval], list[Interval], list[Interval]]:
        """For each group: the interval of F(moved), of F(q), and of the movement."""
        late = [snapshot.quantities for snapshot in walk.snapshots[1:][-self.settings.states :]]
        moved = [g.functional.interval(g.window(late), level, self.settings.variance_interval) for g in self.groups]
        reference = [interval(level) for interval in self.references]
        return moved, reference, [movement(m, r) for m, r in zip(moved, reference, strict=True)]

    def _references(self) -> list[Callable[[float], Interval]]:
        """F(q): in closed form for a coordinate where it exists, else from many draws with their own sampling error."""
        references: list[Callable[[float], Interval]] = []
        draws: np.ndarray | None = None
        for group in self.groups:
            known = None
            if self.target.constrain is None and group.functional.of is None:
                known = group.functional.closed_form(self.approximation)
                if known is not None:
                    known = _pick_covariance(known, group.columns) if isinstance(group.functional, Covariance) else known[group.columns]
            if known is not None:
                references.append(lambda level, value=exactly(known): value)
                continue
            if draws is None:
                draws = self._reference_draws()
                self._refuse_nan(draws, "draw")
            references.append(
                lambda level, group=group, window=group.window([draws]): group.functional.interval(
                    window, level, self.settings.variance_interval
                )
            )
        return references

    def _reference_draws(self) -> np.ndarray:
        if isinstance(self.approximation, Draws):
            return self.observe(self.approximation.draws)
        count = max(self.plan.chains, min(REFERENCE_DRAWS, REFERENCE_NUMBERS // self.target.dim))
        return self.observe(np.asarray(self.approximation.sample(self._rng(1), count), float))

    def compare_arms(self, walk: Walk, other_starts, looks: int, progress) -> Check:
        """A second arm from other starts, as long as the first; rows whose intervals cannot both be right are flagged."""
        other = _Inflated(self.approximation) if other_starts == "inflated" else as_approximation(other_starts)
        if other.dim != self.target.dim:
            raise InputError(f"other_starts has dimension {other.dim}, the target has dim = {self.target.dim}")
        arm = self.walk_from(other, arm=1, progress=progress)
        for _ in range(looks):
            arm.round()
        rows = sum(len(group.labels) for group in self.groups)
        level = self.level(looks, rows)
        differences = [movement(*pair) for pair in zip(self.intervals(walk, level)[0], self.intervals(arm, level)[0], strict=True)]
        lower, upper = (np.concatenate([getattr(d, side) for d in differences]) for side in ("lower", "upper"))
        apart = np.flatnonzero(bound(lower, upper) > 0)
        return Check(
            "arms agree",
            not apart.size,
            float(apart.size),
            0.0,
            "chains from other starts came to another value, as when there are several modes or chains are too short",
            rows=tuple(apart.tolist()),
        )

    # Report -----------------------------------------------------------------------------------------------------------

    def report(self, walk: Walk, checks: list[Check], looks: int) -> Report:
        rows = sum(len(group.labels) for group in self.groups)
        level = self.level(looks, rows)
        moved, reference, moves = self.intervals(walk, level)
        columns = {
            "parameter": [label for group in self.groups for label in group.labels],
            "functional": [group.functional.label for group in self.groups for _ in group.labels],
            "approximation": np.concatenate([g.functional.shown(r.estimate) for g, r in zip(self.groups, reference, strict=True)]),
            "moved": np.concatenate([g.functional.shown(m.estimate) for g, m in zip(self.groups, moved, strict=True)]),
            "lower": np.concatenate([m.lower for m in moves]),
            "upper": np.concatenate([m.upper for m in moves]),
        }
        estimate = np.concatenate([m.estimate for m in moves])
        unknown = np.isnan(columns["lower"]) | np.isnan(columns["upper"]) | ~np.isfinite(estimate)
        columns["lower"] = np.where(unknown, -np.inf, columns["lower"])
        columns["upper"] = np.where(unknown, np.inf, columns["upper"])
        bounds = bound(columns["lower"], columns["upper"])
        unit = np.concatenate([g.functional.unit(walk.snapshots[-1].quantities[:, g.columns].std(axis=0, ddof=1)) for g in self.groups])
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(bounds > 0, bounds / unit, 0.0)
        # Found with 95 % probability if the interval's half-width plus 1.64 standard errors is exceeded.
        half = np.maximum(columns["upper"] - estimate, estimate - columns["lower"])
        detectable = np.where(unknown, np.inf, half * (1 + stats.norm.ppf(FOUND_PROBABILITY) / stats.norm.ppf((1 + level) / 2)))
        verdicts = [_verdict(row, bounds[row] > 0, bool(unknown[row]), checks) for row in range(rows)]
        rho2 = row_rho2(walk, self.groups)
        table = tuple(
            Row(
                columns["parameter"][i],
                columns["functional"][i],
                *(float(columns[key][i]) for key in ("approximation", "moved", "lower", "upper")),
                float(bounds[i]),
                float(relative[i]),
                float(detectable[i]),
                float(rho2[i]),
                *verdicts[i],
            )
            for i in range(rows)
        )
        rejected = int(np.sum(np.asarray(walk.chains.nonfinite)))
        notes = list(dict.fromkeys(self.notes))
        if rejected:
            notes.append(f"{rejected} proposals had a NaN or infinite log density or gradient and were rejected")
        meter, trace = self.engine.meter, walk.trace
        labels = self.target.labels
        return Report(
            rows=table,
            checks=tuple(checks),
            cost=Cost(
                meter.gradients, meter.compiling, meter.seconds - meter.compiling, meter.programs, walk.iteration, self.plan.iterations
            ),
            provenance=self._provenance(),
            notes=tuple(notes),
            paths=Paths(
                snapshots=np.array([0] + [point.iteration for point in walk.path]),
                estimate=np.array([self._summarise(walk.origin.quantities)[0]] + [point.estimate for point in walk.path]),
                error=np.array([self._summarise(walk.origin.quantities)[1]] + [point.error for point in walk.path]),
                rho2=np.array([np.ones(rows)] + [_to_rows(self.groups, point.rho2) for point in walk.path]),
                reference=np.concatenate([r.estimate for r in reference]),
                acceptance=trace.acceptance,
                step=np.exp(trace.log_step),
                rho2_max=trace.rho2.max(axis=1),
            ),
            labels=labels,
            start_draws=walk.origin.quantities[:, : len(labels)],
            moved_draws=walk.snapshots[-1].quantities[:, : len(labels)],
            trace=trace,
            handover=_handover(walk),
        )

    def _provenance(self) -> Provenance:
        s = self.settings
        shown = {**{f: getattr(s, f) for f in s.__dataclass_fields__}, "kernel": s.kernel, "preconditioner": s.preconditioner.label}
        try:
            own = metadata.version("taddaa")
        except metadata.PackageNotFoundError:
            own = "source"
        versions = (
            f"taddaa {own}, jax {jax.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, python {platform.python_version()}"
        )
        return Provenance(
            seed=self.seed,
            chains=self.plan.chains,
            kernel=s.kernel.label,
            preconditioner=s.preconditioner.label,
            level=s.level,
            simultaneous=s.simultaneous,
            settings=", ".join(f"{key}={value}" for key, value in shown.items()),
            approximation=self.approximation.describe(),
            versions=versions,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )


class _Inflated(Approximation):
    """Draws of q, three times as far from their centre."""

    def __init__(self, approximation: Approximation, factor: float = 3.0):
        self._of, self._factor, self.dim = approximation, factor, approximation.dim

    def sample(self, rng, count):
        draws = np.asarray(self._of.sample(rng, count), float)
        centre = np.median(draws, axis=0)
        return centre + self._factor * (draws - centre)


def _verdict(row: int, moved: bool, unknown: bool, checks: list[Check]) -> tuple[str, str]:
    """Three verdicts. A failed check silences the rows it names; one about blindness only those without a bound."""
    if unknown:
        return UNTRUSTED, "the functional is not a finite number for the approximation or the moved draws"
    reasons = []
    for check in checks:
        if check.passed:
            continue
        concerns = check.rows is None or row in check.rows
        if concerns and not (check.only_zero and moved):
            reasons.append(check.message)
        elif not concerns and check.name == "settled" and not moved:
            reasons.append("other quantities were still moving when the chains stopped, so this one may move later")
    if reasons:
        return UNTRUSTED, "; ".join(reasons)
    return (ERROR if moved else NO_ERROR), ""


def _row_groups(target: Target, functionals: Sequence[Functional], engine: Engine) -> tuple[tuple[Callable, ...], list[RowGroup]]:
    """Which columns of `observe` each functional reads, and the labels of its rows."""
    labels = target.labels
    functions: list[Callable] = []
    offsets: dict[Callable, tuple[int, tuple[int, ...]]] = {}
    width, first_row = len(labels), 0
    groups = []
    for functional in functionals:
        if functional.of is not None:
            if functional.of not in offsets:
                shape = engine.shape_of(functional.of)
                offsets[functional.of] = (width, shape)
                functions.append(functional.of)
                width += int(np.prod(shape))
            offset, shape = offsets[functional.of]
            columns = offset + np.arange(int(np.prod(shape)))
            name = functional.name or getattr(functional.of, "__name__", "function").strip("<>")
            names = tuple(indexed(name, shape))
            if isinstance(functional, Covariance):
                if len(columns) != 2:
                    raise InputError(f"Covariance(of=…) must return two values, got shape {shape}")
                names = (name,)
        elif isinstance(functional, Covariance):
            pair = [_column(labels, which) for which in (functional.first, functional.second)]
            columns = np.array(pair)
            names = (functional.name or f"{labels[pair[0]]}, {labels[pair[1]]}",)
        else:
            columns, names = np.arange(len(labels)), labels
        groups.append(RowGroup(functional, columns, names, first_row))
        first_row += len(names)
    return tuple(functions), groups


def _column(labels: tuple[str, ...], which: str | int | None) -> int:
    if isinstance(which, str) and which in labels:
        return labels.index(which)
    if isinstance(which, (int, np.integer)) and -len(labels) <= which < len(labels):
        return int(which) % len(labels)
    raise InputError(f"Covariance names the parameter {which!r}, which is not among {', '.join(labels[:5])}{', …' * (len(labels) > 5)}")


def _pick_covariance(covariance: np.ndarray, columns: np.ndarray) -> np.ndarray:
    first, second = columns
    if covariance.ndim == 2:
        return covariance[[first], [second]]
    return np.array([covariance[first] if first == second else 0.0])


def _to_rows(groups: list[RowGroup], values: np.ndarray) -> np.ndarray:
    return np.concatenate([v if len(g.labels) == len(g.columns) else v.max(keepdims=True) for g in groups for v in [values[g.columns]]])


def _handover(walk: Walk) -> Handover:
    dim = walk.starts.shape[1]
    if hasattr(walk.metric, "factor"):
        factor = np.asarray(walk.metric.factor)
        inverse_mass = factor @ factor.T
    else:
        inverse_mass = np.asarray(walk.metric.scale) ** 2 * np.ones(dim)
    return Handover(walk.snapshots[-1].positions, inverse_mass, float(np.exp(walk.chains.log_step)))


def _checked_settings(settings: Any) -> Settings:
    if settings is None:
        return Settings()
    if not isinstance(settings, Settings):
        raise InputError(f"settings must be a taddaa.Settings, got {type(settings).__name__}")
    return replace(settings)


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    return int(seed)
