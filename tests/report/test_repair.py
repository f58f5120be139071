"""Posterior draws from a run: named, on the user's scale, with errors that hold, and refused where nothing can be trusted."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from frameworks import need
from taddaa import Gaussian, InputError, Report, Settings, Target
from taddaa.report.repair import summarised

need("arviz_base")
MEAN, SD = np.array([1.0, -2.0, 0.5]), np.array([1.0, 0.5, 2.0])


def logdensity(x):
    return -0.5 * jnp.sum(((x - MEAN) / SD) ** 2)


def constrain(x):
    return {"scale": jnp.exp(x[0]), "theta": x[1:]}


@pytest.fixture(scope="module")
def report():
    target = Target(logdensity, 3, constrain=constrain)
    return taddaa.diagnose(target, Gaussian(MEAN + 0.3, 0.7 * SD), settings=Settings(chains=200), certify=True, seed=2)


@pytest.fixture(scope="module")
def tree(report):
    return report.repair(draws=2000)


def test_draws_have_names_chains_and_the_users_scale(tree):
    posterior = tree["posterior"]
    assert dict(posterior.sizes) == {"chain": 20, "draw": 100, "theta_dim_0": 2}
    assert float(posterior["scale"].min()) > 0


def test_means_are_the_posteriors_own_within_their_errors(tree):
    truth = np.array([np.exp(MEAN[0] + SD[0] ** 2 / 2), MEAN[1], MEAN[2]])
    summary = tree["summary"].to_dataset()
    assert list(summary["parameter"].values) == ["scale", "theta[0]", "theta[1]"]
    assert np.all(np.abs(summary["mean"].values - truth) < 4 * summary["mcse_mean"].values)
    np.testing.assert_allclose(summary["sd"].values[1:], SD[1:], rtol=0.15)
    assert np.all(summary["ess"].values > 400) and np.all(summary["r_hat"].values < 1.05)


def test_arviz_finds_the_same(tree):
    arviz_stats = need("arviz_stats")
    theirs, ours = arviz_stats.summary(tree, round_to="none"), tree["summary"].to_dataset().to_dataframe()
    np.testing.assert_allclose(theirs["mean"].astype(float), ours["mean"], rtol=1e-9)
    np.testing.assert_allclose(theirs["sd"].astype(float), ours["sd"], rtol=0.02)
    np.testing.assert_allclose(theirs["r_hat"].astype(float), ours["r_hat"], atol=0.02)
    np.testing.assert_allclose(theirs["mcse_mean"].astype(float), ours["mcse_mean"], rtol=0.5)


def test_errors_of_independent_draws():
    draws = np.random.default_rng(0).standard_normal((50, 40, 2)) * [1.0, 3.0]
    found = summarised(draws)
    np.testing.assert_allclose(found.sd, [1, 3], rtol=0.05)
    np.testing.assert_allclose(found.mcse_mean, np.array([1, 3]) / np.sqrt(2000), rtol=0.3)
    np.testing.assert_allclose(found.r_hat, 1.0, atol=0.02)
    apart = summarised(draws + 5 * np.arange(50)[:, None, None])
    assert np.all(apart.r_hat > 2) and np.all(apart.ess < 200)


def test_what_it_took_and_what_it_rests_on_is_with_the_draws(report, tree):
    about = tree["posterior"].attrs
    assert about["certificate"] == report.certificate.sentence
    assert 0 < about["gradients"] < about["gradients_in_all"]


@pytest.mark.parametrize("draws", [0, 39, 1.5, True, 10**9])
def test_so_many_draws_cannot_be_had(report, draws):
    with pytest.raises(InputError, match="draws must be a whole number from 40"):
        report.repair(draws=draws)


def test_it_is_refused_with_the_reason_where_nothing_can_be_trusted(report):
    with pytest.raises(InputError, match="repair needs the process that made the report"):
        Report.from_json(report.to_json()).repair()
    apart = replace(report, certificate=replace(report.certificate, met=report.certificate.pairs - 3))
    with pytest.raises(InputError, match="repair cannot give posterior draws: nothing is certified: 3 of 100 pairs"):
        apart.repair()
    doubtful = replace(report.rows[0], verdict="untrusted", reason="it still moved")
    with pytest.raises(InputError, match=r"1 of 6 quantities are untrusted \(mean of scale: it still moved\)"):
        replace(report, rows=(doubtful, *report.rows[1:])).repair()
    with pytest.raises(InputError, match="needs more than the paper's one check"):
        replace(report, certificate=None, checks=report.checks[:1]).repair()


def test_the_tutorials_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, scope = Path(__file__).parents[2] / "docs" / "certificate.md", {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), scope)
    assert scope["draws"]["posterior"].sizes["draw"] == 100


FILE = """
import jax.numpy as jnp, numpy as np, taddaa
def problem():
    return taddaa.Target(lambda x: -0.5 * jnp.sum(x**2), 2), taddaa.Gaussian(np.array([0.8, 0.0]), np.ones(2))
"""


def test_from_the_command_line(tmp_path):
    xarray = need("xarray")
    need("h5netcdf")
    (tmp_path / "problem.py").write_text(FILE)
    command = [sys.executable, "-m", "taddaa.cli", "run", "problem.py", "--quiet", "--chains", "100", "--json", "report.json"]
    done = subprocess.run([*command, "--repair", "draws.nc"], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (1, "")
    with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as tree:
        assert tree["posterior"]["x"].shape == (40, 100, 2)
        assert abs(float(tree["posterior"]["x"].mean())) < 0.1
    assert Report.from_json(tmp_path / "report.json").certificate.holds
