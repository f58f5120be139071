"""Parameters by name: in diagnose, in functionals, in reports and pictures; constants and bulk have no row by default."""

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa.problem.origin import Origin
from taddaa.problem.selection import chosen

LABELS = ("b[x1]", "b[x2]", "tau", "mu[0]", "mu[1]", "nest.c", "bb")
QUICK = taddaa.Settings(chains=60, budget=1)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("b",), ["b[x1]", "b[x2]"]),
        (("b[x2]",), ["b[x2]"]),
        (("b", "~b[x1]"), ["b[x2]"]),
        (("~mu",), ["b[x1]", "b[x2]", "tau", "nest.c", "bb"]),
        (("tau", "b", "~mu"), ["b[x1]", "b[x2]", "tau"]),
        (("nest",), ["nest.c"]),
    ],
)
def test_names(names, expected):
    assert [LABELS[i] for i in chosen(LABELS, names)] == expected


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (("tua",), r"var_names has 'tua', which is not one of the parameters; did you mean 'tau'\?"),
        (("~zzzz",), "var_names has 'zzzz', which is not one of the parameters; there are b, tau, mu"),
        (("b", "~b"), "leaves nothing to judge"),
    ],
)
def test_names_that_are_not_there(names, match):
    with pytest.raises(taddaa.InputError, match=match):
        chosen(LABELS, names)


def model(derived=(), bulk=30):
    """Standard normal; two entries of `chol` are fixed, one of them up to rounding; `mu` is computed."""

    def constrain(x):
        chol = jnp.array([[1.0, 0.0], [0.0, 0.0]]).at[1].set(jnp.stack([x[2], jnp.sqrt(jnp.sin(x[3]) ** 2 + jnp.cos(x[3]) ** 2)]))
        return {"b": x[:2], "chol": chol, "tau": jnp.exp(x[3]), "positive": (x[0] > -8.0) * 1.0, "mu": x[0] * jnp.arange(1.0, bulk + 1)}

    coords = {"coef": ["x1", "x2"]}
    return taddaa.Target(
        lambda x: -0.5 * jnp.sum(x**2), 4, constrain=constrain, dims={"b": ["coef"]}, coords=coords, origin=Origin(derived=derived)
    )


Q = taddaa.Gaussian(np.zeros(4), np.array([1.0, 0.5, 1.0, 1.0]))


def parameters(report):
    return list(dict.fromkeys(row.parameter for row in report.rows))


@pytest.fixture(scope="module")
def report():
    return taddaa.diagnose(model(("mu",)), Q, settings=QUICK)


def test_constants_and_bulk_have_no_row_and_a_note(report):
    assert parameters(report) == ["b[x1]", "b[x2]", "chol[1,0]", "tau", "positive"]
    assert "mu[29]" in report.labels and report.moved.shape == (60, 38)  # their draws are there
    assert any(note.startswith("computed from the parameters and not judged by default: mu (30 values)") for note in report.notes)
    assert any(note == "chol[0,0] and 2 more: fixed by the model, so no row" for note in report.notes)


def test_small_derived_quantities_and_those_of_no_framework_are_judged():
    assert "mu[9]" in parameters(taddaa.diagnose(model(("mu",), bulk=10), Q, settings=QUICK))
    assert "mu[29]" in parameters(taddaa.diagnose(model(()), Q, settings=QUICK))


def test_what_is_asked_by_name(report):
    asked = [
        taddaa.Mean("mu[3]"),
        taddaa.Quantile(0.9, "b[x1]"),
        taddaa.Variance(["b", "~b[x1]"]),
        taddaa.Mean(of=lambda p: p["tau"], name="t"),
    ]
    found = taddaa.diagnose(model(("mu",)), Q, asked, QUICK)
    assert [(row.functional, row.parameter) for row in found.rows] == [
        ("mean", "mu[3]"),
        ("q0.9", "b[x1]"),
        ("variance", "b[x2]"),
        ("mean", "t"),
    ]
    by_names = taddaa.diagnose(model(("mu",)), Q, [taddaa.Mean(), taddaa.Quantile(0.9)], QUICK, var_names=["b", "mu[3]"])
    assert [(row.functional, row.parameter) for row in by_names.rows] == [
        (functional, label) for functional in ("mean", "q0.9") for label in ("b[x1]", "b[x2]", "mu[3]")
    ]
    same = {(row.functional, row.parameter): row for row in by_names.rows}
    assert found.rows[0].moved == same["mean", "mu[3]"].moved  # the same chains, whatever is asked
    with pytest.raises(taddaa.InputError, match=r"chol\[0,0\] has the same value whatever the parameters are"):
        taddaa.diagnose(model(), Q, taddaa.Mean("chol[0,0]"), QUICK)


def test_closed_forms_stay_with_names():
    """Without constrain the functional of a Gaussian is exact, for one parameter as for all."""
    target, q = taddaa.Target(lambda x: -0.5 * x @ x, 3, names=["a", "b", "c"]), taddaa.Gaussian([0.1, 0.2, 0.3], [1.0, 1.0, 1.0])
    report = taddaa.diagnose(target, q, [taddaa.Mean("c"), taddaa.Quantile(0.5, "b")], QUICK)
    assert [row.approximation for row in report.rows] == [0.3, 0.2]


def test_fewer_rows_have_narrower_intervals(report):
    alone = taddaa.diagnose(model(("mu",)), Q, settings=QUICK, var_names="tau")
    wide = next(row for row in report.rows if (row.functional, row.parameter) == ("mean", "tau"))
    narrow = alone.rows[0]
    assert narrow.upper - narrow.lower < wide.upper - wide.lower


def test_a_report_on_some_of_its_parameters(report):
    part = report.select(["b", "~b[x1]"])
    assert parameters(part) == ["b[x2]"] and part.labels == ("b[x2]",) and len(part.rows) == 2
    whole = report.to_dataframe()
    assert part.to_dataframe().equals(whole[whole["parameter"] == "b[x2]"].reset_index(drop=True))
    assert report.to_dataframe(["b", "~b[x1]"]).equals(part.to_dataframe())
    where = [i for i, row in enumerate(report.rows) if row.parameter == "b[x2]"]
    np.testing.assert_array_equal(part.paths.estimate, report.paths.estimate[:, where])
    for check, full in zip(part.checks, report.checks, strict=True):
        np.testing.assert_array_equal(check.concerned(2), full.concerned(len(report.rows))[where])
    assert "b[x2]" in str(part) and "tau" not in str(part).partition("Checks")[0]
    assert taddaa.Report.from_json(part.to_json()).labels == part.labels
    with pytest.raises(taddaa.InputError, match=r"no rows of mu\[0\].*diagnose\(..., var_names=\['mu'\]\) judges them"):
        report.select("mu")


def test_pictures_of_some_parameters(report):
    for draw in (taddaa.plot.forest, taddaa.plot.movement, taddaa.plot.correlation, taddaa.plot.marginals):
        figure = draw(report, var_names=["tau"])
        text = " ".join(
            text.get_text()
            for axes in figure.axes
            for text in [axes.title, *axes.get_yticklabels(), *(axes.get_legend().get_texts() if axes.get_legend() else ())]
        )
        assert "tau" in text and "x1" not in text
