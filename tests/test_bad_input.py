"""Every bad input gets one sentence that names the argument, the value and the remedy."""

import re
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa import (
    HMC,
    Approximation,
    Covariance,
    Draws,
    Gaussian,
    InputError,
    Mean,
    Quantile,
    Sampler,
    Settings,
    StudentT,
    Target,
    Variance,
    diagnose,
    k_hat,
)

RNG = np.random.default_rng(0)
GOOD = RNG.standard_normal((100, 2))
MASKED = np.ma.masked_equal(np.where(np.arange(200).reshape(100, 2) == 2, -999.0, GOOD), -999.0)
Q = Gaussian([0.0, 0.0], [1.0, 1.0])
QUICK = Settings(chains=20, iterations=4, budget=1)


def standard(x):
    return -0.5 * jnp.sum(x**2)


def refuses(message, function, *arguments, **keywords):
    with pytest.raises(InputError) as caught:
        function(*arguments, **keywords)
    assert re.search(message, str(caught.value)), str(caught.value)
    # One sentence for a person: no traceback, no arrays printed.
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


# Approximations -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (r"mean must be a vector, got shape \(1, 2\)", lambda: Gaussian([[0.0, 0.0]], [1.0, 1.0])),
        (r"mean must be a vector, got shape \(0,\)", lambda: Gaussian([], [])),
        (r"mean must be a vector, got shape \(\)", lambda: Gaussian(0.0, 1.0)),
        (r"mean must be a vector of numbers, got list", lambda: Gaussian(["a", "b"], [1.0, 1.0])),
        (r"mean must be finite, got nan at position 1", lambda: Gaussian([0.0, np.nan], [1.0, 1.0])),
        (r"sd must have length 2, got 3", lambda: Gaussian([0.0, 0.0], [1.0, 1.0, 1.0])),
        (r"sd must be finite, got inf at position 0", lambda: Gaussian([0.0, 0.0], [np.inf, 1.0])),
        (r"sd must be positive, got 0 at position 1", lambda: Gaussian([0.0, 0.0], [1.0, 0.0])),
        (r"sd must be positive, got -1 at position 0", lambda: Gaussian([0.0, 0.0], [-1.0, 1.0])),
        (r"either sd .* or covariance, got neither", lambda: Gaussian([0.0, 0.0])),
        (r"either sd .* or covariance, got both", lambda: Gaussian([0.0, 0.0], [1.0, 1.0], covariance=np.eye(2))),
        (r"covariance must have shape \(2, 2\), got \(3, 3\)", lambda: Gaussian([0.0, 0.0], covariance=np.eye(3))),
        (r"covariance must be a matrix of numbers, got str", lambda: Gaussian([0.0, 0.0], covariance="full")),
        (r"covariance must be finite", lambda: Gaussian([0.0, 0.0], covariance=[[1.0, np.nan], [np.nan, 1.0]])),
        (r"covariance must be symmetric; pass \(S \+ S\.T\) / 2", lambda: Gaussian([0.0, 0.0], covariance=[[1.0, 0.5], [0.2, 1.0]])),
        (
            r"covariance must be positive definite, its smallest eigenvalue is -1; add a small multiple of the identity",
            lambda: Gaussian([0.0, 0.0], covariance=[[1.0, 2.0], [2.0, 1.0]]),
        ),
        (r"positive definite", lambda: Gaussian([0.0, 0.0], covariance=np.ones((2, 2)) - 1e-3)),
        (r"scale must be positive, got -2 at position 1", lambda: StudentT([0.0, 0.0], [1.0, -2.0], 5.0)),
        (r"df must be positive, got 0 at position 0", lambda: StudentT([0.0, 0.0], [1.0, 2.0], 0.0)),
        (r"df must have length 2, got 3", lambda: StudentT([0.0, 0.0], [1.0, 2.0], [3.0, 3.0, 3.0])),
        (r"loc must be finite", lambda: StudentT([np.inf, 0.0], [1.0, 2.0], 5.0)),
        (r"draws must have shape \(draws, dim\), got shape \(100,\)", lambda: Draws(GOOD[:, 0])),
        (r"draws must have shape \(draws, dim\), got shape \(100, 2, 1\)", lambda: Draws(GOOD[..., None])),
        (r"draws must have shape \(draws, dim\), got shape \(100, 0\)", lambda: Draws(GOOD[:, :0])),
        (r"draws must be an array of numbers, got list", lambda: Draws([["a", "b"]] * 30)),
        (
            r"draws must be finite, got NaN or infinity in 1 of 100 rows",
            lambda: Draws(np.where(np.arange(200).reshape(100, 2) == 7, np.nan, GOOD)),
        ),
        (r"draws must hold at least 20 rows .*got 5", lambda: Draws(GOOD[:5])),
        (
            r"draws must vary, but column 1 has the one value 3 in every row",
            lambda: Draws(np.column_stack([GOOD[:, 0], np.full(100, 3.0)])),
        ),
        (r"draws must be distinct, but only 10 of 100 rows are", lambda: Draws(np.repeat(GOOD[:10], 10, axis=0))),
        (r"draws must be an array of numbers, got a masked array with 1 masked; fill or drop them", lambda: Draws(MASKED)),
        (r"mean must be a vector of numbers, got a masked array with 1 masked", lambda: Gaussian(MASKED[:, 0], np.ones(100))),
        (r"draws must be an array of real numbers, got complex128", lambda: Draws(GOOD + 1j)),
        (r"mean must be a vector of real numbers, got complex128", lambda: Gaussian([0.0, 1j], [1.0, 1.0])),
        (r"mean must be a vector of real numbers, got datetime64", lambda: Gaussian(np.array(["2020-01-01"], "M8[D]"), [1.0])),
        (r"sample must be a function \(key, count\) -> draws, got int", lambda: Sampler(3, 2)),
        (r"dim must be a whole number of at least 1, got 0", lambda: Sampler(lambda key, n: np.zeros((n, 0)), 0)),
        (r"dim must be a whole number of at least 1, got 'two'", lambda: Sampler(lambda key, n: np.zeros((n, 2)), "two")),
        (r"logdensity must be a function", lambda: Sampler(lambda key, n: np.zeros((n, 2)), 2, 3.0)),
        (r"covariance must have shape \(2, 2\) or \(2,\), got \(3,\)", lambda: Sampler(lambda key, n: GOOD[:n], 2, covariance=np.ones(3))),
        (r"covariance must be finite", lambda: Sampler(lambda key, n: GOOD[:n], 2, covariance=[1.0, np.nan])),
    ],
)
def test_approximations(message, make):
    refuses(message, make)


