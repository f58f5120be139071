"""Pictures are tested by the data they draw, and drawn with the names nobody expects."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import taddaa
from sample_reports import NASTY, clean_report, demo_report, doubtful_report, wide_report
from taddaa.cli import demo
from taddaa.show import plot, series
from taddaa.verdict.outcome import ERROR, UNTRUSTED, VERDICTS, WITHIN

REPORTS = {"demo": demo_report, "wide": wide_report, "doubtful": doubtful_report, "clean": clean_report}
PICTURES = {
    "forest": plot.forest,
    "movement": plot.movement,
    "correlation": plot.correlation,
    "marginals": plot.marginals,
    "kernel": plot.kernel,
    "side_by_side": lambda report: plot.side_by_side({"one": report, "$other$": report}),
    "pairs": plot.pairs,
}


def drawn(axes):
    return [line.get_xydata() for line in axes.lines if len(line.get_xydata())]


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("report", REPORTS)
def test_every_picture_of_every_report_can_be_drawn(picture, report, tmp_path):
    PICTURES[picture](REPORTS[report]()).savefig(tmp_path / "x.png", dpi=40)


def test_forest_draws_intervals_and_bounds_worst_first():
    report = demo_report()
    axes = plot.forest(report).axes[0]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == [series.name(row) for row in report.worst()]
    for y, row in enumerate(report.worst()):
        lines = [line.get_xdata() for line in axes.lines if len(line.get_ydata()) == 2 and np.all(np.asarray(line.get_ydata()) == y)]
        scale = row.relative_bound / row.bound if row.bound > 0 else report_scale(report, row)
        np.testing.assert_allclose(lines[0], [row.lower * scale, row.upper * scale], rtol=1e-6)
        if row.verdict == ERROR:
            np.testing.assert_allclose(np.abs(lines[1]), [0, row.relative_bound])
            assert np.sign(lines[1][1]) == np.sign(row.lower)
        else:
            assert len(lines) == 1


def report_scale(report, row):
    """Means without a bound: the moved draws' own standard deviation, recomputed here; of= rows have no draws."""
    if row.functional == "variance":
        return 1.0
    if row.parameter in report.labels:
        return 1 / report.moved[row.parameter].std()
    return 1 / series.units(report)[report.rows.index(row)]


def test_unit_of_a_function_without_a_bound_is_its_standard_deviation():
    report = demo_report()
    row = report.rows[-2]
    draws = 1 / (1 + np.exp(-report.moved.sum(axis=1)))
    assert row.functional == "mean" and row.bound < 1e-5
    np.testing.assert_allclose(series.units(report)[-2], draws.std())


def test_units_of_every_kind_of_row():
    """Quantiles and covariances with and without a bound, of parameters and of functions, against the moved draws."""
    functionals = [
        taddaa.Quantile(0.9),
        taddaa.Quantile(0.9, of=lambda x: x[0] + x[1], name="sum"),
        taddaa.Covariance("x[0]", "x[1]"),
        taddaa.Mean(of=lambda x: x[0] + x[1], name="sum"),
    ]
    report = taddaa.diagnose(lambda x: -(x @ x) / 2, taddaa.Gaussian([0.0, 0.0], [1.0, 1.0]), functionals=functionals)
    sd = report.moved.std().to_numpy()
    expected = [sd[0], sd[1], report.moved.sum(axis=1).std(), sd.prod(), report.moved.sum(axis=1).std()]
    found = series.units(report)
    np.testing.assert_allclose(found, expected)
    assert series.quantile_level("q0.9") == 0.9
    assert series.quantile_level("quadratic") is None
    assert series.quantile_level("mean") is None


def test_forest_of_many_rows_shows_the_top_and_counts_the_rest():
    report = wide_report()
    shown = series.forest(report, top=20)
    assert len(shown.rows) == 20
    hidden = report.worst()[20:]
    assert shown.rest.startswith("and 380 more: ")
    assert f"{sum(row.verdict == ERROR for row in hidden)} with bounds" in shown.rest
    assert min(row.relative_bound for row in shown.rows) >= max(row.relative_bound for row in hidden)
    assert series.forest(report, top=1000).rest == ""


def test_untrusted_rows_get_no_bar():
    axes = plot.forest(doubtful_report()).axes[0]
    assert {row.verdict for row in doubtful_report().rows} == {UNTRUSTED}
    assert all(line.get_linewidth() < 3 for line in axes.lines)


