"""What is being approximated: a log density on R^d, with the user's names and scale."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, whole_dimension
from .axes import Axes, axes_of
from .constants import TRACED, afresh, with_own_constants
from .origin import Origin

MOST_PROGRAMS = 16  # kept by a Target


@dataclass(frozen=True, eq=False)
class Target:
    """A log density, known up to a constant, of a flat vector.

    Args:
        logdensity: a JAX function ``x -> scalar``, or ``(x, data) -> scalar`` when `data` is given.
        dim: the length d of the flat vector x.
        names: one label for each parameter (each entry of `constrain`'s vector, if there is one).
        data: any pytree of arrays; passed to the compiled program as an argument, never baked into it.
        constrain: ``x -> parameters`` on the user's scale: a vector, or a dict of arrays whose keys give the names.
            It may take ``(x, data)``. Chains run on x; rows, moved draws and `of=` functions see its result.
        dims, coords: names of the axes of `constrain`'s arrays and labels along them, as in ArviZ: ``dims={"b": ["coef"]}``,
            ``coords={"coef": ["x1", "x2"]}``. Rows are named by them, `b[x1]`, and `report.to_datatree()` has them.
        origin: what an adapter knows about the model, for the report's provenance and notes.
    """

    logdensity: Callable[..., Any]
    dim: int
    names: Sequence[str] | None = None
    data: Any = None
    constrain: Callable[..., Any] | None = None
    dims: Mapping[str, Sequence[str | None]] | None = None
    coords: Mapping[str, Any] | None = None
    origin: Origin | None = None

    def __repr__(self) -> str:
        """Its function, dimension and the first of its names; no addresses."""
        names = "" if not self.names else ": " + ", ".join(self.names[:4]) + ", …" * (len(self.names) > 4)
        return f"<Target {getattr(self.logdensity, '__name__', type(self.logdensity).__name__)} of dimension {self.dim}{names}>"

    def __post_init__(self):
        object.__setattr__(self, "_programs", {})
        if not callable(self.logdensity):
            raise InputError(f"logdensity must be a function of a flat vector, got {type(self.logdensity).__name__}: {self.logdensity!r}")
        whole_dimension(self.dim)
        if self.constrain is not None and not callable(self.constrain):
            raise InputError(f"constrain must be a function of a flat vector, got {type(self.constrain).__name__}: {self.constrain!r}")
        if self.names is not None:
            if isinstance(self.names, str):
                raise InputError(f"names must be a list of labels, got the single string {self.names!r}")
            if not isinstance(self.names, Iterable) or getattr(self.names, "ndim", 1) != 1:
                raise InputError(f"names must be a list of labels, got {type(self.names).__name__}: {self.names!r}")
            names = tuple(str(name) for name in self.names)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(f"names must differ from each other, got {twice!r} more than once")
            if self.constrain is None and len(names) != self.dim:
                raise InputError(f"names must hold dim = {self.dim} labels, got {len(names)}")
            object.__setattr__(self, "names", names)
        bad = [
            jax.tree_util.keystr(path)
            for path, leaf in jax.tree_util.tree_leaves_with_path(self.data)
            if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, float, int, bool))
        ]
        if bad:
            raise InputError(f"data must hold only arrays and numbers, got something else at data{bad[0]}")
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.data):
            if np.ma.is_masked(leaf):
                raise InputError(
                    f"data{jax.tree_util.keystr(path)} is a masked array, whose mask would be lost; fill or drop what is masked"
                )

    def parameters(self, x, data):
        """The user's view of a flat vector: `constrain(x)`, or x itself."""
        return x if self.constrain is None else call_with_data(self.constrain, x, data)

    def compiled(self, what: Any, make: Callable[[], Any]) -> Any:
        """A compiled program of this target, made once: what a Target closes over must not change while it is used.

        Another Target of the same function starts afresh. Functions are told apart by identity, and the oldest programs
        are dropped.
        """
        programs: dict = self.__dict__["_programs"]
        parts = what if isinstance(what, tuple) else (what,)
        key = (*(id(part) if callable(part) else part for part in parts), jnp.result_type(float))
        if key not in programs:
            while len(programs) >= MOST_PROGRAMS:
                programs.pop(next(iter(programs)))
            programs[key] = (make(), what)  # keeping `what` alive keeps its identity its own
        return programs[key][0]

    def with_data(self, data: Any) -> "Target":
        """The same model of other data of the same shapes; it has the same compiled programs."""
        kinds = [jax.tree.map(lambda leaf: (jnp.shape(leaf), str(jnp.result_type(leaf))), each) for each in (self.data, data)]
        if kinds[0] != kinds[1]:
            raise InputError(f"data must have the shapes of the target's own, {kinds[0]}, got {kinds[1]}")
        other = replace(self, data=data)
        known = ("_programs", "shapes", "axes", "labels")
        other.__dict__.update({name: self.__dict__[name] for name in known if name in self.__dict__})
        return other

    @cached_property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The names and shapes of the user's arrays; a nameless vector where there is no `constrain`."""
        if self.constrain is None:
            return (("", (self.dim,)),)
        point = jax.ShapeDtypeStruct((self.dim,), jnp.result_type(float))
        found: list[tuple[str, tuple[int, ...]]] = []

        def read_names(x, data):
            for name, leaf in named_leaves(self.parameters(x, data)):
                if jnp.iscomplexobj(leaf):
                    raise TypeError(f"{name or 'its result'} is complex, and parameters must be real")
                found.append((name, jnp.shape(leaf)))

        try:
            jax.eval_shape(read_names, point, self.data)
        except (Exception, SystemExit) as error:
            raise InputError(f"constrain failed on a vector of length {self.dim}: {first_line(error)}") from error
        return tuple(found)

    @cached_property
    def axes(self) -> Axes:
        """Named axes of the user's arrays."""
        return axes_of({name or "x": shape for name, shape in self.shapes}, self.dims or {}, self.coords or {})

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each of the user's parameters."""
        labels = [label for name, shape in self.shapes for label in indexed(name, shape, self.axes.ticks(name or "x"))]
        if not labels:
            raise InputError("constrain must return at least one parameter, got none")
        if self.names is None:
            if len(set(labels)) < len(labels):
                twice = next(label for label in labels if labels.count(label) > 1)
                raise InputError(f"constrain's parameters must have names of their own, got {twice!r} more than once")
            return tuple(labels)
        if len(self.names) != len(labels):
            raise InputError(f"names must hold one label for each of constrain's {len(labels)} values, got {len(self.names)}")
        return tuple(self.names)

    def check(self) -> int:
        """Trace the log density once for data of these shapes, without running it, and refuse what cannot work.

        Returned is how many numbers are in the largest array that it makes of a vector.
        """
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self.data)):
            raise InputError(f"logdensity or data uses {TRACED}")
        shapes = [(jnp.shape(leaf), str(jnp.result_type(leaf))) for leaf in jax.tree.leaves(self.data)]
        return self.compiled(("checked", str(shapes)), self._check)

    @property
    def density(self) -> Any:
        """The log density (x, data), in the precision of x.

        JAX keeps trace and derivatives of what is jitted: the user's function is called once for the check and all programs.
        """
        return self.compiled("density", lambda: _density(self.logdensity, self.data is not None))

    def _check(self) -> int:
        point, data = jax.ShapeDtypeStruct((self.dim,), jnp.result_type(float)), jax.tree.map(_as_run, self.data)
        try:
            program = afresh(lambda: self.density.trace(point, data).jaxpr)
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            takes = "x" if self.data is None else "x, data"
            raise InputError(
                f"logdensity({takes}) failed on a vector of length {self.dim}: {first_line(error)}; "
                "it must be a JAX function (use jax.numpy inside, or taddaa.from_callback for other code)"
            ) from error
        try:
            jax.eval_shape(jax.value_and_grad(self.density), point, data)
        except (Exception, SystemExit) as error:
            raise InputError(
                f"logdensity has no gradient: {first_line(error)}; write it with functions that JAX can differentiate backwards, "
                "or use taddaa.from_callback with a gradient of your own"
            ) from error
        if self.constrain is not None and self.shapes:
            seen = with_own_constants(lambda x, data: flat_values(self.parameters(x, data)))
            afresh(lambda: jax.eval_shape(seen, point, data))
        return _largest_array(program.jaxpr, program.jaxpr.invars[:1])


