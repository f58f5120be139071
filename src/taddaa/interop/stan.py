"""Stan: a BridgeStan or PyStan 3 model, and draws from ADVI, Pathfinder or Laplace → (Target, approximation)."""

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, require
from ..problem.approximation import Approximation, Draws
from ..problem.origin import Origin
from ..problem.target import Target, first_line
from .callback import host_logdensity, host_values, probe
from .layout import said
from .posterior import dims_and_coords, posterior_of, stacked
from .pystan import PyStan, each

PROBE_DRAWS = 4
_INDEXED = re.compile(r"^(?P<name>.*?)(?P<index>(?:\.\d+)+)$")


def from_stan(model, draws) -> tuple[Target, Approximation]:
    """A Stan model and draws of its approximation, as `taddaa.diagnose` takes them.

    Chains run on Stan's unconstrained scale. Rows and moved draws have Stan's own names, counted from 1 (`theta[3]`), and
    include transformed parameters (not generated quantities, which may be random). An `of=` function takes a dict of arrays,
    counted from 0 as everywhere in Python: ``Mean(of=lambda p: p["theta"][0] - p["theta"][1])`` is theta[1] − theta[2].

    Args:
        model: a `bridgestan.StanModel`, or a PyStan 3 model from `stan.build`.
        draws: of the approximation, on Stan's constrained scale: a CmdStanPy result (`CmdStanVB`, `CmdStanPathfinder`,
            `CmdStanLaplace`), an ArviZ DataTree or InferenceData, a DataFrame with Stan's column names (`theta[1]` or `theta.1`;
            others are ignored), or an array whose columns are those of `model.param_names()`. Or an approximation on the
            unconstrained scale, with coordinates in the order of `model.param_unc_names()`: `taddaa.Gaussian(mean, sd)`,
            `taddaa.Draws(array)`. Stan's Pathfinder resamples its draws by importance weights, and so repeats some;
            `psis_resample=False` gives those of Pathfinder itself.
    """
    program = _opened(model)
    posterior = posterior_of(draws)
    table = draws if posterior is None else _flat_table(posterior)
    approximation = draws if isinstance(draws, Approximation) else Draws(program.unconstrained(_columns(program, table)))
    if approximation.dim != program.dim:
        raise InputError(f"draws has dimension {approximation.dim}, but the model has {program.dim} unconstrained parameters")
    sample = approximation.sample(np.random.default_rng(0), PROBE_DRAWS)
    probe(program.evaluate, sample)
    positions, names = _variables(program.shown)
    values = host_values(program.constrain, len(program.shown))

    def constrain(x):
        flat = values(x)
        return {name: flat[position] for name, position in positions.items()}

    dims, coords = ({}, {}) if posterior is None else dims_and_coords(posterior, {name: at.shape for name, at in positions.items()})
    parameters = {_spoken(name).partition("[")[0] for name in program.parameters}
    origin = Origin(program.framework, derived=tuple(name for name in positions if name not in parameters))
    target = Target(host_logdensity(program.evaluate), program.dim, names, constrain=constrain, dims=dims, coords=coords, origin=origin)
    return target, approximation


def read(model, fit, data=None) -> tuple[Target, Approximation]:
    """As `taddaa.diagnose(model, fit)` finds them: a CmdStanModel with its data goes through BridgeStan."""
    if fit is None:
        raise InputError(
            f"approximation is missing: pass the Stan model and a fit, diagnose(bridgestan_model, fit), got {type(model).__name__}"
        )
    if not hasattr(model, "stan_file"):
        if data is None:
            return from_stan(model, fit)
        raise InputError(f"data is for a CmdStanModel; a {type(model).__name__} has its data already")
    data = _data_file(fit) if data is None else data
    if data is None:
        raise InputError("data is needed beside a CmdStanModel, because its fit does not keep it: diagnose(model, fit, data=data)")
    return from_stan(require("bridgestan", "stan").StanModel(str(model.stan_file), data), fit)


