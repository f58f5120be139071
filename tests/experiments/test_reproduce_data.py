"""The studies on real data: where data comes from, the models, the truth, and the claims' arithmetic."""

import functools
import hashlib
import http.server
import lzma
import struct
import threading

import jax
import numpy as np
import pytest
from scipy import special, stats

from taddaa import InputError, Target
from taddaa.experiments import data, models
from taddaa.experiments.posteriors import CANDY
from taddaa.experiments.real import Findings, Quantity, never_looser, never_wrong
from taddaa.experiments.study import NOT_REPRODUCED, OURS, PAPER, REPRODUCED, Store
from taddaa.experiments.truth import Nuts, Truth, key_of, nuts

# Where the data comes from ------------------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Neither a folder of one's own nor a cache."""
    import pooch

    monkeypatch.delenv(data.VARIABLE, raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda name: cache)
    return cache


@pytest.fixture
def server(tmp_path):
    """A web server on this machine, with one file."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "some.csv").write_text("a,b\n1,2\n")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=folder)) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


def _source(address=None, content=b"a,b\n1,2\n"):
    return (data.Source("some.csv", hashlib.sha256(content).hexdigest(), address),)


def test_own_folder_comes_first(monkeypatch, tmp_path, nowhere):
    (tmp_path / "some.csv").write_text("a,b\n1,2\n")
    nowhere.mkdir()
    (nowhere / "some.csv").write_text("a,b\n1,2\n")
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert data.find(_source()) == tmp_path / "some.csv"


def test_download_once_then_the_cache(nowhere, server, tmp_path):
    found = data.find(_source(f"{server}/some.csv"))
    assert found.read_text() == "a,b\n1,2\n" and found.parent == nowhere
    (tmp_path / "web" / "some.csv").unlink()
    assert data.find(_source(f"{server}/some.csv")) == found


@pytest.mark.parametrize("path", ["absent.csv", "some.csv"])
def test_no_file_or_a_wrong_one_is_one_sentence(nowhere, server, path):
    """Not there, or there with other content: both name the file and the variable."""
    with pytest.raises(InputError, match=r"some\.csv cannot be had from .* set TADDAA_DATA to the folder"):
        data.find(_source(f"{server}/{path}", content=b"another file"))


def test_a_wrong_file_of_ones_own_is_refused(monkeypatch, tmp_path):
    (tmp_path / "some.csv").write_text("other")
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"some\.csv is not the file"):
        data.find(_source())


def test_leukemia_genes_and_patients():
    """As scikit-learn's MinMaxScaler and SelectKBest(chi2, k=100) choose them without the first patient."""
    leukemia = data.leukemia()
    assert leukemia.x.shape == (71, 100) and leukemia.y.sum() == 25
    assert leukemia.columns[:2] == ("D10495_at", "D49950_at") and leukemia.columns[-2:] == ("X16546_at", "M15395_at")
    np.testing.assert_allclose(leukemia.x[0, :3], [0.2686237374, 0.2897603486, 0.0275363734], atol=1e-9)
    np.testing.assert_array_equal(np.linalg.matrix_rank(leukemia.x), 71)


def test_chi2_scores_are_scipys():
    rng = np.random.default_rng(0)
    features, positive = rng.random((30, 4)), rng.random(30) < 0.4
    observed = np.stack([features[positive].sum(axis=0), features[~positive].sum(axis=0)])
    expected = np.outer([positive.mean(), 1 - positive.mean()], features.sum(axis=0))
    np.testing.assert_allclose(data.chi2_scores(features, positive), stats.chisquare(observed, expected).statistic)


def test_golub_as_r_stores_it():
    """R's serialisation, version 2, written by hand from its description (R Internals, section 1.8)."""

    def integer(*values):
        return struct.pack(f">{len(values)}i", *values)

    def text(value):
        return integer(0x40009, len(value)) + value.encode()

    def strings(*values):
        return integer(16, len(values)) + b"".join(map(text, values))

    def symbol(value):
        return integer(1) + text(value)

    names = integer(0x402) + symbol("names")
    x = integer(0x20E, 6) + struct.pack(">6d", 3, 1, 2, 30, 10, 20)  # by columns; patients 40, 1 and 2
    x += integer(0x402) + symbol("dim") + integer(13, 2, 3, 2)
    x += integer(0x402) + symbol("dimnames") + integer(19, 2) + strings("40", "1", "2") + strings("gene", "other") + integer(0xFE)
    y = integer(0x30D, 3, 1, 2, 1) + integer(0x402) + symbol("levels") + strings("ALL", "AML") + integer(0xFE)
    whole = integer(0x402) + symbol("golub") + integer(0x213, 2) + x + y + names + strings("x", "y") + integer(0xFE) + integer(0xFE)
    labels, expression = data._golub(lzma.compress(b"RDX2\nX\n" + integer(2, 0x20E01, 0x20300) + whole))
    assert labels.tolist() == [2, 1, 1] and list(expression.columns) == ["gene", "other"]  # training patients first
    assert expression.to_numpy().tolist() == [[1, 10], [2, 20], [3, 30]]