def test_each_verdict_has_its_own_colour_and_marker():
    for table in (plot.COLOUR, plot.MARKER):
        assert set(table) == set(VERDICTS) and len(set(table.values())) == len(VERDICTS)
    report = replace(demo_report(), rows=tuple(replace(row, verdict=WITHIN) for row in demo_report().rows))
    axes = plot.forest(report).axes[0]
    marks = [line for line in axes.lines if line.get_marker() == "^" and len(line.get_xdata()) == 1]
    assert len(marks) == 10 and {line.get_color() for line in marks} == {plot.GREEN}
    assert all(line.get_linewidth() < 3 for line in axes.lines)  # no bar: the size of the error does not matter


def test_the_tolerance_is_a_band_around_zero():
    report = demo_report()
    bands = {bar.get_y() + 0.5: (bar.get_x(), bar.get_width()) for bar in plot.forest(report).axes[0].patches}
    for y, row in enumerate(report.worst()):
        allowed = 0.15 if row.functional == "variance" else 0.1
        np.testing.assert_allclose(bands[y], [-allowed, 2 * allowed])
    axes = plot.forest(report, tolerance=0.3).axes[0]
    assert {bar.get_width() for bar in axes.patches} == {0.6}
    narrow = replace(report, rows=tuple(replace(row, lower=-0.001, upper=0.001) for row in report.rows))
    low, high = plot.forest(narrow).axes[0].get_xlim()
    assert low < -0.15 and high > 0.15  # the band is seen whole


def test_infinite_intervals_reach_the_edge():
    report = clean_report()
    rows = (replace(report.rows[0], lower=-np.inf, upper=np.inf), *report.rows[1:])
    axes = plot.forest(replace(report, rows=rows)).axes[0]
    assert all(np.all(np.isfinite(data)) for data in drawn(axes))


def test_movement_draws_the_way_from_q():
    report = demo_report()
    axes = plot.movement(report, rows=[5]).axes[0]
    way = next(data for data in drawn(axes) if len(data) == len(report.paths.snapshots))
    np.testing.assert_allclose(way[:, 0], report.paths.snapshots)
    np.testing.assert_allclose(way[:, 1], report.paths.estimate[:, 5] - report.paths.reference[5])


def test_settle_point_by_hand():
    report = clean_report()
    estimate = report.paths.estimate.copy()
    error = np.full_like(report.paths.error, 0.01)
    count = len(estimate)
    estimate[:, 0] = [0.0, 0.5] + [1.0] * (count - 2)
    estimate[:, 1] = np.arange(count)
    moved = replace(report, paths=replace(report.paths, estimate=estimate, error=error))
    first, second = series.movements(moved, rows=[0, 1])
    assert first.settled == report.paths.snapshots[2]
    assert second.settled is None
    unsettled = tuple(replace(check, passed=False, rows=(0,)) if check.name == "settled" else check for check in report.checks)
    assert series.movements(replace(moved, checks=unsettled), rows=[0])[0].settled is None


def test_correlation_draws_paths_and_the_cutoff():
    report = demo_report()
    axes = plot.correlation(report).axes[0]
    longest = max(drawn(axes), key=len)
    np.testing.assert_allclose(longest[:, 1], np.maximum(report.paths.rho2_max, 1e-3))
    assert any(np.all(data[:, 1] == 0.1) for data in drawn(axes))
    shown = series.memory(report)
    assert len({row.parameter for row in shown.rows}) == len(shown.rows)


def test_marginals_are_smooth_densities_of_the_draws():
    report = demo_report()
    (one,) = series.marginals(report, ["cucumber"])
    for density, draws in ((one.before, report.start_draws), (one.after, report.moved_draws)):
        column = draws[:, report.labels.index("cucumber")]
        inside = np.mean((column >= one.at[0]) & (column <= one.at[-1]))
        assert np.trapezoid(density, one.at) == pytest.approx(inside, abs=0.02)
        assert inside > 0.97
        spread = column.std(ddof=1)  # a normal density of that spread, a little wider for the kernel
        assert density.max() == pytest.approx(1 / np.sqrt(2 * np.pi) / spread, rel=0.2)


def test_a_density_is_scipys():
    draws = np.random.default_rng(1).normal(3.0, 2.0, 500)
    at = np.linspace(-3, 9, 50)
    width = 0.9 * min(draws.std(), np.subtract(*np.quantile(draws, [0.75, 0.25])) / 1.34) * 500**-0.2
    expected = stats.gaussian_kde(draws, bw_method=width / draws.std(ddof=1))(at)
    np.testing.assert_allclose(series.density(draws, at), expected, rtol=1e-4, atol=1e-6)


