"""Each kernel leaves its target invariant: detailed balance, stationarity, and BlackJAX; broken kernels must fail both."""

from dataclasses import dataclass
from functools import cache

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit

from known import KNOWN, run_chains
from taddaa import HMC, MALA, RWMH, Barker, Draws, Fisher, FromApproximation, Identity, Relay
from taddaa.moves.kernel import KERNELS, Noise, Point, as_kernel, metropolis
from taddaa.moves.metric import Diagonal

FACTORS = {
    "identity": np.eye(2),
    "cholesky": np.array([[1.5, 0.0], [-0.6, 0.7]]),
    "full": np.array([[0.9, 0.4], [-0.3, 1.2]]),
}
CASES = [("correlated", "full"), ("banana", "identity"), ("banana", "cholesky")]
STEP = 0.8


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# Broken kernels: the negative controls -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongSignBarker(Barker):
    def propose(self, point, noise, step, moved):
        proposal, correction = super().propose(point, noise, step, moved)
        return proposal, -correction


@dataclass(frozen=True)
class UncorrectedMALA(MALA):
    def propose(self, point, noise, step, moved):
        return super().propose(point, noise, step, moved)[0], 0.0


@dataclass(frozen=True)
class UncorrectedHMC(HMC):
    def propose(self, point, noise, step, moved):
        return super().propose(point, noise, step, moved)[0], 0.0


@dataclass(frozen=True)
class DriftingRWMH(RWMH):
    """A proposal that is not symmetric, treated as if it were."""

    def propose(self, point, noise, step, moved):
        return moved(point, jnp.sqrt(step) * (noise.normal + 0.3)), 0.0


BROKEN = [WrongSignBarker(), UncorrectedMALA(), UncorrectedHMC(), DriftingRWMH()]


# Detailed balance -------------------------------------------------------------------------------------------------------


def evaluator(logdensity, factor):
    def evaluate(x):
        value, gradient = jax.value_and_grad(logdensity)(x)
        return Point(x, value, gradient, factor.T @ gradient)

    return evaluate


def moving(evaluate, factor=None):
    """The point that is z away in whitened space, evaluated."""
    return lambda here, z: evaluate(here.position + (z if factor is None else factor @ z))


def proposal_logdensity(kernel, x, gradient, y, factor, step):
    """log q(x→y) for rows of x and y, written from the definitions of the proposals and not from the code."""
    z = np.linalg.solve(factor, (y - x).T).T
    if isinstance(kernel, Barker):
        each = np.log(2) + stats.norm.logpdf(z, 0, np.sqrt(step)) + log_expit(z * (gradient @ factor))
        return each.sum(axis=1) - np.log(abs(np.linalg.det(factor)))
    metric = factor @ factor.T
    jump = y - x - (0.5 * step * gradient @ metric if isinstance(kernel, MALA) else 0.0)
    return stats.multivariate_normal.logpdf(jump, np.zeros(x.shape[1]), step * metric)


def normals_from(kernel, x, gradient, y, factor, step):
    """The normal numbers with which the kernel goes from x to y (and keeps Barker's sign)."""
    z = np.linalg.solve(factor, (y - x).T).T
    if isinstance(kernel, MALA):
        z = z - 0.5 * step * gradient @ factor
    return jnp.asarray(z / np.sqrt(step))


def detailed_balance_error(kernel, known, factor, step=STEP):
    """max |π(x) q(x→y) α(x,y) − π(y) q(y→x) α(y,x)|, relative to the larger of the two, over all pairs of a grid."""
    axis = np.linspace(-2.0, 2.0, 6) + 0.1
    grid = np.array([(a, b) for a in axis for b in axis])
    first, second = np.divmod(np.arange(len(grid) ** 2), len(grid))
    x, y = grid[first], grid[second]
    value, gradient = (np.asarray(part) for part in jax.vmap(jax.value_and_grad(known.logdensity))(jnp.asarray(x)))
    probability, proposal = ours(kernel, known.logdensity, x, normals_from(kernel, x, gradient, y, factor, step), step, factor)
    np.testing.assert_allclose(proposal, y, atol=1e-10)
    log_flux = value + proposal_logdensity(kernel, x, gradient, y, factor, step) + np.log(np.asarray(probability))
    log_flux = log_flux.reshape(len(grid), len(grid))
    return float(np.max(-np.expm1(-np.abs(log_flux - log_flux.T))))


