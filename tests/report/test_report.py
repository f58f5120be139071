"""Reports: the table, the text, JSON there and back, and what a caller may ask of them."""

import json
import re
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import taddaa
from taddaa import DiagnosisError, Gaussian, InputError, Mean, Quantile, Report, Settings, Target, Variance
from taddaa.report.refit import changes, changes_text
from taddaa.report.sentences import sentence, size

COLUMNS = [
    "parameter",
    "functional",
    "approximation",
    "moved",
    "lower",
    "upper",
    "bound",
    "relative_bound",
    "detectable",
    "rho2",
    "verdict",
    "reason",
    "corrected",
    "corrected_lower",
    "corrected_upper",
    "at_most",
]
FINE = ("within tolerance", "no error found")


@pytest.fixture(scope="module")
def report():
    """One mean too low by one, one variance too small by a factor of four; other means and variances are right."""
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 3, names=["shifted", "narrow", "right"])
    asked = [Mean(), Variance(), Quantile(0.5)]
    return taddaa.diagnose(target, Gaussian([-1.0, 0.0, 0.0], [1.0, 0.5, 1.0]), asked, Settings(simultaneous=False), seed=5)


def with_verdicts(report, *verdicts):
    """The same report with other verdicts on its first rows, and only those rows."""
    pairs = zip(report.rows, verdicts, strict=False)
    rows = [replace(row, verdict=verdict, reason="a reason" * (verdict == "untrusted")) for row, verdict in pairs]
    return replace(report, rows=tuple(rows))


# The table ----------------------------------------------------------------------------------------------------------------


def test_columns_are_those_of_the_contract(report):
    table = report.to_dataframe()
    assert list(table.columns) == COLUMNS
    assert len(table) == len(report.rows) == 9
    assert list(table.parameter) == ["shifted", "narrow", "right"] * 3
    assert list(table.functional) == ["mean"] * 3 + ["variance"] * 3 + ["q0.5"] * 3
    assert table.bound.dtype == float
    assert [verdict in FINE for verdict in table.verdict[:6]] == [False, True, True, True, False, True]
    assert (table.verdict[0], table.verdict[4]) == ("error", "error")


def test_bounds_of_this_report(report):
    shifted, narrow = report.rows[0], report.rows[4]
    assert 0.7 < shifted.bound == shifted.lower <= 1.0
    assert 1.0 < narrow.bound == narrow.lower <= np.log(4.0)
    assert (narrow.approximation, narrow.relative_bound) == (pytest.approx(0.25), narrow.bound)


def test_moved_draws_are_named(report):
    assert list(report.moved.columns) == ["shifted", "narrow", "right"]
    assert report.moved.shape == (194, 3)
    np.testing.assert_array_equal(report.moved.to_numpy(), report.moved_draws)
    np.testing.assert_allclose(report.moved.var(), 1.0, atol=0.3)


def test_handover_starts_a_sampler(report):
    starts, inverse_mass, step = report.handover
    assert starts.shape == (194, 3)
    np.testing.assert_allclose(inverse_mass, np.eye(3), atol=0.35)
    assert step > 0


# Verdicts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "headline"),
    [
        (("error", "untrusted", "no error found"), "error"),
        (("no error found", "untrusted"), "untrusted"),
        (("no error found", "no error found"), "no error found"),
        (("within tolerance", "no error found"), "no error found"),
        (("within tolerance", "untrusted", "no error found"), "untrusted"),
        (("within tolerance", "error"), "error"),
        (("within tolerance", "within tolerance"), "within tolerance"),
    ],
)
def test_the_worst_verdict_is_the_reports(report, verdicts, headline):
    assert with_verdicts(report, *verdicts).verdict == headline


def test_worst_rows_come_first(report):
    order = [row.verdict for row in report.worst()]
    assert order == sorted(order, key=["error", "untrusted", "no error found", "within tolerance"].index)
    errors = [report.tolerance.times(row) for row in report.worst() if row.verdict == "error"]
    assert errors == sorted(errors, reverse=True)
    assert report.worst(1) == [report.rows[0]]  # ten tolerances of 0.1; the variance's 1.39 are nine of 0.15
    wider = replace(report, provenance=replace(report.provenance, settings="mean_tolerance=0.2, variance_tolerance=0.15"))
    assert wider.worst(1) == [report.rows[4]]
    assert len(report.worst(4)) == 4


