"""The paper's studies: the frame, the known targets, the claims' arithmetic, and quick versions of the studies on them."""

import json
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from taddaa import InputError, cli, experiments
from taddaa.cli import commands, parser  # noqa: F401  loaded before a test puts other studies in the place of theirs
from taddaa.experiments import chaos, run, synthetic, vi
from taddaa.experiments.dimension import thinned
from taddaa.experiments.gaussian import CorrelatedGaussian
from taddaa.experiments.page import write_page
from taddaa.experiments.run import reproduce
from taddaa.experiments.study import DIFFERENT, NOT_REPRODUCED, OURS, PAPER, REPRODUCED, Cell, Claim, Store, Study, Table

# A study that takes no time -----------------------------------------------------------------------------------------------------


class Toy(Study):
    name, title, place = "toy", "A toy", "section 0"
    about = "Nothing | much."

    def __init__(self, stop_at=None):
        self.ran, self.stop_at = [], stop_at

    def cells(self, quick):
        return [Cell(f"n={n}", {"n": n}) for n in range(2 if quick else 4)]

    def run(self, cell, store):
        if cell.parameters["n"] == self.stop_at:
            raise KeyboardInterrupt
        self.ran.append(cell.parameters["n"])
        return {"square": np.int64(cell.parameters["n"] ** 2), "list": np.arange(2.0), "missing": float("nan")}

    def claims(self, results):
        most = max(r["square"] for r in results)
        return [
            Claim.judged("figure 0", "squares | are large", {"largest": most, "nothing": np.nan}, "above 5", most > 5, reason="so it is"),
            Claim.judged("our aim", "ours", {"largest": most}, "above 5", most > 5, method=OURS),
        ]

    def figures(self, results):
        figure = Figure()
        figure.subplots().plot([r["n"] for r in results], [r["square"] for r in results])
        return {"squares": (figure, "Squares.")}

    def table(self, results):
        return Table(["n", "square"], [[r["n"], float(r["square"])] for r in results])


def test_a_study_leaves_numbers_claims_and_figures(tmp_path):
    told: list[str] = []
    content = reproduce(Toy(), tmp_path, tell=told.append)
    assert [r["square"] for r in content["results"]] == [0, 1, 4, 9]
    assert [claim["verdict"] for claim in content["claims"]] == [REPRODUCED, REPRODUCED]
    assert len(told) == 4 and told[3].startswith("toy 4/4  n=3")

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    stored = json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert stored == content
    assert stored["results"][1] == {"cell": "n=1", "n": 1, "square": 1, "list": [0.0, 1.0], "missing": None}
    assert (tmp_path / "toy-squares.png").stat().st_size > 1000 and (tmp_path / "toy-squares.svg").stat().st_size > 1000


def test_quick_is_kept_apart(tmp_path):
    reproduce(Toy(), tmp_path)
    quick = Toy()
    content = reproduce(quick, tmp_path, quick=True)
    assert quick.ran == [0, 1]
    assert content["claims"][0]["verdict"] == NOT_REPRODUCED
    assert {path.name for path in tmp_path.glob("*.json")} == {"toy.json", "toy-quick.json"}