def ours(kernel, logdensity, x, normal, step, factor, uniform=None):
    """Acceptance probabilities and proposals of our kernel for rows of positions and of random numbers."""
    factor = jnp.asarray(factor)
    evaluate = evaluator(logdensity, factor)
    uniform = jnp.zeros((len(x), kernel.uniforms(x.shape[1]))) if uniform is None else uniform

    def one(x, normal, uniform):
        point, noise = evaluate(x), Noise(normal, uniform, jnp.asarray(0.0))
        outcome = metropolis(kernel, point, noise, step, moving(evaluate, factor))
        return outcome.probability, kernel.propose(point, noise, step, moving(evaluate, factor))[0].position

    return jax.jit(jax.vmap(one))(jnp.asarray(x), normal, uniform)


@pytest.mark.parametrize(("target", "factor"), CASES)
@pytest.mark.parametrize("kernel", [RWMH(), MALA(), Barker()], ids=lambda k: k.label)
def test_detailed_balance(kernel, target, factor):
    # Barker's exponentials are taken in single precision.
    limit = 1e-6 if isinstance(kernel, Barker) else 1e-8
    assert detailed_balance_error(kernel, KNOWN[target], FACTORS[factor]) < limit


@pytest.mark.parametrize("kernel", [WrongSignBarker(), UncorrectedMALA()], ids=lambda k: k.label)
def test_detailed_balance_catches_broken_kernels(kernel):
    assert detailed_balance_error(kernel, KNOWN["banana"], FACTORS["cholesky"]) > 0.5


def leapfrog(logdensity, x, momentum, metric, step, count):
    """Textbook leapfrog with kinetic energy ½ηᵀGη: positions, final momentum."""
    gradient = jax.grad(logdensity)
    for _ in range(count):
        momentum = momentum + 0.5 * step * gradient(x)
        x = x + step * metric @ momentum
        momentum = momentum + 0.5 * step * gradient(x)
    return x, momentum


def hmc_balance_error(kernel, known, factor, step=0.25, uniform=0.4):
    """Detailed balance of HMC given its random step: the density of y by change of variables from the momentum."""
    factor = jnp.asarray(factor)
    metric = factor @ factor.T
    evaluate = evaluator(known.logdensity, factor)
    moved = moving(evaluate, factor)

    def propose(x, p):
        noise = Noise(p, jnp.asarray([uniform]), jnp.asarray(0.0))
        return kernel.propose(evaluate(x), noise, step, moved)[0].position

    def log_flux(x, p):
        """log π(x) q(x→y) α(x, y) for the y that momentum p leads to."""
        noise = Noise(p, jnp.asarray([uniform]), jnp.asarray(0.0))
        alpha = metropolis(kernel, evaluate(x), noise, step, moved).probability
        spread = jnp.linalg.slogdet(jax.jacfwd(propose, argnums=1)(x, p))[1]
        return known.logdensity(x) - 0.5 * p @ p - spread + jnp.log(alpha)

    @jax.jit
    @jax.vmap
    def there_and_back(x, p):
        y = propose(x, p)
        taken = step * (1 - kernel.jitter * uniform)
        end, momentum = leapfrog(known.logdensity, x, jnp.linalg.solve(factor.T, p), metric, taken, kernel.leapfrog)
        back = -factor.T @ momentum
        return y - end, propose(y, back) - x, log_flux(x, p) - log_flux(y, back)

    rng = np.random.default_rng(0)
    beside, missed, difference = there_and_back(*(jnp.asarray(rng.normal(size=(100, 2))) for _ in range(2)))
    np.testing.assert_allclose(beside, 0, atol=1e-9)
    np.testing.assert_allclose(missed, 0, atol=1e-7)
    return float(np.max(-np.expm1(-np.abs(difference))))


@pytest.mark.parametrize(("target", "factor"), CASES)
def test_hmc_detailed_balance(target, factor):
    assert hmc_balance_error(HMC(leapfrog=3), KNOWN[target], FACTORS[factor]) < 1e-7