def test_a_bound_of_zero_is_never_called_accurate(report):
    clean = with_verdicts(report, "no error found", "no error found")
    text = str(clean).lower()
    assert "not proof of accuracy" in clean.headline
    for word in ("is accurate", "correct", "reliable", "no error of", "exact"):
        assert word not in clean.headline.lower()
    assert "accurate" not in text
    for row in report.rows:
        if row.bound == 0:
            assert row.verdict != "error"
            assert row.detectable > 0


def test_the_headline_says_what_is_wrong(report):
    assert "Errors found in 3 of 9 quantities" in report.headline
    assert "the mean of shifted is too low by at least" in report.headline
    narrow = replace(report, rows=report.rows[3:6])
    assert narrow.headline.startswith("A large error found in 1 of 3 quantities. Worst: the variance of narrow is too small by a factor of")
    factor = float(narrow.headline.split("at least ")[1].split()[0].rstrip("."))
    assert 2.7 < factor <= 4.0
    right = float(re.search(r"the right value is ([\d.]+)[,)]", narrow.headline).group(1))
    assert right == pytest.approx(1.0, abs=0.01)  # the posterior's variance
    both = with_verdicts(report, "error", "untrusted")
    assert "1 could not be judged" in both.headline
    assert "2 of 2 quantities could not be judged" in with_verdicts(report, "untrusted", "untrusted").headline


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (
            ("error", "within tolerance", "no error found", "untrusted"),
            [
                "A large error found in 1 of 4 quantities. Worst: ",
                " 1 is within tolerance, in 1 no error was found, 1 could not be judged.",
            ],
        ),
        (("error", "no error found", "no error found"), ["A large error found in 1 of 3", " In 2 no error was found."]),
        (("error", "error"), ["Errors found in 2 of 2"]),
        (
            ("untrusted", "within tolerance", "within tolerance"),
            ["No error can be stated, and 1 of 3 quantities could not be judged. 2 are within tolerance."],
        ),
        (
            ("no error found", "within tolerance"),
            ["No error found in 1 of 2 quantities. That is not proof of accuracy: an error below", " can hide. 1 is within tolerance."],
        ),
        (("no error found", "no error found"), ["No error found in 2 quantities. That is not proof of accuracy"]),
        (("within tolerance",) * 3, ["All 3 quantities are within tolerance: their errors are surely below 0.1 standard deviations."]),
        (("within tolerance",) * 4, ["All 4 quantities", "surely below 0.1 standard deviations (0.15 in log variance)."]),
        (("within tolerance",), ["The one quantity is within tolerance: its error is surely below 0.1 standard deviations."]),
    ],
)
def test_the_headline_counts_every_verdict(report, verdicts, words):
    headline = with_verdicts(report, *verdicts).headline.replace("A severe error", "A large error")  # by one standard deviation
    assert headline.startswith(words[0])
    assert headline.endswith(words[-1]) or len(words) == 1
    assert sum(int(number) for number in re.findall(r"(?:^|[ ])(\d+) (?:is|are) within", headline)) == (
        verdicts.count("within tolerance") if len(set(verdicts)) > 1 else 0
    )


@pytest.mark.parametrize(
    ("functional", "lower", "upper", "words"),
    [
        ("mean", 0.5, 0.9, "too low by at least 0.5"),
        ("mean", -0.9, -0.5, "too high by at least 0.5"),
        ("variance", 0.5, 0.9, "too small by a factor of at least 1.65"),
        ("variance", -0.9, -0.5, "too large by a factor of at least 1.65"),
        ("covariance", -0.9, -0.5, "too high by at least 0.5"),
    ],
)
def test_an_error_in_words(report, functional, lower, upper, words):
    row = replace(report.rows[0], functional=functional, lower=lower, upper=upper, bound=0.5, relative_bound=0.25, verdict="error")
    assert words in sentence(row)
    assert "shifted" in sentence(row)
    known = replace(row, corrected=1.0, corrected_lower=0.91, corrected_upper=1.1)
    assert sentence(known).endswith("the right value is 1.00, between 0.91 and 1.10).")
    unknown = replace(row, corrected=np.nan, corrected_lower=np.nan, corrected_upper=np.nan)
    assert "right value" not in sentence(unknown) and "nan" not in sentence(unknown)