def _as_run(leaf: Any) -> Any:
    """Of the user's data: its shape and its kind in a run, where all real numbers have one width: so it is traced only once."""
    if not isinstance(leaf, np.ndarray | np.generic | float) and not (isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) == 1):
        return leaf
    kind = jnp.result_type(leaf)
    return jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(float) if jnp.issubdtype(kind, jnp.floating) else kind)


def _largest_array(program: Any, variables: Sequence[Any]) -> int:
    """How many numbers are in the largest of a traced function that depends on these of its variables (in what it calls: on any)."""
    moving, largest = {id(variable) for variable in variables}, 1
    for equation in program.eqns:
        if moving.isdisjoint(id(variable) for variable in equation.invars):
            continue
        moving.update(id(variable) for variable in equation.outvars)
        called = [part for value in equation.params.values() for part in (value if isinstance(value, (tuple, list)) else (value,))]
        inner = [getattr(part, "jaxpr", part) for part in called]
        sizes = [math.prod(getattr(variable.aval, "shape", ())) for variable in equation.outvars]
        largest = max(largest, *sizes, *(_largest_array(part, part.invars) for part in inner if hasattr(part, "eqns")))
    return largest


def _density(logdensity: Callable, has_data: bool) -> Callable:
    """It must not know the target, which keeps it: data would live as long as both."""
    own = with_own_constants(lambda *arguments: _one_number(logdensity(*arguments)), "logdensity or data")

    @partial(jax.jit, inline=True)
    def density(x, data):
        return jnp.asarray(own(x, data) if has_data else own(x), x.dtype)

    return density