def test_a_flat_prior_has_no_posterior():
    """Every crisped-rice candy is chocolate: the likelihood never falls as that coefficient grows."""
    candy = data.candy()
    crisped = candy.x[:, candy.columns.index("crispedricewafer")]
    assert crisped.sum() == 7 and np.all(candy.y[crisped == 1] == 1)


# Models, against SciPy's densities and plain loops ------------------------------------------------------------------------------


def _difference(target: Target, points) -> float:
    with jax.enable_x64(True):
        first, second = (float(target.logdensity(point, target.data)) for point in points)
    return first - second


def _bernoulli(y, logits) -> float:
    return float(stats.bernoulli.logpmf(y, special.expit(logits)).sum())


@pytest.mark.parametrize("sd", [1.0, models.WIDE])
def test_regression(sd):
    candy, points = data.candy(), np.random.default_rng(0).normal(size=(2, 11)) * 0.1
    direct = [_bernoulli(candy.y, candy.x @ point) + stats.norm.logpdf(point, scale=sd).sum() for point in points]
    assert _difference(models.regression(candy, sd), points) == pytest.approx(direct[0] - direct[1])


def test_horseshoe():
    """Densities of τ, λ and c² themselves, times the Jacobians of their logarithms."""
    leukemia, points = data.leukemia(), np.random.default_rng(1).normal(size=(2, 203))
    assert models.horseshoe(leukemia).names[162] == "log lambda61" and models.horseshoe(leukemia).names[61] == "z61"

    def direct(point):
        intercept, z, log_tau, log_lambda, log_slab = point[0], point[1:101], point[101], point[102:202], point[202]
        tau, scale, slab = np.exp(log_tau), np.exp(log_lambda), np.exp(log_slab)
        beta = z * tau * np.sqrt(slab * scale**2 / (slab + tau**2 * scale**2))
        prior = stats.norm.logpdf(intercept, scale=10) + stats.norm.logpdf(z).sum()
        prior += stats.halfcauchy.logpdf(tau, scale=2 / (99 * np.sqrt(71))) + stats.halfcauchy.logpdf(scale).sum()
        prior += stats.invgamma.logpdf(slab, 2, scale=8) + log_tau + log_lambda.sum() + log_slab
        return _bernoulli(leukemia.y, intercept + leukemia.x @ beta) + prior

    assert _difference(models.horseshoe(leukemia), points) == pytest.approx(direct(points[0]) - direct(points[1]))
    with jax.enable_x64(True):
        assert float(models.local_scale(61)(points[0])) == pytest.approx(np.exp(points[0][162]))


def test_horseshoe_stays_finite_far_out():
    target = models.horseshoe(data.leukemia())
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(target.logdensity)(np.full(203, 400.0), target.data)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_network_and_its_log_loss():
    candy, points = data.candy(), np.random.default_rng(2).normal(size=(2, 85))

    def logits(point):
        alpha, beta, gamma = point[:55].reshape(11, 5), point[55:80].reshape(5, 5), point[80:]
        first = [[np.tanh(sum(row[i] * alpha[i, j] for i in range(11))) for j in range(5)] for row in candy.x]
        second = [[np.tanh(sum(row[i] * beta[i, j] for i in range(5))) for j in range(5)] for row in first]
        return np.array([sum(row[j] * gamma[j] for j in range(5)) for row in second])

    direct = [_bernoulli(candy.y, logits(point)) + stats.norm.logpdf(point, scale=2).sum() for point in points]
    target = models.network(candy)
    assert _difference(target, points) == pytest.approx(direct[0] - direct[1])
    with jax.enable_x64(True):
        assert float(models.log_loss(points[0], target.data)) == pytest.approx(-_bernoulli(candy.y, logits(points[0])) / 85)


