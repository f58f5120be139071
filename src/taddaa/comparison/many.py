"""One model, many data sets or many fits of equal shapes: one compiled program, and one table of what to refit."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..chains.machine.placement import program_text
from ..diagnosis import diagnose
from ..errors import InputError, kindly, whole_seed
from ..problem.approximation import Approximation, Draws, as_approximation
from ..problem.functional import Functional, as_functionals
from ..problem.target import Target, as_target
from ..report.report import Report
from ..settings import Settings, as_settings
from ..verdict.outcome import ERROR, UNTRUSTED
from ..version import own_version

FAILED = "failed"
COLUMNS = ("name", "verdict", "worst", "relative_bound", "errors", "untrusted", "quantities", "seconds", "reason")


@partial(kindly, elsewhere=("settings=taddaa.Settings(…)", Settings))
def diagnose_many(
    target: Target | Callable,
    approximations: Mapping[str, Approximation | Any] | Sequence[Approximation | Any],
    datas: Mapping[str, Any] | Sequence[Any] | None = None,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    var_names: str | Sequence[str] | None = None,
    folder: str | PathLike | None = None,
    share: tuple[int, int] = (0, 1),
    progress: Callable[[int, int], None] | None = None,
) -> "Many":
    """Diagnose many fits of one model. Each report is what `diagnose` gives for its data and fit; programs are compiled once.

    A fit that cannot be diagnosed does not stop the others: its verdict is *failed*, with the reason.

    Args:
        target: a `Target`, or a log density function; with `datas`, its data stands for the shapes of all.
        approximations: a fit for each name, or a list of them (named 0, 1, …).
        datas: the data of each, by the same names or in the same order; None if only the fits differ.
        functionals, settings, seed, var_names: as in `diagnose`; the same for all.
        folder: where reports are kept as JSON, one file each. The same call finds them again and makes only what is missing; other
            inputs have other files.
        share: (k, n) makes only every n-th fit, beginning with the k-th: n processes with k = 0 … n − 1 and one folder share the
            work, and a last call without `share` reads the table.
        progress: called with (fits done, fits in this share) after each.
    """
    fits, every = _by_name("approximations", approximations), None if datas is None else _by_name("datas", datas)
    _refuse(fits, every, share, folder)
    settings, seed = as_settings(settings), whole_seed(seed)
    first = as_approximation(next(iter(fits.values())))
    base = as_target(target, first.dim)
    if every is not None and base.data is None:
        base = replace(base, data=next(iter(every.values())))
    asked = as_functionals(functionals, var_names)
    store = None if folder is None else _Store(Path(folder), base, asked, settings, seed)
    mine = list(fits)[share[0] :: share[1]]
    reports: dict[str, Report] = {}
    failures: dict[str, str] = {}
    for name in fits:
        if name in mine:
            found = _one(base, fits[name], None if every is None else every[name], asked, settings, seed, store, name)
            if isinstance(found, str):
                failures[name] = found
            else:
                reports[name] = found
            if progress is not None:
                progress(mine.index(name) + 1, len(mine))
        elif store is not None:  # perhaps another process has it
            theirs = _stored(base, fits[name], None if every is None else every[name], store, name)
            reports.update({} if theirs is None else {name: theirs})
    return Many({name: reports[name] for name in fits if name in reports}, failures, tuple(fits))


@dataclass(frozen=True, eq=False)
class Many:
    """The result of `taddaa.diagnose_many`: `to_dataframe()` is one row a fit, `refit` the names to refit, worst first."""

    reports: dict[str, Report]
    failures: dict[str, str]
    names: tuple[str, ...]

    @property
    def refit(self) -> list[str]:
        """Fits in which errors were found, the largest first, and then those that could not be diagnosed."""
        wrong = {name: report for name, report in self.reports.items() if report.verdict == ERROR}
        return [*sorted(wrong, key=lambda name: -_worst(wrong[name]).relative_bound), *self.failures]

    @property
    def missing(self) -> list[str]:
        """Fits that other processes have still to make."""
        return [name for name in self.names if name not in self.reports and name not in self.failures]

    def to_dataframe(self):
        """One row a fit, in the order given: verdict, worst quantity and its bound, counts, seconds, and why if it failed."""
        import pandas

        return pandas.DataFrame([self._row(name) for name in self.names if name not in self.missing], columns=list(COLUMNS))

    def _row(self, name: str) -> tuple:
        if name in self.failures:
            return (name, FAILED, "", np.nan, 0, 0, 0, 0.0, self.failures[name])
        report = self.reports[name]
        verdicts, worst, cost = [row.verdict for row in report.rows], _worst(report), report.cost
        seconds = cost.seconds_compiling + cost.seconds_running
        counts = (verdicts.count(ERROR), verdicts.count(UNTRUSTED), len(verdicts))
        return (name, report.verdict, f"{worst.functional} of {worst.parameter}", worst.relative_bound, *counts, seconds, "")

    def __str__(self) -> str:
        frame = self.to_dataframe()
        counts = ", ".join(f"{count} {verdict}" for verdict, count in frame["verdict"].value_counts().items())
        waiting = f", {len(self.missing)} still to be made" if self.missing else ""
        told = ", ".join(self.refit[:10]) + f" and {len(self.refit) - 10} more" * (len(self.refit) > 10)
        return f"{len(self.names)} fits: {counts}{waiting}." + (f" Refit {told}." if self.refit else "")

    __repr__ = __str__


def _worst(report: Report):
    return report.worst(1)[0]


def _by_name(what: str, given) -> dict[str, Any]:
    if isinstance(given, Mapping):
        found = {str(name): value for name, value in given.items()}
    elif isinstance(given, (list, tuple)):
        found = {str(i): value for i, value in enumerate(given)}
    else:
        raise InputError(f"{what} must be a dict by name or a list, got {type(given).__name__}")
    if not found:
        raise InputError(f"{what} must hold at least one, got none")
    return found


def _refuse(fits, every, share, folder) -> None:
    if every is not None and list(every) != list(fits):
        odd = next(iter({*every} ^ {*fits}), None)
        only = "theirs is another" if odd is None else f"{odd!r} is in one of them only"
        raise InputError(f"datas must have the names of approximations in their order; {only}")
    try:
        k, n = share
        fits_in = 0 <= k < n and int(k) == k and int(n) == n
    except (TypeError, ValueError):
        fits_in = False
    if not fits_in:
        raise InputError(f"share must be (k, n) with 0 ≤ k < n, got {share!r}")
    if n > 1 and folder is None:
        raise InputError("share needs a folder, in which the processes' reports come together")


def _one(base: Target, fit, data, asked, settings, seed, store: "_Store | None", name: str) -> Report | str:
    """A report, found or made; or why there is none."""
    try:
        q = as_approximation(fit)
        target = base if data is None else base.with_data(data)
        path = None if store is None else store.path(name, q, target.data)
        if path is not None and path.is_file():
            return Report.from_json(path)
        report = diagnose(target, q, asked, settings, seed)
        if path is not None:
            report.to_json(path)
        return report
    except InputError as error:
        return str(error)


def _stored(base: Target, fit, data, store: "_Store", name: str) -> Report | None:
    try:
        path = store.path(name, as_approximation(fit), base.data if data is None else data)
        return Report.from_json(path) if path.is_file() else None
    except InputError:
        return None


class _Store:
    """Reports in a folder, each under its name and a digest of all that it was made from."""

    def __init__(self, folder: Path, target: Target, asked, settings: Settings, seed: int):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"folder {folder} cannot be made: {error.strerror}") from error
        self._folder = folder
        point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), target.data)
        chosen = [f"{field.name}={getattr(settings, field.name)!r}" for field in fields(settings)]
        functions = [f"{each.label} {each.names} {each.name} {getattr(each.function, '__qualname__', '')}" for each in asked]
        texts = [program_text(target.logdensity, *((point,) if target.data is None else (point, shapes)))]
        texts.append(program_text(target.parameters, point, shapes))
        words = "\n".join([own_version(), str(seed), *target.labels, *chosen, *functions])
        self._same = b"\n".join([re.sub(r" at 0x[0-9a-f]+", "", words).encode(), *texts])

    def path(self, name: str, q: Approximation, data: Any) -> Path:
        digest = hashlib.sha256(self._same)
        for array in _shown(q):
            digest.update(b"None" if array is None else np.ascontiguousarray(array, float).tobytes())
        for leaf in jax.tree.leaves(data):
            digest.update(str((jnp.shape(leaf), jnp.result_type(leaf))).encode() + np.ascontiguousarray(leaf).tobytes())
        return self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:80]}-{digest.hexdigest()[:16]}.json"


def _shown(q: Approximation) -> Iterator[np.ndarray | None]:
    """What an approximation shows of itself."""
    yield q.draws if isinstance(q, Draws) else np.asarray(q.sample(np.random.default_rng(0), 100), float)
    yield q.mean()
    yield q.covariance()
