"""PyMC: an approximation from `pm.fit`, or a Laplace or Pathfinder result of pymc-extras → (Target, approximation)."""

import warnings
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, require
from ..problem.approximation import Approximation, Draws, Gaussian, Sampler
from ..problem.origin import Origin
from ..problem.target import Target, first_line
from .layout import Layout, said
from .posterior import posterior_of, stacked
from .pymc_data import data_line, notes_on_data, refuse_stored_difference
from .pymc_host import HostModel

LARGE = 1000  # numbers in an array of data, from which on it is an argument of the compiled program and no constant in it


def from_pymc(approx, model=None) -> tuple[Target, Approximation]:
    """A PyMC fit, as `taddaa.diagnose` takes it.

    Chains run on PyMC's unconstrained scale (`tau_log__`). Rows, moved draws and `of=` functions see the model's own variables
    and deterministics (`tau`, `theta[A]` where the model has coords): ``Mean(of=lambda p: p["theta"][0] - p["theta"][1])``.

    Args:
        approx: what `pm.fit` returned (ADVI or full-rank ADVI give closed forms; SVGD's particles are taken once each, with a
            warning), what `pymc_extras.fit_laplace` or `fit_pathfinder` returned, or draws in an ArviZ DataTree or InferenceData.
        model: the PyMC model; needed for the results of pymc-extras outside a ``with model:`` block.
    """
    pymc = require("pymc", "pymc")
    meant, model = model is not None, _model_of(pymc, approx, model)
    refuse_stored_difference(model, approx)
    with jax.enable_x64(True):
        study = _Model(model)
        target = study.target()
        approximation = _approximation(study, approx)
        notes: tuple[str, ...] = () if study.host is None else (study.host.note,)
        notes += notes_on_data(model, approx, target, approximation, meant) if getattr(approx, "model", model) is model else ()
        derived = tuple(variable.name for variable in model.deterministics)
        return replace(target, origin=Origin(f"pymc {pymc.__version__}", data_line(model), notes, derived)), approximation


def read(model, fit, data=None) -> tuple[Target, Approximation]:
    """As `taddaa.diagnose(approx)` and `taddaa.diagnose(model, fit)` find them; a Bambi model holds a PyMC model."""
    if data is not None:
        raise InputError("data is held by a PyMC model itself; set it with pm.set_data, and leave data= out")
    if fit is None:
        if hasattr(model, "value_vars") or hasattr(model, "backend"):
            raise InputError("approximation is missing beside the model: diagnose(model, fit), or diagnose(approx) of what pm.fit gave")
        return from_pymc(model)
    if hasattr(model, "backend"):
        if model.backend is None:
            raise InputError("model is a Bambi model that has not been built; fit it first, or call model.build()")
        model = model.backend.model
    return from_pymc(fit, model=model)


def _model_of(pymc, approx, model):
    if model is None:
        model = getattr(approx, "model", None)
    if model is None:
        try:
            model = pymc.modelcontext(None)
        except TypeError:
            raise InputError("model is needed, because this result does not hold it: from_pymc(result, model=model)") from None
    if not isinstance(model, pymc.Model):
        raise InputError(f"model must be a pymc.Model, got {type(model).__name__}")
    return model