def _one_number(result: Any) -> Any:
    """A log density's; refused if it is something else."""
    shape = getattr(result, "shape", () if isinstance(result, (int, float, complex)) else None)
    if shape != ():
        raise InputError(
            f"logdensity must return one number, got {'shape ' + str(shape) if shape else type(result).__name__}; "
            "sum the terms, and write it for one flat vector (batching is done here)"
        )
    if not jnp.issubdtype(jnp.result_type(result), jnp.floating):
        raise InputError(f"logdensity must return a real number, got dtype {jnp.result_type(result)}")
    return result


def as_target(target, dim: int) -> Target:
    """A Target as it is; a bare function becomes one of the approximation's dimension."""
    if isinstance(target, Target):
        return target
    if callable(target):
        return Target(target, dim=dim)
    raise InputError(f"target must be a taddaa.Target or a log density function, got {type(target).__name__}")


def call_with_data(function, parameters, data):
    """function(parameters), or function(parameters, data) where there is data and it takes two arguments."""
    if data is not None and _takes_two(function):
        return function(parameters, data)
    return function(parameters)


def flat_values(parameters):
    """The user's parameters as one vector, in the order of `Target.labels`."""
    return jnp.concatenate([jnp.ravel(leaf) for _, leaf in named_leaves(parameters)])


def indexed(name: str, shape: tuple[int, ...], ticks: Sequence[Sequence[Any]] | None = None) -> list[str]:
    """`tau` for a scalar, `theta[0]`, `theta[1]`, … for an array, or `theta[A]` where its places have labels."""
    if not shape:
        return [name or "x"]
    axes = ticks or [range(size) for size in shape]
    return [f"{name or 'x'}[{','.join(str(axis[i]) for axis, i in zip(axes, index, strict=True))}]" for index in np.ndindex(*shape)]


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _takes_two(function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) >= 2


def named_leaves(parameters, prefix: str = "") -> list[tuple[str, Any]]:
    """(name, array) pairs in the user's own order (jax.tree would sort a dict's keys)."""
    if isinstance(parameters, dict):
        pairs = [(f"{prefix}.{key}" if prefix else str(key), value) for key, value in parameters.items()]
    elif isinstance(parameters, (list, tuple)):
        pairs = [(f"{prefix}[{i}]" if prefix else f"x[{i}]", value) for i, value in enumerate(parameters)]
    else:
        return [(prefix, jnp.asarray(parameters))]
    return [leaf for name, value in pairs for leaf in named_leaves(value, name)]
