"""diagnose_many: the reports are those of diagnose, made with one compiled program, kept and found again, shared by processes."""

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa.comparison import many as module

QUICK = taddaa.Settings(chains=60, iterations=30, budget=1)


def logdensity(b, data):
    return -0.5 * jnp.sum((data["y"] - b) ** 2) - 0.5 * jnp.sum(b**2)


def fit(i, wrong=1.0):
    """Conjugate: the posterior of b is normal with precision 6."""
    y = np.random.default_rng(i).normal(size=(5, 2))
    return {"y": y}, taddaa.Gaussian(y.sum(axis=0) / 6, np.full(2, wrong / np.sqrt(6)))


FITS = {f"unit {i}": fit(i, wrong=0.3 if i == 2 else 1.0) for i in range(4)}
DATAS = {name: data for name, (data, _) in FITS.items()}
APPROXIMATIONS = {name: q for name, (_, q) in FITS.items()}


@pytest.fixture(scope="module")
def target():
    return taddaa.Target(logdensity, 2, data=DATAS["unit 0"])


def content(report):
    return [(row.parameter, row.functional, row.lower, row.upper, row.verdict) for row in report.rows]


def test_each_report_is_the_one_of_diagnose_and_only_the_first_compiles(target):
    many = taddaa.diagnose_many(target, APPROXIMATIONS, DATAS, settings=QUICK, seed=3)
    assert list(many.reports) == list(FITS) and not many.failures and not many.missing
    for name, (data, q) in FITS.items():
        alone = taddaa.diagnose(taddaa.Target(logdensity, 2, data=data), q, settings=QUICK, seed=3)
        assert content(many.reports[name]) == content(alone)
    assert [report.cost.programs for report in many.reports.values()][1:] == [0, 0, 0]
    frame = many.to_dataframe()
    assert many.refit == ["unit 2"] and list(frame["name"]) == list(FITS)
    assert frame.set_index("name").loc["unit 2", "worst"].startswith("variance of")
    assert "4 fits" in str(many) and "Refit unit 2." in str(many)


def test_many_fits_of_one_data_set(target):
    data, right = FITS["unit 0"]
    wrong = taddaa.Gaussian(right.mean() + 1.0, np.sqrt(right.covariance()))
    many = taddaa.diagnose_many(taddaa.Target(logdensity, 2, data=data), [right, wrong], settings=QUICK, var_names="x[0]")
    assert many.refit == ["1"] and list(many.to_dataframe()["quantities"]) == [2, 2]


def test_what_cannot_be_diagnosed_does_not_stop_the_others(target):
    fits = {**APPROXIMATIONS, "unit 1": taddaa.Gaussian([0.0], [1.0])}
    datas = {**DATAS, "unit 3": {"y": np.zeros((7, 2))}}
    many = taddaa.diagnose_many(target, fits, datas, settings=QUICK)
    assert set(many.failures) == {"unit 1", "unit 3"} and many.refit == ["unit 2", "unit 1", "unit 3"]
    failed = many.to_dataframe().set_index("name").loc["unit 3"]
    assert failed["verdict"] == "failed" and "data must have the shapes of the target's own" in failed["reason"]


def test_reports_are_kept_found_again_and_shared(target, tmp_path, monkeypatch):
    made = []
    real = module.diagnose
    monkeypatch.setattr(module, "diagnose", lambda *args: made.append(args) or real(*args))
    seen = []
    call = {"settings": QUICK, "folder": tmp_path}
    half = taddaa.diagnose_many(target, APPROXIMATIONS, DATAS, share=(0, 2), progress=lambda *at: seen.append(at), **call)
    assert len(made) == 2 and half.missing == ["unit 1", "unit 3"] and seen == [(1, 2), (2, 2)]
    assert "2 still to be made" in str(half)
    other = taddaa.diagnose_many(target, APPROXIMATIONS, DATAS, share=(1, 2), **call)
    assert len(made) == 4 and not other.missing
    whole = taddaa.diagnose_many(target, APPROXIMATIONS, DATAS, **call)
    assert len(made) == 4 and content(whole.reports["unit 2"]) == content(half.reports["unit 2"])
    taddaa.diagnose_many(target, {**APPROXIMATIONS, "unit 0": FITS["unit 1"][1]}, DATAS, **call)
    assert len(made) == 5  # another fit under an old name is made again
    taddaa.diagnose_many(target, APPROXIMATIONS, {**DATAS, "unit 3": {"y": DATAS["unit 3"]["y"] + 1}}, **call)
    assert len(made) == 6
    taddaa.diagnose_many(target, APPROXIMATIONS, DATAS, seed=1, **call)
    assert len(made) == 10


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("approximations must be a dict by name or a list, got Gaussian", {"approximations": APPROXIMATIONS["unit 0"]}),
        ("approximations must hold at least one", {"approximations": []}),
        ("datas must have the names of approximations", {"datas": [DATAS["unit 0"]]}),
        (r"share must be \(k, n\) with 0 ≤ k < n, got \(2, 2\)", {"share": (2, 2)}),
        ("share needs a folder", {"share": (0, 2)}),
    ],
)
def test_wrong_use(target, match, change):
    with pytest.raises(taddaa.InputError, match=match):
        taddaa.diagnose_many(**{"target": target, "approximations": APPROXIMATIONS, "datas": DATAS, "settings": QUICK, **change})


def test_other_data_of_a_target():
    target = taddaa.Target(logdensity, 2, data={"y": np.zeros((5, 2))})
    assert target.with_data({"y": np.ones((5, 2))}).data["y"][0, 0] == 1
    with pytest.raises(taddaa.InputError, match="data must have the shapes"):
        target.with_data({"y": np.ones((5, 2), np.float32).astype(int)})