def _data_file(fit) -> str | None:
    """The file that CmdStan read its data from, where it is still there (CmdStanPy removes those that it made of a dict)."""
    config = getattr(getattr(fit, "metadata", None), "cmdstan_config", {})
    path = str(config.get("data_file", ""))
    return path if path and Path(path).is_file() else None


def _opened(model) -> "_Program":
    if all(hasattr(model, name) for name in ("log_density_gradient", "param_constrain", "param_unconstrain", "param_unc_num")):
        return _Program(_BridgeStan(model))
    if all(hasattr(model, name) for name in ("program_code", "model_name", "constrained_param_names", "data")):
        return _Program(PyStan(model))
    if isinstance(model, (str, bytes)) or hasattr(model, "__fspath__"):
        require("bridgestan", "stan")
        raise InputError(f"model must be a compiled model with its data, got {str(model)[:60]!r}; pass bridgestan.StanModel(file, data)")
    hint = (
        "; a CmdStanModel cannot give log densities: pass bridgestan.StanModel(model.stan_file, data), or diagnose(model, fit, data=data)"
        if hasattr(model, "stan_file")
        else ""
    )
    raise InputError(f"model must be a bridgestan.StanModel or a PyStan 3 model, got {type(model).__name__}{hint}")


class _BridgeStan:
    """What is asked of a Stan model, from BridgeStan: names, and methods of rows."""

    def __init__(self, model):
        self._model = model
        self.dim = model.param_unc_num()
        self.parameters = model.param_names()
        self.shown = model.param_names(include_tp=True)

    def each(self, method: str, rows: np.ndarray) -> list[Any]:
        return each(self, method, rows)

    def value_and_gradient(self, row):
        return self._model.log_density_gradient(row)

    def constrain(self, row):
        return self._model.param_constrain(row, include_tp=True)

    def unconstrain(self, values):
        return self._model.param_unconstrain(values)


class _Program:
    """Any Stan model, for arrays of rows; one thread at a time, because Stan's automatic differentiation keeps one tape."""

    def __init__(self, source: Any):
        self._source, self._lock = source, threading.Lock()
        self.dim, self.parameters, self.shown = source.dim, list(source.parameters), list(source.shown)
        self.framework = "Stan through " + ("BridgeStan" if isinstance(source, _BridgeStan) else "PyStan")
        if self.dim == 0:
            raise InputError("model has no parameters, so there is no posterior to judge")

    def _each(self, method: str, rows: np.ndarray) -> list[Any]:
        with self._lock:
            return self._source.each(method, np.ascontiguousarray(rows))

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        answers = self._each("value_and_gradient", rows)
        rejected = [isinstance(answer, RuntimeError) for answer in answers]
        if all(rejected):
            raise answers[0]  # for its message at the first call; on the walk it means −inf like any other rejection
        nothing = -np.inf, np.zeros(self.dim)
        values, gradients = zip(*(nothing if bad else answer for bad, answer in zip(rejected, answers, strict=True)), strict=True)
        return np.array(values), np.stack(gradients)

    def constrain(self, rows: np.ndarray) -> np.ndarray:
        unknown = np.full(len(self.shown), np.nan)
        return np.stack([unknown if isinstance(a, RuntimeError) else a for a in self._each("constrain", rows)])

    def unconstrained(self, draws: np.ndarray) -> np.ndarray:
        digits = "write draws with more digits (sig_figs=18 in CmdStanPy)"
        answers = self._each("unconstrain", draws)
        for row, answer in enumerate(answers):
            if isinstance(answer, RuntimeError):
                raise InputError(
                    f"draws row {row} is not a value of the model's parameters: {first_line(answer)}; if only rounded, {digits}"
                )
            if not np.all(np.isfinite(answer)):
                raise InputError(f"draws row {row} is on the edge of a support, where the unconstrained value is infinite; {digits}")
        return np.stack(answers)