@pytest.mark.parametrize(
    ("message", "sample"),
    [
        (r"sample\(key, \d+\) must return shape \(\d+, 2\), got \(\d+, 3\)", lambda key, n: np.zeros((n, 3))),
        (r"sample\(key, \d+\) returned NaN or infinite values", lambda key, n: np.full((n, 2), np.nan)),
        (r"returned the same value in every row of column 0", lambda key, n: np.ones((n, 2))),
        (r"sample\(key, \d+\) failed: ZeroDivisionError", lambda key, n: 1 / 0),
        (r"sample\(key, \d+\) failed: SystemExit", lambda key, n: sys.exit(1)),
        (r"sample\(key, \d+\) must be an array of real numbers, got complex128", lambda key, n: RNG.standard_normal((n, 2)) + 1j),
        (
            r"sample\(key, \d+\) must be an array of numbers, got a masked array",
            lambda key, n: np.ma.masked_less(RNG.standard_normal((n, 2)), 0),
        ),
    ],
)
def test_samplers_that_break_when_called(message, sample):
    refuses(message, diagnose, standard, Sampler(sample, 2), settings=QUICK)


@pytest.mark.parametrize(
    ("message", "approximation"),
    [
        (r"approximation is a bare array; wrap it: taddaa\.Draws\(array\)", GOOD),
        (r"approximation must be a taddaa\.Gaussian.*got dict", {"mean": 0}),
        (r"approximation is missing, and function is not a fit that holds its model", None),
    ],
)
def test_things_that_are_no_approximation(message, approximation):
    refuses(message, diagnose, standard, approximation)