def test_hmc_detailed_balance_catches_a_missing_correction():
    assert hmc_balance_error(UncorrectedHMC(leapfrog=3), KNOWN["banana"], FACTORS["cholesky"], step=0.6) > 0.1


def test_barker_keeps_the_sign_with_the_logistic_probability():
    """σ(w g) is where the uniform number switches the sign, also where exp overflows."""
    evaluate = evaluator(lambda x: -0.5 * jnp.sum(x**2), jnp.eye(4))
    slope = jnp.array([2.0, -1.5, 1e4, -1e4])
    point = Point(jnp.zeros(4), jnp.asarray(0.0), slope, slope)
    normal = jnp.array([0.7, 0.7, 0.7, 0.7])
    chance = np.exp(log_expit(np.sqrt(STEP) * np.asarray(normal) * np.asarray(slope)))

    @jax.jit
    def kept(uniform):
        noise = Noise(normal, jnp.asarray(uniform), jnp.asarray(0.0))
        return Barker().propose(point, noise, STEP, moving(evaluate))[0].position > 0

    np.testing.assert_array_equal(kept(np.clip(chance - 1e-6, 0, 1)), [True, True, True, False])
    np.testing.assert_array_equal(kept(np.clip(chance + 1e-6, 0, 1)), [False, False, False, False])
    np.testing.assert_array_equal(kept(np.full(4, 0.999)), [False, False, True, False])


@pytest.mark.parametrize(("dim", "precision"), [(1, "float64"), (1000, "float64"), (2500, "float64"), (100, "float32"), (250, "float32")])
def test_barker_correction_in_any_dimension(dim, precision):
    """Against SciPy's log-sigmoid, term by term; also with gradients that would overflow an exponential."""
    rng = np.random.default_rng(dim)
    x = jnp.asarray(3 * rng.standard_normal(dim), precision)

    def evaluate(x):  # a normal density, written out to be quick
        return Point(x, -2.5 * jnp.sum(x**2), -5 * x, -5 * x)

    noise = Noise(jnp.asarray(rng.standard_normal(dim), precision), jnp.asarray(rng.random(dim), precision), jnp.asarray(0.0))
    point = evaluate(x)
    propose = jax.jit(lambda point, noise: Barker().propose(point, noise, jnp.asarray(0.5, precision), moving(evaluate)))
    proposal, correction = propose(point, noise)
    z = np.asarray(proposal.position - x, float)
    expected = np.sum(log_expit(-z * np.asarray(proposal.slope, float)) - log_expit(z * np.asarray(point.slope, float)))
    assert float(correction) == pytest.approx(expected, rel=1e-9 if precision == "float64" else 2e-3, abs=2e-3)


@pytest.mark.parametrize(("target", "factor"), CASES)
@pytest.mark.parametrize("kernel", [RWMH(), MALA(), Barker(), HMC(leapfrog=3)], ids=lambda k: k.label)
def test_many_chains_in_numpy_move_as_one_in_jax(kernel, target, factor):
    rng, factor, logdensity = np.random.default_rng(5), FACTORS[factor], KNOWN[target].logdensity
    x = rng.standard_normal((40, 2))
    noise = Noise(*(part.astype(np.float32) for part in (rng.standard_normal(x.shape), rng.random(x.shape))), rng.random(40))
    step = rng.uniform(0.2, 0.4, 40)

    def of_rows(x):
        value, gradient = map(np.asarray, jax.vmap(jax.value_and_grad(logdensity))(x))
        return Point(x, value, gradient, gradient @ factor)

    many = metropolis(kernel, of_rows(x), noise, step, lambda here, z: of_rows(here.position + z @ factor.T))
    evaluate = evaluator(logdensity, jnp.asarray(factor))
    one = jax.vmap(lambda x, noise, step: metropolis(kernel, evaluate(x), noise, step, moving(evaluate, factor)))
    alone = one(jnp.asarray(x), jax.tree.map(jnp.asarray, noise), jnp.asarray(step))
    for mine, theirs in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
        assert isinstance(mine, np.ndarray)
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)  # Barker's exponentials are in single precision
    assert np.ptp(many.probability) > 0 and many.accepted.any()