def test_raise_if(report):
    with pytest.raises(DiagnosisError, match=r"3 of 9 quantities are wrong by more than 0: the variance of narrow"):
        report.raise_if()
    report.raise_if(error_above=5.0, untrusted=False)
    with pytest.raises(DiagnosisError, match=r"1 of 2 quantities is untrusted; mean of narrow: a reason"):
        with_verdicts(report, "no error found", "untrusted").raise_if()
    with_verdicts(report, "no error found", "untrusted").raise_if(untrusted=False)
    with_verdicts(report, "no error found", "no error found").raise_if()
    with_verdicts(report, "within tolerance", "within tolerance", "within tolerance", "within tolerance", "within tolerance").raise_if()
    threshold = (max(report.rows[0].relative_bound, report.rows[6].relative_bound) + report.rows[4].relative_bound) / 2
    with pytest.raises(DiagnosisError, match=r"1 of 9 quantities is wrong by more than"):
        report.raise_if(error_above=threshold)


def test_raise_if_compares_relative_bounds(report):
    """A bound of 40 on a parameter whose standard deviation is 100 is an error of 0.4."""
    one = replace(report, rows=(replace(report.rows[0], bound=40.0, relative_bound=0.4),))
    one.raise_if(error_above=0.5)
    with pytest.raises(DiagnosisError, match=r"wrong by more than 0\.3"):
        one.raise_if(error_above=0.3)


def test_usable_needs_every_check(report):
    assert replace(report, checks=tuple(replace(check, passed=True) for check in report.checks)).usable
    for i in range(len(report.checks)):
        checks = [replace(check, passed=j != i) for j, check in enumerate(report.checks)]
        assert not replace(report, checks=tuple(checks)).usable


# Text ---------------------------------------------------------------------------------------------------------------------


def test_the_text_has_headline_table_checks_and_cost(report):
    text = str(report)
    assert report.headline.startswith(text.splitlines()[0])
    assert repr(report) == text
    for row in report.rows:
        assert row.parameter in text
    for check in report.checks:
        assert f"{'passed' if check.passed else 'FAILED'}  {check.name}" in text
    assert "194 chains × 72 iterations" in text  # ⌊50 · 3^{1/3}⌋
    assert f"{report.cost.gradients:,} gradients" in text
    assert "Seed 5" in text
    assert "How to read it" in text
    assert max(len(line) for line in text.splitlines()) < 320


def test_the_text_gives_reasons_and_notes(report):
    doubtful = replace(with_verdicts(report, "untrusted", "error"), notes=("something to know",))
    assert "mean of shifted: a reason" in str(doubtful)
    assert "something to know" in str(doubtful)


EVIL = "a\x1b[2J\x07\u202eb\nfaked  mean  0  0  —  —  0.1  0.00  no error found\r\ud800"


def test_no_name_note_or_reason_moves_the_cursor_or_fakes_a_row(report):
    rows = tuple(
        replace(row, parameter=f"{EVIL}{i}", functional=f"{row.functional}\x1b]0;", reason=EVIL) for i, row in enumerate(report.rows)
    )
    checks = tuple(replace(check, name=EVIL, passed=False, message=EVIL) for check in report.checks)
    about = replace(report.provenance, kernel=EVIL, approximation=EVIL, date=EVIL, preconditioner=EVIL)
    evil = replace(report, rows=rows, checks=checks, notes=(EVIL,), provenance=about)
    read = Report.from_json(evil.to_json())
    texts = [str(evil), str(read), evil.headline, changes_text(report, evil, changes(report, evil))]
    with pytest.raises(DiagnosisError) as caught:
        evil.raise_if()
    doubted = replace(evil, rows=tuple(replace(row, verdict="untrusted") for row in rows))
    with pytest.raises(DiagnosisError) as doubt:
        doubted.raise_if()
    for text in [*texts, str(doubted), str(caught.value), str(doubt.value)]:
        assert "a\\x1b[2J" in text
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert not any(line.startswith("faked") for line in text.splitlines())
    assert len(str(evil).splitlines()) == len(str(read).splitlines())