class Own(Approximation):
    """A class of the user's own, of which any part may be wrong."""

    def __init__(self, dim=2, **says):
        self.dim, self.says = dim, says

    def sample(self, rng, count):
        return self.says.get("sample", lambda rng, count: rng.standard_normal((count, 2)))(rng, count)

    def mean(self):
        return self.says.get("mean")

    def covariance(self):
        return self.says["covariance"]() if "covariance" in self.says else None


@pytest.mark.parametrize(
    ("message", "own"),
    [
        (r"sample\(rng, \d+\) of Own must return shape \(\d+, 2\), got \(3,\)", Own(sample=lambda rng, count: np.zeros(3))),
        (r"sample\(rng, \d+\) of Own failed: KeyError", Own(sample=lambda rng, count: {}["x"])),
        (
            r"sample\(rng, \d+\) of Own must be an array of real numbers",
            Own(sample=lambda rng, count: rng.standard_normal((count, 2)) * 1j),
        ),
        (r"sample\(rng, \d+\) of Own returned NaN", Own(sample=lambda rng, count: np.full((count, 2), np.nan))),
        (r"mean\(\) of Own must be None or a NumPy array of shape \(2,\), got \(3,\)", Own(mean=np.zeros(3))),
        (r"mean\(\) of Own must be None or a NumPy array of shape \(2,\), got 0\.0", Own(mean=0.0)),
        (r"covariance\(\) of Own must be .* shape \(2,\) or \(2, 2\), got \(3, 3\)", Own(covariance=lambda: np.eye(3))),
        (r"covariance\(\) of Own failed: ZeroDivisionError", Own(covariance=lambda: 1 / 0)),
        (r"dim must be a whole number of at least 1, got 'two'", Own(dim="two")),
        (r"dim must be a whole number of at least 1, got None", type("Bare", (Own,), {"__init__": lambda self: None})()),
    ],
)
def test_approximations_of_the_users_own(message, own):
    refuses(message, diagnose, standard, own, settings=QUICK)


def at(centre, scale):
    """The exact posterior, a normal one there, and the approximation that is right."""
    return (lambda x: -0.5 * jnp.sum(((x - centre) / scale) ** 2)), Gaussian([centre, centre], [scale, scale])


@pytest.mark.parametrize("centre", [1e14, 1e16, -1e40])
def test_a_spread_that_is_lost_to_rounding_is_refused(centre):
    """An exact approximation 10¹⁶ standard deviations from zero was called wrong."""
    refuses(r"coordinate 0 .*standard deviation .* around -?1e\+\d+, which float64 cannot tell from rounding", diagnose, *at(centre, 1.0))


def test_single_precision_is_lost_earlier():
    refuses(r"which float32 cannot tell from rounding", diagnose, *at(1e6, 1.0), settings=Settings(precision="float32"))


@pytest.mark.parametrize("scale", [1e-300, 1e-90, 1e90, 1e200])
def test_a_spread_whose_powers_are_lost_is_refused(scale):
    refuses(r"coordinate 0 .*standard deviation .* whose powers float64 cannot hold; scale it to about 1", diagnose, *at(0.0, scale))
    refuses(r"whose powers float64 cannot hold", diagnose, standard, Draws(GOOD * scale))