def test_heavy_tails_are_no_spike():
    draws = np.random.default_rng(2).standard_cauchy((400, 4)) * 3
    heavy = replace(demo_report(), start_draws=draws, moved_draws=draws)
    one = series.marginals(heavy, ["cucumber"])[0]
    assert one.at[-1] - one.at[0] < 100 < np.ptp(draws[:, 2])
    assert np.mean(one.before > one.before.max() / 2) > 0.05  # the bulk takes more than a point or two


def test_kernel_draws_acceptance_and_step():
    report = demo_report()
    above, below = plot.kernel(report).axes
    np.testing.assert_allclose(drawn(above)[0][:, 1], report.paths.acceptance)
    np.testing.assert_allclose(drawn(below)[0][:, 1], report.paths.step)


def wider_report():
    """The same target with another approximation."""
    arguments = demo.problem()
    mean, sd = demo.fit()
    return taddaa.diagnose(**{**arguments, "approximation": taddaa.Gaussian(mean, 1.5 * sd)}, seed=1)


def test_side_by_side_draws_each_reports_intervals():
    first, second = demo_report(), wider_report()
    shown = series.bounds({"a": first, "b": second}, top=100)
    for k, report in enumerate((first, second)):
        unit = dict(zip(((r.functional, r.parameter) for r in report.rows), series.units(report), strict=True))
        for q, key in enumerate(shown.quantities):
            row = next(r for r in report.rows if (r.functional, r.parameter) == key)
            assert (shown.bound[q, k], shown.lower[q, k], shown.upper[q, k]) == (
                row.relative_bound,
                row.lower / unit[key],
                row.upper / unit[key],
            )
    axes = plot.side_by_side({"a": first, "b": second}).axes[0]
    lines = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    assert any(np.allclose(line, [shown.lower[0, 0], shown.upper[0, 0]]) for line in lines)


def test_side_by_side_refuses_other_targets():
    with pytest.raises(taddaa.InputError, match=r"must be of the same target, but .* is a parameter of only one"):
        plot.side_by_side({"a": demo_report(), "b": clean_report()})
    moved = {"corrected": 5.0, "corrected_lower": 4.9, "corrected_upper": 5.1}
    other = replace(demo_report(), rows=(replace(demo_report().rows[0], **moved), *demo_report().rows[1:]))
    with pytest.raises(taddaa.InputError, match=r"the right mean of intercept is -0\.549 in 'a' and 5 in 'b'"):
        plot.side_by_side({"a": demo_report(), "b": other})


def test_pairs_draw_both_sets_of_draws():
    report = demo_report()
    figure = plot.pairs(report, ["intercept", "cucumber"])
    below = figure.axes[1]
    i, j = report.labels.index("cucumber"), report.labels.index("intercept")
    before, after = drawn(below)
    np.testing.assert_array_equal(before, report.start_draws[:, [j, i]])
    np.testing.assert_array_equal(after, report.moved_draws[:, [j, i]])
    assert len(plot.pairs(report, top=3).axes) == 6


def test_failed_checks_are_drawn():
    report = doubtful_report()
    figure = plot.checks(report)
    assert len(figure.axes) == len(series.statistics(report)) == 4
    with pytest.raises(taddaa.InputError, match="no such check"):
        plot.checks(demo_report())


def test_figures_show_themselves_in_a_notebook():
    assert plot.forest(demo_report())._repr_png_().startswith(b"\x89PNG")


def test_names_are_text_not_formulas():
    report = wide_report()
    rows = [i for i, row in enumerate(report.rows) if row.parameter in NASTY and row.functional == "mean"]
    titles = [axes.get_title() for axes in plot.movement(report, rows=rows).axes]
    assert any("$\\alpha_{1}$" in title for title in titles)
    assert any("□ emoji" in title for title in titles)
    assert all(len(title) < 60 for title in titles)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plot.forest(demo_report(), top=0),
        lambda: plot.movement(demo_report(), rows=[99]),
        lambda: plot.marginals(demo_report(), ["nobody"]),
        lambda: plot.side_by_side({}),
    ],
)
def test_wrong_use_is_one_sentence(wrong):
    with pytest.raises(taddaa.InputError):
        wrong()