def test_long_tables_are_cut_in_the_text_only(report):
    long = replace(report, rows=report.rows * 5)
    assert "and 30 more quantities" in str(long)
    assert len(long.to_dataframe()) == 45


def test_cost(report):
    cost = report.cost
    assert cost.gradients > 194 * cost.iterations
    assert cost.seconds_running > 0
    assert (cost.iterations, cost.planned_iterations) == (72, 72)


def test_provenance_repeats_the_run(report):
    about = report.provenance
    assert (about.seed, about.chains, about.kernel, about.preconditioner, about.level) == (5, 194, "Barker, then HMC", "Fisher", 0.95)
    assert not about.simultaneous
    assert "jax" in about.versions and "python" in about.versions
    assert "Gaussian of dimension 3" in about.approximation


# JSON ---------------------------------------------------------------------------------------------------------------------


def same(one, two):
    pandas.testing.assert_frame_equal(one.to_dataframe(), two.to_dataframe(), check_exact=True)
    assert one.checks == two.checks
    assert (one.cost, one.provenance, one.notes, one.labels) == (two.cost, two.provenance, two.notes, two.labels)
    np.testing.assert_array_equal(one.moved_draws, two.moved_draws)
    np.testing.assert_array_equal(one.start_draws, two.start_draws)
    for name in one.paths.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one.paths, name), getattr(two.paths, name))