@pytest.mark.parametrize(("centre", "scale"), [(1e12, 1.0), (0.0, 1e-60), (0.0, 1e60), (1e-60, 1e-70)])
def test_what_can_be_represented_is_called_right(centre, scale):
    """No false error close to those limits."""
    report = diagnose(*at(centre, scale), seed=3)
    assert {row.verdict for row in report.rows} <= {"no error found", "within tolerance"}


# Targets -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (r"logdensity must be a function of a flat vector, got str: 'normal'", lambda: Target("normal", 2)),
        (r"dim must be a whole number of at least 1, got 0", lambda: Target(standard, 0)),
        (r"dim must be a whole number of at least 1, got 2\.0", lambda: Target(standard, 2.0)),
        (r"dim must be a whole number of at least 1, got True", lambda: Target(standard, True)),
        (r"names must hold dim = 2 labels, got 3", lambda: Target(standard, 2, names=["a", "b", "c"])),
        (r"names must differ from each other, got 'a' more than once", lambda: Target(standard, 2, names=["a", "a"])),
        (r"names must be a list of labels, got the single string 'ab'", lambda: Target(standard, 2, names="ab")),
        (r"data must hold only arrays and numbers, got something else at data\['y'\]", lambda: Target(standard, 2, data={"y": "text"})),
        (r"names must be a list of labels, got int: 5", lambda: Target(standard, 2, names=5)),
        (r"names must be a list of labels, got ndarray", lambda: Target(standard, 2, names=np.array("ab"))),
        (r"data\['y'\] is a masked array, whose mask would be lost", lambda: Target(standard, 2, data={"y": MASKED})),
        (r"constrain failed .*SystemExit", lambda: Target(standard, 2, constrain=lambda x: sys.exit()).labels),
        (
            r"constrain failed .*z is complex, and parameters must be real",
            lambda: Target(standard, 2, constrain=lambda x: {"z": x * 1j}).labels,
        ),
        (r"constrain must be a function .*got str", lambda: Target(standard, 2, constrain="exp")),
        (r"constrain failed on a vector of length 2: .*", lambda: Target(standard, 2, constrain=lambda x: x["a"]).labels),
    ],
)
def test_targets(message, make):
    refuses(message, make)