# Stationarity -----------------------------------------------------------------------------------------------------------

PRECONDITIONERS = {"fisher": Fisher(), "approximation": FromApproximation(), "identity": Identity()}
CHAINS, ITERATIONS = 4000, 30


@cache
def exact_draws(name):
    """Starts, pilots with their gradients, and a large reference sample."""
    known, rng = KNOWN[name], np.random.default_rng(7)
    starts, pilots, reference = (known.sample(rng, count) for count in (CHAINS, 1000, 40_000))
    return starts, pilots, np.asarray(jax.vmap(jax.grad(known.logdensity))(jnp.asarray(pilots))), reference


def departure(kernel, name, preconditioner):
    """Start exactly in the target and walk: the smallest KS p-value over several functions, times their number."""
    known = KNOWN[name]
    starts, pilots, gradients, reference = exact_draws(name)
    metric = preconditioner.initial(Draws(pilots), pilots, gradients).metric
    moved, _ = run_chains(known, kernel, starts, metric, ITERATIONS, seed=3, step=0.5)
    assert np.mean(np.any(moved != starts, axis=1)) > 0.9  # a kernel that never moves would pass
    functions = [
        lambda x: x[:, 0],
        lambda x: x[:, 1],
        lambda x: x[:, 0] * x[:, 1],
        lambda x: np.asarray(jax.vmap(known.logdensity)(jnp.asarray(x))),
    ]
    return len(functions) * min(stats.ks_2samp(f(moved), f(reference)).pvalue for f in functions)


# Of 36 combinations: Bonferroni at 1 %.
STATIONARY = 0.01 / 36


@pytest.mark.parametrize("preconditioner", PRECONDITIONERS)
@pytest.mark.parametrize("target", KNOWN)
@pytest.mark.parametrize("kernel", KERNELS)
def test_chains_started_in_the_target_stay_there(kernel, target, preconditioner):
    assert departure(KERNELS[kernel], target, PRECONDITIONERS[preconditioner]) > STATIONARY


@pytest.mark.parametrize("kernel", BROKEN, ids=lambda k: k.label)
def test_broken_kernels_leave_the_target(kernel):
    assert departure(kernel, "banana", Fisher()) < STATIONARY * 1e-6


# BlackJAX ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd():
    return 1.5 * np.random.default_rng(5).standard_normal((3000, 2))


def blackjax_steps(algorithm, x, seed):
    """One BlackJAX transition of each row: new states and infos."""
    x = jnp.asarray(x)
    states = jax.vmap(algorithm.init)(x)
    return jax.jit(jax.vmap(algorithm.step))(jax.random.split(jax.random.key(seed), len(x)), states)


def test_rwmh_agrees_with_blackjax(crowd):
    """Only accepted proposals can be seen."""
    known, factor = KNOWN["correlated"], FACTORS["full"]
    walk = blackjax.additive_step_random_walk(known.logdensity, blackjax.mcmc.random_walk.normal(jnp.asarray(np.sqrt(STEP) * factor)))
    states, info = blackjax_steps(walk, crowd, 0)
    taken = np.asarray(info.is_accepted)
    x, y = crowd[taken], np.asarray(states.position)[taken]
    probability, position = ours(RWMH(), known.logdensity, x, normals_from(RWMH(), x, None, y, factor, STEP), STEP, factor)
    np.testing.assert_allclose(position, y, atol=1e-10)
    np.testing.assert_allclose(probability, info.acceptance_rate[taken], atol=1e-10)
    assert 0.2 < taken.mean() < 0.98


def test_mala_agrees_with_blackjax(crowd):
    """BlackJAX's step ε is half our h; only its accepted proposals can be seen."""
    known = KNOWN["correlated"]
    states, info = blackjax_steps(blackjax.mala(known.logdensity, STEP / 2), crowd, 1)
    taken = np.asarray(info.is_accepted)
    x, y = crowd[taken], np.asarray(states.position)[taken]
    normal = (y - x - 0.5 * STEP * np.asarray(jax.vmap(jax.grad(known.logdensity))(x))) / np.sqrt(STEP)
    probability, position = ours(MALA(), known.logdensity, x, normal, STEP, np.eye(2))
    np.testing.assert_allclose(position, y, atol=1e-10)
    np.testing.assert_allclose(probability, info.acceptance_rate[taken], atol=1e-9)
    assert 0.2 < taken.mean() < 0.98