# The truth ----------------------------------------------------------------------------------------------------------------------


def test_nuts_finds_a_known_truth_once(tmp_path, monkeypatch):
    target = Target(
        lambda x, data: -0.5 * data["precision"] @ (x - 1) ** 2, dim=2, names=["a", "b"], data={"precision": np.array([1.0, 0.25])}
    )
    store, key = Store(tmp_path), {"model": "normal"}
    options = Nuts(chains=2, warmup=300, draws=1500)
    found = nuts(store, key, target, 0, options, lambda x, _: x[0] + x[1], ["sum"])
    truth = Truth(found["names"], [found])
    np.testing.assert_allclose(truth.mean, [1, 1, 2], atol=0.25)
    np.testing.assert_allclose(truth.sd, [1, 2, np.sqrt(5)], rtol=0.1)
    np.testing.assert_allclose(truth.median, [1, 1, 2], atol=0.3)
    assert truth.good("sum") and found["divergences"] == 0
    monkeypatch.setattr("taddaa.experiments.truth._run", lambda *_: pytest.fail("made twice"))
    assert nuts(store, key, target, 0, options, None, ["sum"]) == found


def test_a_truth_of_other_data_is_another():
    candy = data.candy()
    changed = candy._replace(x=candy.x + 1e-9)
    assert key_of("candy", candy) != key_of("candy", changed)


def test_runs_that_disagree_are_seen():
    run = {"mean": [0.0], "sd": [1.0], "median": [0.0], "rhat": [1.0], "ess": [500.0]}
    truth = Truth(["a"], [run, {**run, "mean": [4.0]}])
    assert truth.disagreement[0] == pytest.approx(2 / np.sqrt(5))
    assert truth.sd[0] == pytest.approx(np.sqrt(5)) and truth.mean[0] == 2


# The claims' arithmetic ---------------------------------------------------------------------------------------------------------


def _results(bound: float, verdict: str = "error", method: str = PAPER, kernel: str = "barker"):
    """A parameter whose mean is too low by 1 sd (2 units) and whose variance is too small by a factor of 100."""
    rows = {
        "a mean": {"approximation": 8.0, "moved": 9.5, "bound": 2 * bound, "verdict": verdict},
        "a variance": {"approximation": 0.04, "moved": 1.0, "bound": bound * np.log(10), "verdict": verdict},
    }
    true = {"names": ["a"], "mean": [10.0], "sd": [2.0], "median": [10.0], "rhat": [1.0], "ess": [10_000.0]}
    about = {"posterior": "candy", "seed": 0, "method": method, "kernel": kernel, "rows": rows}
    return [{"kind": "truth", "posterior": "candy", **true}, *({"kind": "diagnosis", "every": every, **about} for every in (True, False))]


def test_errors_are_in_the_papers_units():
    findings = Findings(_results(0.5))
    mean, variance = (findings.shown(CANDY, Quantity(f"a {kind}", kind), PAPER) for kind in ("mean", "variance"))
    assert (mean.before, mean.after, mean.bound) == pytest.approx((-1, -0.25, 0.5))
    assert (variance.before, variance.after, variance.bound) == pytest.approx((-2, np.log10(1 / 4), 0.5))
    assert variance.share == pytest.approx(0.25)


def test_a_typical_bound_is_the_median_of_the_seeds():
    results = _results(0.5)
    for seed, bound in ((1, 0.1), (2, 0.4)):
        results += [{**each, "seed": seed} for each in _results(bound) if each["kind"] == "diagnosis"]
    assert Findings(results).typical(CANDY, Quantity("a mean", ""), PAPER).bound == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("bound", "verdict", "expected"), [(0.5, "error", REPRODUCED), (2.5, "error", NOT_REPRODUCED), (2.5, "untrusted", REPRODUCED)]
)
def test_a_wrong_bound_is_seen_unless_untrusted(bound, verdict, expected):
    assert never_wrong(Findings(_results(bound, verdict)), CANDY, PAPER, "").verdict == expected


@pytest.mark.parametrize(
    ("ours", "verdict", "expected"), [(0.55, "error", REPRODUCED), (0.4, "error", NOT_REPRODUCED), (0.5, "error", REPRODUCED)]
)
def test_a_looser_bound_is_seen(ours, verdict, expected):
    results = _results(0.5) + _results(ours, verdict, method=OURS)[1:]
    assert never_looser(Findings(results), CANDY, [Quantity("a mean", "a")], "").verdict == expected
