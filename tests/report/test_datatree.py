"""The report as a DataTree: what ArviZ opens is what the report holds."""

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from frameworks import need
from taddaa.report.datatree import gather, report_to_datatree

need("arviz_base")


@pytest.fixture(scope="module")
def report():
    target = taddaa.Target(
        lambda x: -0.5 * jnp.sum(x**2), 5, constrain=lambda x: {"mu": x[0], "B": x[1:].reshape(2, 2), "sigma": jnp.exp(x[0])}
    )
    return taddaa.diagnose(target, taddaa.Gaussian(np.full(5, 0.5), np.ones(5)), settings=taddaa.Settings(chains=60, budget=1))


def test_draws_come_back_as_the_users_arrays(report):
    tree = report_to_datatree(report)
    posterior, starts = tree["posterior"], tree["starts"]
    assert posterior["B"].shape == (1, 60, 2, 2)
    for label, index in (("B[0,1]", (0, 1)), ("B[1,0]", (1, 0))):
        np.testing.assert_array_equal(posterior["B"].values[0][:, index[0], index[1]], report.moved[label])
    np.testing.assert_array_equal(starts["sigma"].values[0], report.start_draws[:, list(report.labels).index("sigma")])
    assert posterior.attrs["verdict"] == report.verdict


def test_rows_and_checks_are_the_reports(report):
    tree = report_to_datatree(report)
    frame = report.to_dataframe()
    for column in frame.columns:
        np.testing.assert_array_equal(tree["rows"][column].values, frame[column].to_numpy())
    assert {"corrected", "corrected_lower", "corrected_upper"} <= set(tree["rows"].data_vars)
    assert list(tree["checks"]["check"].values) == [check.name for check in report.checks]
    assert list(tree["checks"]["passed"].values) == [check.passed for check in report.checks]


def test_arviz_summarises_stores_and_plots_it(report, tmp_path):
    tree = report_to_datatree(report)
    summary = need("arviz_stats").summary(tree, kind="stats", round_to="none")
    np.testing.assert_allclose(summary.loc["mu", "mean"], report.moved["mu"].mean())
    tree.to_netcdf(tmp_path / "report.nc")
    stored = need("xarray").open_datatree(tmp_path / "report.nc")
    np.testing.assert_array_equal(stored["posterior"]["mu"], tree["posterior"]["mu"])
    stored.close()


@pytest.mark.filterwarnings("ignore")
def test_arviz_plots_it(report):
    need("matplotlib").use("Agg")
    plots = need("arviz_plots")
    plots.plot_forest(report_to_datatree(report), backend="matplotlib")
    plots.plot_dist(report_to_datatree(report), group="starts", backend="matplotlib")


def test_labels_of_other_kinds():
    draws = np.arange(12.0).reshape(2, 6)
    parts = gather(["theta[1]", "theta[2]", "eff[A]", "eff[B]", "odd[0,0]", "odd[1,1]"], draws)
    assert parts["theta"].ticks == [[1, 2]] and parts["eff"].ticks == [["A", "B"]]
    np.testing.assert_array_equal(parts["eff"].values, draws[None, :, 2:4])
    assert "odd[0,0]" in parts and parts["odd[1,1]"].values.shape == (1, 2)  # not a full grid: one variable a column