def test_json_there_and_back(report, tmp_path):
    report = replace(report, rows=(*report.rows[:8], replace(report.rows[8], lower=-np.inf, detectable=np.inf, approximation=np.nan)))
    text = report.to_json(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == text
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    for source in (text, tmp_path / "report.json", str(tmp_path / "report.json")):
        same(report, Report.from_json(source))
    again = Report.from_json(text)
    assert str(again) == str(report)
    assert json.loads(again.to_json()) == json.loads(text)


def test_json_is_strict_and_versioned(report):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    report = replace(report, rows=(*report.rows[:8], replace(report.rows[8], lower=-np.inf, upper=np.inf, approximation=np.nan)))
    content = json.loads(report.to_json(), parse_constant=refuse)
    last = content["rows"][8]
    assert (last["lower"], last["upper"], last["approximation"]) == ("-Infinity", "Infinity", "NaN")
    assert (content["schema"], content["version"]) == ("taddaa-report", 3)
    assert content["verdict"] == "error"
    assert [row["parameter"] for row in content["rows"]] == ["shifted", "narrow", "right"] * 3


def test_a_report_of_the_first_version_still_reads(report):
    content = json.loads(report.to_json())
    content["version"] = 1
    for row in content["rows"]:
        for part in ("corrected", "corrected_lower", "corrected_upper"):
            del row[part]
    old = Report.from_json(json.dumps(content))
    assert all(np.isnan(row.corrected) for row in old.rows)
    assert [row.bound for row in old.rows] == [row.bound for row in report.rows]
    assert " moved to " in str(old) and "right value" not in str(old)
    with pytest.raises(InputError, match=r"corrected has nothing to give: .* older version"):
        _ = old.corrected
    assert json.loads(old.to_json())["version"] == 3
    same(old, Report.from_json(old.to_json()))


def test_an_older_reports_only_limit_may_be_its_lower_one(report):
    """Acceptance had the nearer of its two as its cutoff."""
    content = json.loads(report.to_json())
    content["version"] = 2
    for check in content["checks"]:
        del check["least"], check["each"]
        if check["name"] == "acceptance":
            check.update(value=0.4, cutoff=0.2, passed=True)
    assert "acceptance: 0.40, should be 0.20 to ∞" in str(Report.from_json(json.dumps(content)))


def damaged(report, **changes):
    return json.dumps(json.loads(report.to_json()) | changes)


@pytest.mark.parametrize(
    ("message", "damage"),
    [
        (r"this report has schema version 99, and this taddaa reads \d+", lambda report: damaged(report, version=99)),
        (r"schema version null", lambda report: damaged(report, version=None)),
        (r"its schema is not 'taddaa-report'", lambda report: damaged(report, schema="other")),
        (r"its schema is not 'taddaa-report'", lambda report: "{}"),
        (r"this report is damaged: no JSON at character \d+", lambda report: report.to_json()[:-20]),
        (r"this report is damaged", lambda report: damaged(report, rows=[{"parameter": "a"}])),
        (r"this report is damaged", lambda report: damaged(report, paths={})),
        (r"this report is damaged", lambda report: damaged(report, moved_draws="many")),
        (
            r"this report is damaged: cost is missing",
            lambda report: json.dumps({k: v for k, v in json.loads(report.to_json()).items() if k != "cost"}),
        ),
        (r"this report is damaged", lambda report: damaged(report, rows=[1, 2])),
    ],
)
def test_damaged_reports_are_refused(report, message, damage):
    with pytest.raises(InputError, match=message):
        Report.from_json(damage(report))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.json cannot be read as a report"):
        Report.from_json(tmp_path / "nothing.json")
    with pytest.raises(InputError, match=r"cannot be read as a report"):
        Report.from_json(tmp_path)
    (tmp_path / "half.json").write_text('{"schema"')
    with pytest.raises(InputError, match=r"half\.json is damaged"):
        Report.from_json(tmp_path / "half.json")


def test_a_file_that_cannot_be_written_is_refused_and_leaves_nothing(report, tmp_path):
    with pytest.raises(InputError, match=r"report\.json cannot be written"):
        report.to_json(tmp_path / "no folder" / "report.json")
    (tmp_path / "report.json").write_text("old")
    report.to_json(tmp_path / "report.json")
    assert Report.from_json(tmp_path / "report.json").rows == report.rows
    assert len(list(tmp_path.iterdir())) == 1


def test_infinite_checks_come_back_as_numbers(report):
    odd = replace(report, checks=(replace(report.checks[0], value=np.inf), *report.checks[1:]))
    again = Report.from_json(odd.to_json())
    assert again.checks == odd.checks
    assert str(again) == str(odd)


def test_a_parameter_may_be_called_nan(report):
    odd = replace(report, rows=(replace(report.rows[0], parameter="NaN"), *report.rows[1:]))
    assert Report.from_json(odd.to_json()).rows[0].parameter == "NaN"


def test_a_table_claims_what_the_verdict_allows(report):
    """A variance's error is written as the factor; an untrusted row has neither a bound nor a size that would have shown."""
    narrow = next(row for row in report.rows if row.verdict == "error" and row.functional == "variance")
    line = next(line for line in str(report).splitlines() if line.startswith(f"{narrow.parameter} ") and " variance " in line)
    assert f"×{np.exp(narrow.bound):.3g} " in line
    assert [size(narrow, value) for value in (0.18, 0.000532, 0.0, np.inf)] == ["×1.2", "×1.00053", "×1", "∞"]
    assert f" {size(narrow, narrow.detectable)} " in line
    unknown = {"corrected": np.nan, "corrected_lower": np.nan, "corrected_upper": np.nan}
    other = replace(report.rows[0], parameter="other", corrected=3.412, corrected_lower=3.402, corrected_upper=3.422)
    doubted = replace(report, rows=(replace(narrow, verdict="untrusted", reason="a reason", moved=1.25, **unknown), other))
    line = next(line for line in str(doubted).splitlines() if line.startswith(f"{narrow.parameter} "))
    assert line.split()[3:7] == ["(1.25)", "(×4)", "—", "—"] and line.endswith("untrusted")
    assert "  3.412 ± 0.010  " in next(line for line in str(doubted).splitlines() if line.startswith("other "))
    assert "In brackets: not known" in str(doubted) and "In brackets" not in str(replace(doubted, rows=(other,)))


def test_the_text_explains_the_verdicts_that_occur(report):
    words = {
        "error": "  error: q is wrong by at least 'error ≥'",
        "untrusted": "  untrusted: a check failed",
        "no error found": "  no error found: not proof of accuracy. An error of 'would see' would have shown",
        "within tolerance": "  within tolerance: surely wrong by less than 0.1 standard deviations: use it.",
    }
    for verdict in words:
        text = str(with_verdicts(report, verdict))
        assert [other for other, line in words.items() if line in text] == [verdict]
        assert max(len(line) for line in text.partition("How to read it")[2].splitlines()) <= 120
    one_check = replace(with_verdicts(report, "no error found"), checks=report.checks[:1])
    assert "which the one check made here cannot tell" in " ".join(str(one_check).split())