def _columns(program: _Program, draws) -> np.ndarray:
    """The parameters' columns of whatever holds the draws, in the model's order."""
    if hasattr(draws, "variational_sample") and hasattr(draws, "column_names"):  # CmdStanVB
        table, labels = np.asarray(draws.variational_sample), draws.column_names
    elif hasattr(draws, "draws") and hasattr(draws, "column_names"):  # CmdStanPathfinder, CmdStanLaplace, CmdStanMCMC
        table, labels = np.asarray(draws.draws()), draws.column_names
    elif hasattr(draws, "columns") and hasattr(draws, "to_numpy"):
        table, labels = draws.to_numpy(), draws.columns
    else:
        return _bare(program, draws)
    places = {_spoken(str(label)): place for place, label in enumerate(labels)}
    wanted = [_spoken(name) for name in program.parameters]
    missing = [name for name in wanted if name not in places]
    if missing:
        raise InputError(
            f"draws lacks {len(missing)} of the model's {len(wanted)} parameters: {said(missing)}; its columns are {said(labels)}"
        )
    table = table.reshape(-1, table.shape[-1])[:, [places[name] for name in wanted]]
    return _checked(table.astype(float), wanted)


def _flat_table(posterior):
    """A DataFrame with Stan's names, counted from 1, of arrays that are counted from 0."""
    import pandas

    columns = {}
    for name, values in stacked(posterior).items():
        for index in np.ndindex(*values.shape[1:]):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            columns[label] = values[(slice(None), *index)]
    return pandas.DataFrame(columns)


def _bare(program: _Program, draws) -> np.ndarray:
    try:
        table = np.asarray(draws, float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"draws must be a CmdStanPy result, a DataFrame, an array or an approximation, got {type(draws).__name__}"
        ) from error
    wanted = [_spoken(name) for name in program.parameters]
    if table.ndim != 2 or table.shape[1] != len(wanted):
        hint = "; unconstrained draws go in as taddaa.Draws(array)" if table.ndim == 2 and table.shape[1] == program.dim else ""
        raise InputError(
            f"draws must have shape (draws, {len(wanted)}), one column for each of {said(wanted)}, got shape {table.shape}{hint}"
        )
    return _checked(table, wanted)


def _checked(table: np.ndarray, names: list[str]) -> np.ndarray:
    if not np.all(np.isfinite(table)):
        column = int(np.flatnonzero(~np.isfinite(table).all(axis=0))[0])
        raise InputError(f"draws must be finite, got NaN or infinity in column {names[column]!r}")
    # Entries that the constraint fixes (ones on a correlation's diagonal) may be constant; a whole variable may not.
    variables: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        variables.setdefault(name.partition("[")[0], []).append(column)
    for name, columns in variables.items():
        if len(table) > 1 and np.all(np.ptp(table[:, columns], axis=0) == 0):
            raise InputError(
                f"draws must vary, but {name!r} has the same value in every row; a singular or unfinished fit gives such draws"
            )
    return table


def _spoken(name: str) -> str:
    """Stan's internal `theta.1.2` as users write it: `theta[1,2]`."""
    match = _INDEXED.match(name)
    return f"{match['name']}[{match['index'][1:].replace('.', ',')}]" if match else name.replace(" ", "")


def _variables(flat_names: list[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """For each variable the places of its elements in the flat vector, and all labels in the order of those arrays.

    Stan writes arrays first index fastest; reading each name's own index needs no such rule.
    """
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for place, flat_name in enumerate(flat_names):
        match = _INDEXED.match(flat_name)
        name, index = (match["name"], tuple(int(i) - 1 for i in match["index"][1:].split("."))) if match else (flat_name, ())
        places.setdefault(name, {})[index] = place
    positions, labels = {}, []
    for name, found in places.items():
        shape = tuple(max(index[axis] for index in found) + 1 for axis in range(len(next(iter(found)))))
        position = np.zeros(shape, int)
        for index, place in found.items():
            position[index] = place
        positions[name] = position
        labels += [f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name for index in np.ndindex(*shape)]
    return positions, labels
