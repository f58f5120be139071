"""Posterior draws from a run that can be trusted: its chains go on, frozen, and come back on the user's scale."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..chains.frozen import Frozen, some
from ..chains.machine.placement import computing
from ..chains.pairs import STATES
from ..chains.walk import Progress
from ..errors import InputError, require
from ..verdict.outcome import UNTRUSTED
from .datatree import dims_and_coords, gather

if TYPE_CHECKING:
    from .report import Report

EACH = 100  # draws of a chain: many short ones would look apart to R-hat
LEAST_CHAINS, LEAST_DRAWS, MOST_DRAWS = 4, 40, 10**7


class Summary(NamedTuple):
    """Of draws (C, n, k) of independent chains, one entry a parameter."""

    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray  # the spread of the chains' own means, over √C
    ess: np.ndarray
    r_hat: np.ndarray


def repaired(report: "Report", draws: int, progress: Callable[[Progress], None] | None = None) -> Any:
    """Draws of the posterior as an ArviZ DataTree; see `Report.repair`."""
    arviz_base = require("arviz_base", "arviz")
    _refuse(report, draws)
    there = report.continuation
    assert there is not None
    lag = None if report.certificate is None else report.certificate.lag
    begun, spent = time.perf_counter(), there.walk.engine.meter.gradients
    with computing(there.settings.precision, there.walk.starts.size):
        positions = _gone_on(there.walk, there.seed, draws, lag, progress)
        count, each, dim = positions.shape
        values = there.walk.engine.viewer.observe(positions.reshape(-1, dim), ())[:, : len(report.labels)]
    parts = gather(report.labels, values, report.axes)
    dims, coords = dims_and_coords(parts)
    arrays = {name: part.values.reshape(count, each, *part.values.shape[2:]) for name, part in parts.items()}
    about = {
        "gradients": there.walk.engine.meter.gradients - spent,
        "gradients_in_all": there.walk.engine.meter.gradients,
        "seconds": time.perf_counter() - begun,
        "certificate": "" if report.certificate is None else report.certificate.sentence,
        "headline": report.headline,
    }
    groups = {"posterior": arrays}
    tree = arviz_base.from_dict(groups, dims=dims, coords=coords, sample_dims=("chain", "draw"), attrs={"posterior": about})
    tree["summary"] = _summary(report, summarised(values.reshape(count, each, -1)))
    tree.attrs.update({"inference_library": "taddaa", "versions": report.provenance.versions, "seed": report.provenance.seed})
    return tree


def _refuse(report: "Report", draws: int) -> None:
    """Say why there are no draws, where there can be none."""
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or not LEAST_DRAWS <= draws <= MOST_DRAWS:
        raise InputError(f"draws must be a whole number from {LEAST_DRAWS} to {MOST_DRAWS:.0e}, got {draws!r}")
    if report.continuation is None:
        raise InputError("repair needs the process that made the report, where its chains are; diagnose there and repair at once")
    certificate = report.certificate
    if certificate is not None and not certificate.holds:
        raise InputError(f"repair cannot give posterior draws: {certificate.sentence[0].lower()}{certificate.sentence[1:]}")
    if certificate is None and len(report.checks) == 1:
        raise InputError("repair needs more than the paper's one check: use Settings() or certify=True")
    doubtful = [row for row in report.rows if row.verdict == UNTRUSTED]
    if doubtful:
        remedy = "" if certificate is not None else "; certify=True may tell more than the checks do"
        raise InputError(
            f"repair cannot give posterior draws while {len(doubtful)} of {len(report.rows)} quantities are untrusted "
            f"({doubtful[0].functional} of {doubtful[0].parameter}: {doubtful[0].reason}){remedy}"
        )


def _gone_on(walk, seed: int, draws: int, lag: int | None, progress: Callable[[Progress], None] | None) -> np.ndarray:
    """(chains, draws of each, d) in the user's flat space: as far ahead as pairs went before they were used, then with equal spacing."""

    def tell(acceptance: float) -> None:
        if progress is not None:
            progress(Progress("repair", len(states), each, acceptance, np.nan))

    states: list[np.ndarray] = []
    each = EACH
    frozen = Frozen([walk], seed, 8, tell)
    there = len(frozen.points.position)
    count = int(np.clip(draws // EACH, LEAST_CHAINS, there))
    each = -(-draws // count)
    chosen = np.random.default_rng([seed, 9]).permutation(there)[:count]
    points = frozen.alone(some(frozen.points, chosen), frozen.spacing * STATES if lag is None else lag)
    for _ in range(each):
        points = frozen.alone(points, frozen.spacing)
        states.append(frozen.places(points.position))
    return np.stack(states, axis=1)


def summarised(draws: np.ndarray) -> Summary:
    """Means with Monte Carlo standard errors from the spread between chains, effective draws, and R-hat."""
    chains, each, _ = draws.shape
    means = draws.mean(axis=1)
    within, between = draws.var(axis=1, ddof=1).mean(axis=0), means.var(axis=0, ddof=1)
    variance = within * (each - 1) / each + between
    mcse = np.sqrt(between / chains)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Summary(means.mean(axis=0), np.sqrt(variance), mcse, variance / mcse**2, np.sqrt(variance / within))


def _summary(report: "Report", summary: Summary):
    import xarray

    return xarray.Dataset({name: ("parameter", values) for name, values in summary._asdict().items()}, {"parameter": list(report.labels)})