@jax.custom_jvp
def breaks_later(x):
    def host(x):
        raise OSError("too late")

    return jax.pure_callback(host, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential")


breaks_later.defjvp(lambda primals, tangents: (breaks_later(*primals), jnp.sum(tangents[0])))


def raising(x):
    raise ValueError("the data file is missing")


@pytest.mark.parametrize(
    ("message", "target"),
    [
        (r"logdensity\(x\) failed on a vector of length 2: ValueError: the data file is missing", raising),
        (r"logdensity\(x\) failed .*JAX function", lambda x: float(np.sin(x[0]))),
        (r"logdensity\(x\) failed .*SystemExit", lambda x: sys.exit(1)),
        (
            r"logdensity has no gradient: ValueError: Reverse-mode",
            lambda x: jax.lax.while_loop(lambda y: y < 5, lambda y: y + x[0] ** 2, x[0]),
        ),
        (r"a host callback of logdensity, .* failed while running: .*too late", breaks_later),
        (r"^logdensity must return one number, got shape \(2,\); sum the terms", lambda x: -0.5 * x**2),
        (r"^logdensity must return one number, got shape \(1,\)", lambda x: -0.5 * jnp.sum(x**2, keepdims=True)),
        (r"^logdensity must return one number, got tuple", lambda x: (x[0], x[1])),
        (r"^logdensity must return one number, got NoneType", lambda x: None),
        (r"^logdensity must return a real number, got dtype complex", lambda x: jnp.sum(x * 1j)),
        (r"^logdensity must return a real number, got dtype complex", lambda x: 1j),
        (r"^logdensity must return a real number, got dtype int", lambda x: 3),
        (r"logdensity\(x, data\) failed", Target(lambda x: -0.5 * jnp.sum(x**2), 2, data=np.ones(2))),
        (r"target must be a taddaa\.Target or a log density function, got float", 3.0),
        (r"target has dim = 3, but the approximation has dimension 2", Target(standard, 3)),
        (r"logdensity is not finite at any of 20 draws of the approximation .*-inf", lambda x: jnp.where(x[0] > 1e9, 0.0, -jnp.inf)),
        (r"logdensity is not finite at any of 20 draws", lambda x: jnp.sum(x) * jnp.nan),
    ],
)
def test_targets_that_cannot_be_diagnosed(message, target):
    refuses(message, diagnose, target, Q, settings=QUICK)


def total(x):
    return jnp.sum(x)


def other(x):
    return x[0] + 4.0


def broken(parameters):
    return parameters["missing"]


# Functionals, settings, seed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "functionals"),
    [
        (r"functionals must name at least one quantity, got an empty list", []),
        (r"functionals must hold taddaa\.Mean.*got str", ["mean"]),
        (r"functionals must be a list .*got int", 3),
        (r"of=broken failed on the parameters: .*JAX function", [Mean(of=broken)]),
        (r"of=log returned NaN at \d+ of \d+ (draws of the approximation|starts)", [Mean(of=lambda x: jnp.log(x[0]), name="log")]),
        (r"of=none must return at least one number", [Mean(of=lambda x: x[:0], name="none")]),
        (
            r"functionals must differ in name, got the mean of 'loss' more than once; .*name=",
            [Mean(total, name="loss"), Mean(other, name="loss")],
        ),
        (r"got the mean of 'lambda' more than once", [Mean(of=lambda x: x[0]), Mean(of=lambda x: x[1])]),
        (r"got the variance of 'x\[0\]' more than once", [Variance(), Variance(total, name="x[0]")]),
        (r"got the q0\.5 of 'x\[0\]' more than once", [Quantile(0.5), Quantile(0.5 + 1e-9)]),
        (r"got the covariance of 'x\[0\], x\[1\]' more than once", [Covariance(0, 1), Covariance("x[0]", "x[1]")]),
        (r"Covariance names the parameter 'z', which is not among x\[0\], x\[1\]", [Covariance("z", "x[0]")]),
        (r"functionals must be a list .*got ndarray", np.array(12)),
        (r"Covariance names the parameter True,", [Covariance(True, 0)]),
        (r"of=wave must return real numbers, got complex128; take jnp\.real", [Mean(of=lambda x: jnp.exp(1j * x[0]), name="wave")]),
        (r"of=end failed .*SystemExit", [Mean(of=lambda x: sys.exit(), name="end")]),
        (r"Covariance names the parameter 2, which is not among", [Covariance(0, 2)]),
        (r"Covariance\(of=…\) must return two values, got shape \(\)", [Covariance(of=lambda x: x[0])]),
    ],
)
def test_functionals(message, functionals):
    refuses(message, diagnose, standard, Q, functionals, QUICK)


@pytest.mark.parametrize("chains", [0, 1, -5])
def test_zero_or_one_chain(chains):
    refuses(rf"chains must be a whole number of at least 10 \(.*\), got {chains}", Settings, chains=chains)


@pytest.mark.parametrize("level", [0, 1, -0.1, 95])
def test_a_level_outside_its_range(level):
    refuses(rf"level must lie strictly between 0 and 1 \(0\.95 is usual\), got {level}", Settings, level=level)