class _Model:
    """A PyMC model's value variables in its own order, and its graphs as JAX functions."""

    def __init__(self, model):
        self.model = model
        self.values = list(model.value_vars)
        self._refuse()
        point = model.initial_point(random_seed=0)
        self.layout = Layout({value.name: np.shape(point[value.name]) for value in self.values})
        self.shown = [variable.name for variable in model.unobserved_RVs]  # free variables, then deterministics
        by_name = {variable.name: variable for variable in model.unobserved_value_vars}
        graphs = [[model.logp()], [by_name[name] for name in self.shown]]
        self.host: HostModel | None = None
        try:
            self.data, (self._logp, self._constrain) = self._compiled(graphs)
            point = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in self.layout.shapes.values()]
            for function in (self._logp, self._constrain):
                jax.eval_shape(function, *point, *(self.data or ()))
        except Exception as error:
            self.data = None
            self.host = self._on_host(graphs[1], error)

    def _on_host(self, shown, error: Exception) -> HostModel:
        try:
            return HostModel(self.model, self.layout, shown, error)
        except Exception as other:
            raise InputError(
                f"model can be turned neither into a JAX function ({first_line(error)}) nor into one with gradients on the host "
                f"({first_line(other)})"
            ) from other

    def _compiled(self, graphs) -> tuple[list[np.ndarray] | None, list[Any]]:
        """Large data and the graphs as functions of the values and of it."""
        arrays, replaced = _large_data([output for graph in graphs for output in graph])
        if arrays:
            from pytensor.graph.replace import clone_replace

            inputs = [*self.values, *replaced.values()]
            try:
                functions = [jaxified(inputs, clone_replace(graph, replace=replaced, rebuild_strict=False)) for graph in graphs]
                point = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in self.layout.shapes.values()]
                for function in functions:
                    jax.eval_shape(function, *point, *arrays)
                return arrays, functions
            except Exception:  # where the graph needs the data's values (an index, a length), they stay constants
                pass
        return None, [jaxified(self.values, graph) for graph in graphs]

    def _refuse(self) -> None:
        from pytensor.tensor.random.type import RandomType

        if not self.values:
            raise InputError("model has no free variables, so there is no posterior to judge; is everything observed?")
        discrete = [value.name for value in self.model.discrete_value_vars]
        if discrete:
            raise InputError(
                f"model's free variable {discrete[0]!r} is discrete; gradients need a model in which it is summed out, for example with "
                "pm.Mixture or pymc_extras.marginalize"
            )
        if any(isinstance(variable.type, RandomType) for variable in _ancestors(self.model.logp())):
            raise InputError(
                "model's log density is drawn at random (pm.Minibatch), so it is not one function; "
                "build the model on all of its data for the diagnosis and pass it as model="
            )

    def logdensity(self, x, data):
        return self._logp(*self.layout.unflatten(x).values(), *data)[0]

    def constrain(self, x, data) -> dict[str, Any]:
        return dict(zip(self.shown, self._constrain(*self.layout.unflatten(x).values(), *data), strict=True))

    def target(self) -> Target:
        """Rows are `theta[A]` where the model has coords, else `theta[0]`."""
        dims = {name: list(self.model.named_vars_to_dims.get(name) or ()) for name in self.shown}
        coords = {dim: ticks for dim, ticks in self.model.coords.items() if ticks is not None}
        if self.host is not None:
            return Target(self.host.logdensity, self.layout.dim, constrain=self.host.constrain, dims=dims, coords=coords)
        if self.data is None:
            constrain = lambda x: self.constrain(x, ())  # noqa: E731
            return Target(lambda x: self.logdensity(x, ()), self.layout.dim, constrain=constrain, dims=dims, coords=coords)
        return Target(self.logdensity, self.layout.dim, data=self.data, constrain=self.constrain, dims=dims, coords=coords)

    def unconstrain(self, posterior) -> np.ndarray:
        """Draws of the free variables (arrays with one leading axis) as flat vectors."""
        from pytensor.graph.replace import clone_replace

        free = self.model.free_RVs
        missing = [variable.name for variable in free if variable.name not in posterior]
        if missing:
            raise InputError(f"approx has draws of other variables than the model: it lacks {said(missing)}; pass the fitted model")
        inputs = {variable: variable.type(f"{variable.name}_draw") for variable in free}
        outputs = []
        for variable, value in zip(free, self.values, strict=True):
            transform = self.model.rvs_to_transforms[variable]
            forward = variable if transform is None else transform.forward(variable, *variable.owner.inputs)
            outputs.append(forward.astype(value.dtype))
        graph = clone_replace(outputs, replace=inputs, rebuild_strict=False)
        columns = [np.asarray(posterior[variable.name], float) for variable in free]
        if self.host is not None:
            from pytensor import function

            compiled = function(list(inputs.values()), graph)
            rows = [compiled(*(column[i].astype(v.dtype) for column, v in zip(columns, free, strict=True))) for i in range(len(columns[0]))]
            parts = tuple(np.stack([np.asarray(row[k]) for row in rows]) for k in range(len(outputs)))
        else:
            forward = jaxified(list(inputs.values()), graph)
            parts = jax.vmap(lambda *draw: tuple(forward(*draw)))(*map(jnp.asarray, columns))
        return np.asarray(self.layout.flatten(dict(zip(self.layout.shapes, parts, strict=True)), leading=1))


def jaxified(inputs, outputs):
    from pymc.sampling.jax import get_jaxified_graph

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_jaxified_graph(inputs=inputs, outputs=outputs)


def _ancestors(*variables):
    try:
        from pytensor.graph.traversal import ancestors
    except ImportError:
        from pytensor.graph.basic import ancestors  # type: ignore[no-redef]
    return ancestors(variables)