def test_a_stopped_run_goes_on(tmp_path):
    stopped = Toy(stop_at=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce(stopped, tmp_path)
    assert stopped.ran == [0, 1] and not (tmp_path / "toy.json").exists()
    again = Toy()
    assert len(reproduce(again, tmp_path)["results"]) == 4
    assert again.ran == [2, 3]
    third = Toy()
    reproduce(third, tmp_path)
    assert third.ran == []


@pytest.mark.parametrize("damage", ["", "{", '{"key": 1}', "[]", '{"key": {}, "value": {}}', "half"])
def test_a_damaged_cell_is_measured_again(tmp_path, damage):
    before = reproduce(Toy(), tmp_path)
    (cell,) = (tmp_path / "cells" / "toy").glob("n_2-*.json")
    cell.write_text(cell.read_text()[: cell.stat().st_size // 2] if damage == "half" else damage)
    again = Toy()
    assert reproduce(again, tmp_path)["results"] == before["results"]
    assert again.ran == [2]


def test_a_changed_measurement_is_made_again_but_not_for_a_figure(tmp_path):
    reproduce(Toy(), tmp_path)

    class OtherFigure(Toy):
        def figures(self, results):
            return {}

    class OtherMeasurement(Toy):
        def run(self, cell, store):
            return {**super().run(cell, store), "cube": 0}

    class OtherSource(Toy):
        sources = (np.mean,)

    for kind, anew in ((OtherFigure, []), (OtherMeasurement, [0, 1, 2, 3]), (OtherSource, [0, 1, 2, 3])):
        study = kind()
        reproduce(study, tmp_path)
        assert study.ran == anew, kind


def test_a_killed_process_goes_on(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time\n"
        "from test_reproduce import Toy\n"
        "from taddaa.experiments.run import reproduce\n"
        "class Slow(Toy):\n"
        "    def run(self, cell, store):\n"
        "        time.sleep(60 if cell.parameters['n'] == 2 and 'slow' in sys.argv else 0)\n"
        "        return super().run(cell, store)\n"
        "study = Slow()\n"
        "reproduce(study, sys.argv[1])\n"
        "print(study.ran)\n"
    )
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, script, tmp_path / "out", "slow"], env=path)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "out" / "cells" / "toy").glob("n_1-*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()
    again = subprocess.run([sys.executable, script, tmp_path / "out"], env=path, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == "[2, 3]"


def test_a_store_makes_a_value_once(tmp_path):
    store, made = Store(tmp_path / "new" / "folder"), []

    def make():
        made.append(1)
        return {"array": np.array([1.0, np.inf]), "whole": np.int32(3)}

    first = store.once("a/b c", {"seed": 0}, make)
    assert store.once("a/b c", {"seed": 0}, make) == first == {"array": [1.0, np.inf], "whole": 3}
    store.once("a/b c", {"seed": 1}, make)
    assert len(made) == 2
    with pytest.raises(TypeError, match="plain values, got set"):
        store.put("bad", {}, {1})
    assert store.get("bad", {}) is None


def test_a_verdict_follows_the_condition():
    judged = [
        Claim.judged("", "", {}, "", holds, partly=partly).verdict for holds, partly in ((True, False), (False, True), (False, False))
    ]
    assert judged == [REPRODUCED, DIFFERENT, NOT_REPRODUCED]


# The page -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch):
    """The toy in the place of all studies."""
    monkeypatch.setattr(experiments, "STUDIES", {"toy": "nowhere"})
    monkeypatch.setattr("taddaa.experiments.page.STUDIES", {"toy": "nowhere", "other": "nowhere"})
    for module in ("commands", "parser"):
        monkeypatch.setattr(f"taddaa.cli.{module}.STUDIES", {"toy": "nowhere", "other": "nowhere"})


def test_the_page_shows_every_claim_with_its_numbers(tmp_path, toy):
    reproduce(Toy(), tmp_path / "out")
    (tmp_path / "docs").mkdir()
    write_page(tmp_path / "out", tmp_path / "docs" / "paper.md")
    page = (tmp_path / "docs" / "paper.md").read_text(encoding="utf-8")
    assert "Not run yet: other." in page
    assert "| squares \\| are large (figure 0) | above 5 | largest 9; nothing – | **✓ reproduced** [1] |" in page
    assert "\n1. so it is\n" in page
    assert "| [toy](#toy) | section 0 | 1 | 0 | 0 | 1 of 1 |" in page and "| **all** | | 1 | 0 | 0 | 1 of 1 |" in page
    assert "What did not simply come out" not in page
    reproduce(Toy(), tmp_path / "out", quick=True)
    write_page(tmp_path / "out", tmp_path / "docs" / "quick.md", quick=True)
    assert "- [toy](#toy), **not reproduced**: squares | are large" in (tmp_path / "docs" / "quick.md").read_text(encoding="utf-8")
    assert "| 3 | 9 |" in page
    (picture,) = (tmp_path / "docs" / "img" / "paper").glob("toy-squares.*")
    assert f"(img/paper/{picture.name})" in page
    assert picture.stat().st_size == min((tmp_path / "out" / f"toy-squares.{kind}").stat().st_size for kind in ("png", "svg"))


def test_a_page_of_nothing_is_refused(tmp_path, toy):
    with pytest.raises(InputError, match="holds none; run taddaa reproduce all"):
        write_page(tmp_path, tmp_path / "paper.md")
    (tmp_path / "toy.json").write_text("{half")
    with pytest.raises(InputError, match="holds none"):
        write_page(tmp_path, tmp_path / "paper.md")


# The command --------------------------------------------------------------------------------------------------------------------


def test_an_unknown_study_is_one_sentence(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["reproduce", "nothing"])
    assert stopped.value.code == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert "invalid choice: 'nothing'" in told[-1] and "gaussian" in told[-1] and "all" in told[-1]


def test_help_names_the_studies_without_jax():
    code = "import sys, taddaa.cli as c\ntry: c.main(['reproduce', '--help'])\nexcept SystemExit: pass\nassert 'jax' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in experiments.STUDIES:
        assert name in shown


def test_every_study_loads_and_knows_its_cells():
    for name in experiments.STUDIES:
        study = experiments.load(name)
        assert study.name == name and study.title and study.place
        for quick in (True, False):
            cells = [cell.name for cell in study.cells(quick)]
            assert cells and len(set(cells)) == len(cells)
        assert len(study.cells(True)) < len(study.cells(False))
        assert study.stamp() == experiments.load(name).stamp()


def test_the_command_prints_claims_and_goes_on_after_a_failure(tmp_path, toy, monkeypatch, capsys):
    class Failing(Toy):
        def run(self, cell, store):
            raise InputError("the data cannot be had; set TADDAA_DATA")

    monkeypatch.setattr(experiments, "load", {"toy": Failing(), "other": Toy()}.get)
    assert cli.main(["reproduce", "all", "--out", str(tmp_path / "new" / "out")]) == 2
    printed = capsys.readouterr()
    assert "taddaa: toy: the data cannot be had; set TADDAA_DATA" in printed.err
    assert "toy 4/4  n=3" in printed.err
    assert "reproduced      squares | are large [figure 0; paper]" in printed.out
    assert "above 5: largest 9, nothing –. so it is" in printed.out
    monkeypatch.setattr(experiments, "load", {"toy": Toy(), "other": Toy()}.get)
    assert cli.main(["reproduce", "toy", "--quick", "--quiet", "--out", str(tmp_path), "--page", str(tmp_path / "p.md")]) == 0
    assert capsys.readouterr() == ("", "")
    assert "reproduce all --quick" in (tmp_path / "p.md").read_text(encoding="utf-8")


def test_outputs_that_cannot_be_written_are_refused_before_the_work(tmp_path, toy, monkeypatch, capsys):
    study = Toy()
    monkeypatch.setattr(experiments, "load", lambda name: study)
    (tmp_path / "file").write_text("")
    assert cli.main(["reproduce", "toy", "--out", str(tmp_path / "file")]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err
    assert cli.main(["reproduce", "toy", "--out", str(tmp_path), "--page", str(tmp_path / "no" / "page.md")]) == 2
    assert study.ran == []


# Known targets ------------------------------------------------------------------------------------------------------------------


def _differences(values):
    return np.asarray(values) - np.asarray(values)[0]


def test_the_gaussian_is_scipys():
    d, points = 4, np.random.default_rng(0).normal(size=(6, 4))
    with jax.enable_x64(True):
        ours = [float(synthetic.correlated_gaussian(d).logdensity(x)) for x in points]
    sd = np.array([np.sqrt(10), 1, 1, 1])
    covariance = np.where(np.eye(d), 1, 0.7) * np.outer(sd, sd)
    assert _differences(ours) == pytest.approx(_differences(stats.multivariate_normal.logpdf(points, np.zeros(d), covariance)), rel=1e-6)


def test_the_funnel_is_scipys():
    points = np.random.default_rng(0).normal(size=(6, 5))
    with jax.enable_x64(True):
        ours = [float(synthetic.funnel(5).logdensity(x)) for x in points]
    first = stats.norm.logpdf(points[:, 0])
    others = stats.norm.logpdf(points[:, 1:], scale=np.exp(points[:, :1] / 2)).sum(axis=1)
    assert _differences(ours) == pytest.approx(_differences(first + others), rel=1e-6)


def test_the_funnels_moments_and_quantiles_are_those_of_draws():
    rng = np.random.default_rng(1)
    x1 = rng.normal(size=2_000_000)
    x2 = rng.normal(size=len(x1)) * np.exp(x1 / 2)
    assert np.diag(synthetic.funnel_covariance(2)) == pytest.approx([x1.var(), x2.var()], rel=0.01)
    assert synthetic.funnel_quantile(0.9) == pytest.approx(np.quantile(x2, 0.9), rel=0.005)
    assert synthetic.funnel_quantile(0.5) == 0
    assert synthetic.normal_quantile(0.9) == pytest.approx(np.quantile(x1, 0.9), rel=0.005)


def test_mean_field_fits_come_to_the_known_optimum(tmp_path):
    """The best independent Gaussian has variances 1/(Σ⁻¹)ᵢᵢ; for the funnel 2/(d + 1) and exp(−1/(d + 1)), with means 0."""
    store, d = Store(tmp_path), 4
    known = {
        "gaussian": (synthetic.correlated_gaussian(d), 1 / np.diag(np.linalg.inv(synthetic.gaussian_covariance(d)))),
        "funnel": (synthetic.funnel(d), np.array([2 / (d + 1), *[np.exp(-1 / (d + 1))] * (d - 1)])),
    }
    for name, (target, variance) in known.items():
        fitted = vi.mean_field(store, {name: d}, target, tolerance=0.05)
        assert fitted.converged and fitted.gradients > 1000
        assert np.log(fitted.approximation.covariance() / variance) == pytest.approx(np.zeros(d), abs=0.1)
        assert fitted.approximation.mean() / np.sqrt(variance) == pytest.approx(np.zeros(d), abs=0.1)
        again = vi.mean_field(store, {name: d}, target, tolerance=0.05)
        assert np.array_equal(again.approximation.mean(), fitted.approximation.mean()) and again.gradients == fitted.gradients


# The claims' arithmetic ---------------------------------------------------------------------------------------------------------


def _result(d, method, bound=0.8, error=1.0, verdict="error", rho2=0.02, k_hat=0.9):
    row = {"error": error, "unit": 1.0, "bound": [bound] * 3, "bound_alone": [bound] * 3, "verdict": [verdict] * 3, "reason": ""}
    calm = {**row, "error": 0.02, "bound": [0.0] * 3, "bound_alone": [0.0] * 3}
    rows = {"X1 mean": calm, "X2 mean": calm, "X1 variance": row, "X2 variance": row}
    nothing = [float("nan")] * 3
    return {
        **{"d": d, "method": method, "rows": rows, "rho2_max": [rho2] * 3, "k_hat": [k_hat] * 3, "covariance_error": 1.0},
        **{"w_mean": nothing, "w_covariance": nothing, "iterations": [10] * 3, "path": {"iteration": [1, 2], "value": [1, 0.5]}},
    }


def _verdicts(results):
    claims = CorrelatedGaussian().claims(results)
    find = {
        "valid": "remain valid",
        "useful": "and useful",
        "mix": "mix well",
        "k_hat": "almost any dimension",
        "loose": "never looser",
        "tight": "stay tight",
        "honest": "untrusted rather than",
    }
    return {key: next(claim.verdict for claim in claims if text in claim.text) for key, text in find.items()}


def test_claims_follow_the_numbers():
    good = [_result(d, method) for d in (2, 128) for method in (PAPER, OURS)]
    assert set(_verdicts(good).values()) == {REPRODUCED}


@pytest.mark.parametrize(
    ("change", "claim", "verdict"),
    [
        ({PAPER: {"bound": 1.2}}, "valid", NOT_REPRODUCED),
        ({PAPER: {"bound": 0.0}}, "useful", DIFFERENT),
        ({PAPER: {"rho2": 0.11}}, "mix", NOT_REPRODUCED),
        ({PAPER: {"k_hat": 0.6}}, "k_hat", NOT_REPRODUCED),
        ({OURS: {"bound": 0.5}}, "loose", NOT_REPRODUCED),
        ({OURS: {"bound": 0.5}}, "tight", NOT_REPRODUCED),
        ({PAPER: {"bound": 1.2}, OURS: {"bound": 0.8}}, "loose", REPRODUCED),
        ({OURS: {"bound": 1.2}}, "honest", NOT_REPRODUCED),
        ({OURS: {"bound": 1.2, "verdict": "untrusted"}}, "honest", REPRODUCED),
    ],
)
def test_a_claim_that_fails_is_said_to_fail(change, claim, verdict):
    """Only at d = 128, so that a claim about small d still holds."""
    results = [_result(d, method, **(change.get(method, {}) if d == 128 else {})) for d in (2, 128) for method in (PAPER, OURS)]
    assert _verdicts(results)[claim] == verdict


@pytest.mark.parametrize(("bound", "untrusted", "verdict"), [(1.0, 0.4, REPRODUCED), (1.0, 1.0, DIFFERENT), (0.9, 1.0, NOT_REPRODUCED)])
def test_a_bound_that_is_untrusted_in_most_seeds_is_not_counted_as_ours(bound, untrusted, verdict):
    about = {"subject": "funnel", "label": "funnel", "parameter": "X1", "fraction": 1, "iterations": 100}
    row = {"unit": 1.0, "error": 2.0, "untrusted": untrusted}
    paper = {**about, "method": PAPER, "budget": 1, "rows": {"mean": {**row, "bound": [1.0]}}}
    ours = {**about, "method": OURS, "budget": 8, "rows": {"mean": {**row, "bound": [bound]}}}
    claim = experiments.load("ablation")._ours([paper, ours], "funnel", "mean")
    assert claim.verdict == verdict and bool(claim.reason) == (verdict != REPRODUCED)


@pytest.mark.parametrize(("usual", "longer", "verdict"), [(3e6, 3e6, REPRODUCED), (1e4, 3e6, DIFFERENT), (1e4, 1e6, NOT_REPRODUCED)])
def test_the_stated_share_is_the_limit_under_either_reading(usual, longer, verdict):
    """Candy: 4.3e4 of 2e6 gradients are stated, 2.15 %."""
    fits = [
        {"posterior": "candy", "kind": "fit", "tolerance": t, "gradients": g, "converged": True} for t, g in ((0.1, usual), (0.01, longer))
    ]
    runs = [{"posterior": "candy", "kind": "diagnosis", "method": method, "gradients": 4.3e4} for method in (PAPER, OURS)]
    claim = next(claim for claim in experiments.load("cost").claims(fits + runs) if claim.where.endswith("against VI"))
    assert claim.verdict == verdict and bool(claim.reason) == (verdict != REPRODUCED)


def test_correlation_within_replications_is_what_was_put_in():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(4000, 1))
    states = np.sqrt(0.2) * shared + np.sqrt(0.8) * rng.normal(size=(4000, 30))
    assert chaos.within_correlation(states)[0] == pytest.approx(0.2, abs=0.02)
    independent = [chaos.within_correlation(rng.normal(size=(200, 10))) for _ in range(400)]
    found = np.array([value for value, _ in independent])
    assert found.mean() == pytest.approx(0, abs=0.002)
    assert found.std() == pytest.approx(independent[0][1], rel=0.15)


def test_coverage_counts_intervals_around_the_limit():
    many = {"chains": 100, "moved": [2.0, 4.0], "approximation": 1.0, "lower": [1.0, 2.5], "upper": [2.5, 3.0]}
    few = {"chains": 10, "moved": [9.0, 9.0], "approximation": 1.0, "lower": [3.0, 2.0], "upper": [4.0, 2.0]}
    assert chaos.coverage([few, many]) == {10: 0.5, 100: 0.5}


def test_a_path_keeps_its_ends():
    path = thinned(np.arange(1.0, 1001.0))
    assert path["iteration"][0] == 1 and path["iteration"][-1] == 1000
    assert path["value"] == [float(i) for i in path["iteration"]] and len(path["value"]) <= 100


# Quick versions -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder, so that studies share fits."""
    return tmp_path_factory.mktemp("quick")


@pytest.mark.parametrize(
    "name", ["gaussian", *(pytest.param(name, marks=pytest.mark.slow) for name in ("funnel-t", "chaos", "funnel", "ablation"))]
)
def test_quick_version(name, out, capsys):
    begun = time.monotonic()
    assert cli.main(["reproduce", name, "--quick", "--out", str(out)]) == 0
    assert time.monotonic() - begun < 180  # a minute, on a machine that does nothing else
    content = json.loads((out / f"{name}-quick.json").read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    for claim in content["claims"]:
        assert claim["text"] in printed and claim["numbers"] and claim["condition"]
    assert {claim["method"] for claim in content["claims"]} == {PAPER, OURS}
    assert content["table"]["rows"] and all(len(row) == len(content["table"]["columns"]) for row in content["table"]["rows"])
    for figure in content["figures"]:
        assert (out / f"{figure['name']}.png").stat().st_size > 5000
        assert (out / f"{figure['name']}.svg").stat().st_size < 200_000


def test_quick_gaussian_finds_the_variances_and_not_the_means(out):
    assert cli.main(["reproduce", "gaussian", "--quick", "--quiet", "--out", str(out)]) == 0
    for result in json.loads((out / "gaussian-quick.json").read_text(encoding="utf-8"))["results"]:
        covariance = synthetic.gaussian_covariance(result["d"])
        optimum = np.log(covariance[0, 0] * np.linalg.inv(covariance)[0, 0])  # of the log variance's error
        row = result["rows"]["X1 variance"]
        assert row["error"] == pytest.approx(optimum, abs=0.1)
        assert all(0.5 * optimum < bound < 1.1 * optimum for bound in row["bound"])
        assert all(bound < 0.35 for bound in result["rows"]["X1 mean"]["bound"])


def test_the_version_is_part_of_the_key(tmp_path, monkeypatch):
    reproduce(Toy(), tmp_path)
    monkeypatch.setattr(run, "own_version", lambda: "99")
    newer = Toy()
    assert reproduce(newer, tmp_path)["taddaa"] == "99"
    assert newer.ran == [0, 1, 2, 3]