def test_barker_agrees_with_blackjax(crowd):
    """Acceptance probabilities for BlackJAX's proposals, and the law of the proposals themselves."""
    known, factor = KNOWN["correlated"], np.linalg.inv(FACTORS["cholesky"]).T
    # What BlackJAX calls the inverse mass here is G⁻¹, and its factor of G is the inverse transpose of a Cholesky factor of that.
    algorithm = blackjax.barker_proposal(known.logdensity, np.sqrt(STEP), jnp.asarray(np.linalg.inv(factor @ factor.T)))
    _, info = blackjax_steps(algorithm, crowd, 2)
    z = np.linalg.solve(factor, (np.asarray(info.proposal.position) - crowd).T).T
    probability, position = ours(Barker(), known.logdensity, crowd, z / np.sqrt(STEP), STEP, factor)
    np.testing.assert_allclose(position, info.proposal.position, atol=1e-10)
    np.testing.assert_allclose(probability, info.acceptance_rate, atol=1e-6)
    rng = np.random.default_rng(6)
    normal, uniform = rng.standard_normal(crowd.shape), rng.random(crowd.shape)
    _, mine = ours(Barker(), known.logdensity, crowd, normal, STEP, factor, uniform)
    slope = np.asarray(jax.vmap(jax.grad(known.logdensity))(jnp.asarray(crowd))) @ factor
    jump = np.linalg.solve(factor, (np.asarray(mine) - crowd).T).T
    for i in range(2):
        # How far the jump went up the slope: skewed alike if the signs are drawn alike.
        assert stats.ks_2samp((jump * slope)[:, i], (z * slope)[:, i]).pvalue > 0.001
    assert np.mean(jump * slope > 0) > 0.6


def test_hmc_agrees_with_blackjax(crowd):
    known = KNOWN["correlated"]
    metric = FACTORS["full"] @ FACTORS["full"].T
    algorithm = blackjax.hmc(known.logdensity, 0.3, jnp.asarray(metric), num_integration_steps=5)
    _, info = blackjax_steps(algorithm, crowd, 3)
    normal = info.momentum @ FACTORS["full"]
    probability, position = ours(HMC(leapfrog=5, jitter=0.0), known.logdensity, crowd, normal, 0.3, FACTORS["full"])
    np.testing.assert_allclose(position, info.proposal.position, atol=1e-9)
    np.testing.assert_allclose(probability, info.acceptance_rate, atol=1e-9)
    assert stats.kstest(np.asarray(normal).ravel(), "norm").pvalue > 0.001


# Non-finite proposals ---------------------------------------------------------------------------------------------------


def half_line(x):
    return jnp.where(x[0] > 0, -x[0], -jnp.inf)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_proposal_outside_the_support_is_rejected_and_counted(kernel):
    evaluate = evaluator(half_line, jnp.eye(1))
    start = evaluate(jnp.array([0.5]))
    noise = Noise(jnp.array([-30.0]), jnp.zeros(KERNELS[kernel].uniforms(1) or 1), jnp.asarray(0.0))
    if kernel == "barker":  # the sign is kept
        noise = noise._replace(uniform=jnp.array([0.0]))
    outcome = metropolis(KERNELS[kernel], start, noise, 1.0, moving(evaluate))
    assert bool(outcome.nonfinite)
    assert float(outcome.probability) == 0.0
    assert not bool(outcome.accepted)
    np.testing.assert_array_equal(outcome.point.position, start.position)


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
def test_nan_and_plus_infinity_are_never_accepted(value):
    evaluate = evaluator(lambda x: jnp.where(x[0] > 1, value, -0.5 * x[0] ** 2), jnp.eye(1))
    noise = Noise(jnp.array([5.0]), jnp.zeros(0), jnp.asarray(0.0))
    outcome = metropolis(RWMH(), evaluate(jnp.array([0.0])), noise, 1.0, moving(evaluate))
    assert bool(outcome.nonfinite)
    assert not bool(outcome.accepted)
    assert float(outcome.probability) == 0.0