@pytest.mark.parametrize(
    ("message", "keywords"),
    [
        (r"settings must be a taddaa\.Settings, got dict", {"settings": {"chains": 10}}),
        (r"seed must be a whole number of at least 0, got -1", {"seed": -1}),
        (r"seed must be a whole number of at least 0, got 0\.5", {"seed": 0.5}),
        (r"seed must be a whole number of at least 0, got None", {"seed": None}),
        (r"other_starts has dimension 3, but the approximation has 2", {"other_starts": Gaussian([0.0] * 3, [1.0] * 3), "settings": QUICK}),
    ],
)
def test_other_arguments(message, keywords):
    refuses(message, diagnose, standard, Q, **keywords)


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (r"budget must be at least 1 .* at most 1e\+09, got 1e\+308", lambda: Settings(budget=1e308)),
        (r"chains must be at most 1e\+15, .* got a larger number", lambda: Settings(chains=10**400)),
        (r"mean_tolerance must be a positive number, got 1000", lambda: Settings(mean_tolerance=10**400)),
        (r"simultaneous must be True or False, got 'no'", lambda: Settings(simultaneous="no")),
        (r"jitter must lie in \[0, 1\), got 'x'", lambda: HMC(jitter="x")),
        (r"leapfrog must be a whole number from 1 to 10\*\*6, got True", lambda: HMC(leapfrog=True)),
        (r"name must be a string, got int: 5", lambda: Mean(of=standard, name=5)),
        (r"seed must be below 2\*\*128", lambda: diagnose(standard, Q, seed=2**200)),
        (r"tolerance is too small", lambda: diagnose(standard, Q, settings=Settings(mean_tolerance=1e-200))),
        (r"tolerance is too small", lambda: diagnose(standard, Q, settings=Settings(variance_tolerance=1e-200))),
        (r"1,92\d,\d+,\d+,\d+ chains of dimension 2", lambda: diagnose(standard, Q, settings=Settings(mean_tolerance=1e-6))),
        (
            r"10,000,000,000,000 chains of dimension 2 .* about 4,000,000\.0 GB of memory, and this machine has \d+\.\d GB; ask for fewer",
            lambda: diagnose(standard, Q, settings=Settings(chains=10**13)),
        ),
        (r"for 10,000,000,000,000 iterations would need", lambda: diagnose(standard, Q, settings=Settings(iterations=10**13))),
        (
            r"1,000,000 chains of dimension 100,000 .* would need about 20,000",
            lambda: diagnose(standard, Gaussian(np.zeros(10**5), np.ones(10**5)), settings=Settings(chains=10**6)),
        ),
        (
            r"194 chains of dimension 1,000,000,000,000",
            lambda: diagnose(Target(standard, 10**12), Sampler(lambda key, n: np.zeros((n, 10**12)), 10**12)),
        ),
        (r"logdensity of the Sampler failed: ZeroDivisionError", lambda: k_hat(standard, Sampler(sampled, 2, lambda x: 1 / 0))),
        (r"logdensity of the Sampler must return shape \(\d+,\)", lambda: k_hat(standard, Sampler(sampled, 2, lambda x: np.zeros(3)))),
        (r"seed must be a whole number of at least 0, got 'x'", lambda: k_hat(standard, Q, seed="x")),
    ],
)
def test_extremes_and_wrong_kinds(message, make):
    refuses(message, make)


def sampled(key, count):
    return np.asarray(jax.random.normal(key, (count, 2)))


def test_tolerances_that_are_wide_still_get_enough_chains():
    report = diagnose(standard, Q, settings=Settings(mean_tolerance=1e300, variance_tolerance=1e300, iterations=4, budget=1))
    assert report.provenance.chains == 10


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            r"mean must be a vector of numbers, got .*Tracer",
            lambda: jax.jit(lambda m: diagnose(standard, Gaussian(m, [1.0, 1.0])))(jnp.zeros(2)),
        ),
        (r"diagnose cannot be called inside jax\.jit", lambda: jax.jit(lambda m: (diagnose(standard, Q, settings=QUICK), m))(0.0)),
        (
            r"logdensity or data uses values of a jax\.jit, vmap or grad around it",
            lambda: jax.vmap(lambda m: (diagnose(lambda x: m * standard(x), Q, settings=QUICK), m))(jnp.ones(3)),
        ),
        (
            r"logdensity or data uses values of a jax\.jit, vmap or grad around it",
            lambda: jax.vmap(lambda m: (diagnose(Target(lambda x, m: m * standard(x), 2, data=m), Q, settings=QUICK), m))(jnp.ones(3)),
        ),
    ],
)
def test_calls_inside_jaxs_own_transformations(message, call):
    refuses(message, call)