def _large_data(outputs) -> tuple[list[np.ndarray], dict[Any, Any]]:
    """The large constants and shared variables below `outputs`, and what stands for each of them in the program."""
    from pytensor.compile import SharedVariable
    from pytensor.tensor import TensorConstant, TensorType

    arrays, replaced = [], {}
    for variable in _ancestors(*outputs):
        if variable in replaced or not isinstance(variable.type, TensorType):
            continue
        if isinstance(variable, TensorConstant):
            array = np.asarray(variable.data)
        elif isinstance(variable, SharedVariable):
            array = np.asarray(variable.get_value(borrow=True))
        else:
            continue
        if array.size >= LARGE:
            arrays.append(array)
            replaced[variable] = TensorType(array.dtype, shape=array.shape)(f"data_{len(arrays)}")
    return arrays, replaced


def _approximation(study: _Model, approx) -> Approximation:
    if getattr(approx, "fit", None) is not None and "mean_vector" in _variables(approx.fit):
        return _from_laplace(study, approx.fit)
    posterior = posterior_of(approx)
    if posterior is not None:
        return _from_posterior(study, stacked(posterior))
    if not hasattr(approx, "groups") or not hasattr(approx, "sample_dict_fn"):
        raise InputError(
            f"approx must be what pm.fit, pymc_extras.fit_laplace or pymc_extras.fit_pathfinder returned, got {type(approx).__name__}"
        )
    kinds = [type(group).__name__ for group in approx.groups]
    order = _order(study, approx.groups[0]) if len(kinds) == 1 else None
    if order is not None and kinds == ["MeanFieldGroup"]:
        return Gaussian(approx.mean.eval()[order], approx.std.eval()[order])
    if order is not None and kinds == ["FullRankGroup"]:
        return Gaussian(approx.mean.eval()[order], covariance=approx.cov.eval()[np.ix_(order, order)])
    if order is not None and kinds == ["EmpiricalGroup"]:
        return _from_particles(np.asarray(approx.histogram.eval(), float)[:, order])

    def sample(key, count):
        seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
        parts = approx.sample_dict_fn(count, random_seed=seed)
        return study.layout.flatten({name: parts[name] for name in study.layout.shapes}, leading=1)

    return Sampler(sample, study.layout.dim)


def _order(study: _Model, group) -> np.ndarray:
    """Where each of our flat coordinates is in the group's own flat vector."""
    places = {name: np.arange(slot[1].start, slot[1].stop) for name, slot in group.ordering.items()}
    missing = [name for name in study.layout.shapes if name not in places]
    if missing:
        raise InputError(f"approx does not match the model: it has no {said(missing)}; pass the model that was fitted")
    order = np.concatenate([places[name] for name in study.layout.shapes])
    if len(order) != study.layout.dim:
        raise InputError(f"approx has {len(order)} unconstrained values and the model {study.layout.dim}; pass the model that was fitted")
    return order


def _from_particles(particles: np.ndarray) -> Draws:
    distinct = np.unique(particles, axis=0)
    warnings.warn(
        f"approx is a set of {len(distinct)} particles (SVGD, or a stored trace), not independent draws; each is passed once, and "
        "intervals that treat them as independent may be too narrow or too wide",
        UserWarning,
        stacklevel=4,
    )
    return Draws(distinct)


def _variables(group) -> list[str]:
    return list(getattr(group, "data_vars", ()))


def _from_laplace(study: _Model, fit) -> Gaussian:
    """pymc-extras orders by another rule than the model: match by name."""
    rows = [str(label) for label in np.asarray(fit["mean_vector"].coords["rows"])]
    order: list[int] = []
    for name, shape in study.layout.shapes.items():
        found = [i for i, label in enumerate(rows) if label == name or label.startswith(f"{name}[")]
        if len(found) != int(np.prod(shape)):
            raise InputError(
                f"approx does not match the model: its Laplace fit has {len(found)} values of {name!r}, the model {int(np.prod(shape))}; "
                "pass the model that was fitted"
            )
        order += found
    if "covariance_matrix" not in _variables(fit):
        raise InputError("approx has a mode but no covariance_matrix; run pymc_extras.fit_laplace, which computes it")
    covariance = np.asarray(fit["covariance_matrix"], float)[np.ix_(order, order)]
    return Gaussian(np.asarray(fit["mean_vector"], float)[order], covariance=(covariance + covariance.T) / 2)


def _from_posterior(study: _Model, draws: dict[str, np.ndarray]) -> Draws:
    flat = study.unconstrain(draws)
    if not np.all(np.isfinite(flat)):
        lost = study.layout.coordinates()[int(np.flatnonzero(~np.isfinite(flat).all(axis=0))[0])]
        raise InputError(f"approx has draws of {lost} on the edge of its support, where the unconstrained value is infinite")
    return Draws(flat)