def test_a_finite_density_with_a_bad_gradient_is_rejected_and_counted():
    """√|x| has an infinite slope at zero, where a chain would be stuck with it."""

    def evaluate(x):
        slope = jnp.where(x == 0, jnp.nan, -x)
        return Point(x, -0.5 * jnp.sum(x**2), slope, slope)

    noise = Noise(jnp.array([-1.0]), jnp.zeros(1), jnp.asarray(0.0))
    outcome = metropolis(Barker(), evaluate(jnp.array([1.0])), noise, 1.0, moving(evaluate))
    assert bool(outcome.nonfinite)
    assert not bool(outcome.accepted)
    assert float(outcome.point.position[0]) == 1.0


def test_a_start_outside_the_support_may_enter_it():
    evaluate = evaluator(half_line, jnp.eye(1))
    outside = Point(jnp.array([-0.5]), jnp.asarray(-jnp.inf), jnp.zeros(1), jnp.zeros(1))
    noise = Noise(jnp.array([1.0]), jnp.zeros(0), jnp.asarray(0.5))
    outcome = metropolis(RWMH(), outside, noise, 1.0, moving(evaluate))
    assert bool(outcome.accepted)
    assert float(outcome.probability) == 1.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_huge_gradients_give_no_nan(kernel):
    evaluate = evaluator(lambda x: -0.5 * jnp.sum(x**2), jnp.eye(3))
    rng = np.random.default_rng(0)
    noise = Noise(jnp.asarray(rng.standard_normal(3)), jnp.asarray(rng.random(3)), jnp.asarray(0.5))
    move = jax.jit(lambda x: metropolis(KERNELS[kernel], evaluate(x), noise, 0.5, moving(evaluate)))
    for size in (1e6, 1e100, 1e200):
        outcome = move(jnp.full(3, size))
        assert 0.0 <= float(outcome.probability) <= 1.0
        for part in outcome.point:
            assert not np.any(np.isnan(part))


# Constants --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "acceptance", "steps"),
    [
        ("rwmh", 0.234, {1: 2.4**2, 16: 2.4**2 / 16}),
        ("mala", 0.574, {1: 2.4**2, 8: 2.4**2 / 2}),
        ("barker", 0.4, {1: 2.4**2, 27: 2.4**2 / 3}),
        ("hmc", 0.651, {1: 2.4**2, 16: 2.4**2 / 2}),
    ],
)
def test_constants_of_the_paper(kernel, acceptance, steps):
    chosen = as_kernel(kernel.upper())
    assert chosen.target_acceptance == acceptance
    for dim, step in steps.items():
        assert chosen.initial_step(dim) == pytest.approx(step)
    assert chosen.gradients_per_iteration == (10 if kernel == "hmc" else 1)


def over_one_proposal(kernel, dim=10, chains=200, proposals=60):
    """Correlations of the values and of the squares of a standard Gaussian, with a step that has been adapted."""
    from taddaa import Target
    from taddaa.chains.machine.engine import Engine
    from taddaa.chains.machine.meter import Meter

    starts, metric, path = np.random.default_rng(0).standard_normal((chains, dim)), Diagonal(np.ones(dim)), []
    with jax.enable_x64(True):
        engine = Engine(Target(lambda x: -0.5 * jnp.sum(x**2), dim), kernel, chains, 0, "float64", Meter(), 1)
        moved = engine.start(starts, metric, kernel.arrived_step(dim))
        for _ in range(proposals):
            moved, _ = engine.advance(moved, metric, starts, 1)
            path.append(engine.host(engine.flat(moved, metric).position))
    late = np.array(path[proposals // 2 :])
    return tuple(np.corrcoef(part[:-1].ravel(), part[1:].ravel())[0, 1] for part in (late, late**2))


def test_a_quarter_of_a_turn_forgets_squares_and_half_a_turn_does_not():
    """With nothing but the acceptance to hold it, the step grows until trajectories come out on the other side of the centre."""
    kernel = Relay().exploring(10)
    value, square = over_one_proposal(kernel)
    assert abs(value) < 0.3 and square < 0.25
    value, square = over_one_proposal(HMC(leapfrog=kernel.leapfrog))
    assert value < -0.1 and square > 0.5