def test_a_callable_that_cannot_be_hashed_is_a_function_too():
    class Total:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x):
            return jnp.sum(x)

    report = diagnose(standard, Q, [Mean(of=Total(), name="total")], QUICK)
    assert [row.parameter for row in report.rows] == ["total"]


@pytest.mark.parametrize("option", ["jax_debug_nans", "jax_debug_infs"])
@pytest.mark.parametrize("chains", [20, 200])  # in this thread, and in several
def test_jaxs_own_search_for_nan_does_not_stop_a_diagnosis(option, chains):
    jax.config.update(option, True)
    try:
        target = Target(lambda x: jnp.where(x[0] > 1, jnp.nan if option == "jax_debug_nans" else -jnp.inf, standard(x)), 2)
        report = diagnose(target, Q, settings=Settings(chains=chains, iterations=60, budget=1))
    finally:
        jax.config.update(option, False)
    assert any("rejected" in note for note in report.notes)


def test_an_input_error_is_a_value_error():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Quantile(2.0)
    assert issubclass(InputError, ValueError)


def test_a_functional_that_is_infinite_everywhere_is_untrusted():
    report = diagnose(standard, Q, [Mean(of=lambda x: x[0] / 0.0, name="ratio")], QUICK, seed=244)
    assert [row.verdict for row in report.rows] == ["untrusted"]


def test_infinite_functionals_are_untrusted_rows_and_not_nan():
    def spiky(x):
        return jnp.where(x[0] > 1.5, jnp.inf, x[0])

    report = diagnose(standard, Q, [Mean(of=spiky), Variance(of=spiky)], Settings(chains=100, iterations=8, budget=1))
    assert {row.verdict for row in report.rows} == {"untrusted"}
    for row in report.rows:
        assert row.bound == 0.0
        assert not np.isnan([row.lower, row.upper, row.relative_bound, row.detectable]).any()


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("random_seed", "use seed="),
        ("rng_key", "use seed="),
        ("functional", "use functionals="),
        ("num_chains", "use settings=taddaa.Settings(chains=…)"),
        ("level", "use settings=taddaa.Settings(level=…)"),
        ("zzz", "it takes target, approximation, functionals"),
    ],
)
def test_an_argument_of_another_name(given, remedy):
    with pytest.raises(TypeError) as caught:
        diagnose(lambda x: -x @ x, Gaussian([0.0], [1.0]), **{given: 3})
    assert str(caught.value).startswith(f"diagnose() has no argument {given!r}; {remedy}")


def test_a_setting_of_another_name():
    with pytest.raises(TypeError, match=r"Settings\(\) has no argument 'n_chains'; use chains="):
        Settings(n_chains=100)
    with pytest.raises(TypeError, match="no argument 'bugdet'; use budget="):
        Settings.paper(bugdet=2)


def test_what_a_progress_function_raises_comes_through_and_leaves_nothing_behind():
    """A user may stop a run from there, with any exception; the next diagnosis of the same target is as any other."""
    target, threads = Target(standard, 2), threading.active_count()
    for stop in (SystemExit(7), KeyboardInterrupt(), ZeroDivisionError("mine")):

        def end(_, stop=stop):
            raise stop

        with pytest.raises(type(stop)) as raised:
            diagnose(target, Q, settings=QUICK, progress=end)
        assert raised.value is stop
    assert threading.active_count() == threads
    assert [row.bound for row in diagnose(target, Q, settings=QUICK).rows] == [
        row.bound for row in diagnose(standard, Q, settings=QUICK).rows
    ]
