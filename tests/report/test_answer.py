"""The answer: every row is in exactly one decision, with how wrong it is, what to use instead, or why it could not be judged."""

from dataclasses import replace

import numpy as np
import pytest

import taddaa
from sample_reports import clean_report, demo_report, doubtful_report, wide_report
from taddaa import Gaussian, InputError, Settings
from taddaa.report.answer import DO_NOT, MAYBE, UNJUDGED, USE, listed
from taddaa.report.text import report_text
from taddaa.report.tolerance import Tolerances
from taddaa.settings import with_tolerance
from taddaa.verdict.checks.check import Check
from taddaa.verdict.checks.registry import measured

NAN = float("nan")


def changed(i, **changes):
    """The demo's report with one row changed."""
    rows = list(demo_report().rows)
    rows[i] = replace(rows[i], **changes)
    return replace(demo_report(), rows=tuple(rows))


@pytest.mark.parametrize("make", [demo_report, wide_report, doubtful_report, clean_report])
def test_every_row_is_in_exactly_one_decision(make):
    report = make()
    assert sorted(id(row) for one in report.answer for row in one.rows) == sorted(id(row) for row in report.rows)
    for one in report.answer:
        assert one.sentences and str(one).startswith(f"{one.title}: ")
        assert len(one.sentences) <= 5  # a few lines, whatever the number of rows


def test_the_demo_says_what_to_use_and_what_instead():
    do_not, use = demo_report().answer
    assert (do_not.kind, do_not.title, use.kind, use.title) == (DO_NOT, "Do not use (5)", USE, "Use (5)")
    worst = demo_report().worst(1)[0]
    assert do_not.sentences[0].startswith("The variance of seed 73 × cucumber is too small by a factor of 3.")
    assert "(large); use 0.0914" in do_not.sentences[0]
    assert abs(worst.corrected - 0.0914) < 0.0005
    assert "And 2 more: the variances of" in do_not.sentences[-1] and "report.corrected" in do_not.sentences[-1]
    assert use.sentences == ("All 5 means: surely wrong by less than 0.1 standard deviations.",)


@pytest.mark.parametrize(
    ("relative", "functional", "word"),
    [
        (0.05, "mean", "slight"),
        (0.1, "mean", "moderate"),
        (0.29, "mean", "moderate"),
        (0.31, "mean", "large"),
        (1.0, "q0.9", "severe"),
        (np.log(1.07), "variance", "slight"),
        (np.log(1.4), "variance", "moderate"),
        (np.log(41), "variance", "severe"),
    ],
)
def test_severity_is_size_beside_the_tolerance(relative, functional, word):
    row = replace(demo_report().rows[0], verdict="error", functional=functional, bound=relative, relative_bound=relative)
    assert Tolerances().severity(row) == word
    assert Tolerances(2.0, 5.0).severity(row) == "slight"
    assert Tolerances().severity(replace(row, verdict="untrusted")) == ""


def test_a_factor_of_1_07_does_not_read_like_one_of_41():
    rows = tuple(replace(row, verdict="within tolerance") for row in demo_report().rows)
    slight, severe = (
        replace(demo_report(), rows=(*rows[:-1], replace(rows[-1], verdict="error", bound=np.log(f), relative_bound=np.log(f))))
        for f in (1.07, 41)
    )
    assert slight.headline.startswith("Slight error found in 1 of 10 quantities: surely there, and perhaps too small to matter.")
    assert severe.headline.startswith("A severe error found in 1 of 10 quantities.")
    assert [one.kind for one in slight.answer] == [MAYBE, USE]
    assert [one.kind for one in severe.answer] == [DO_NOT, USE]
    assert "perhaps within the tolerance of 0.15 in log variance" in slight.answer[0].sentences[0]


def test_errors_are_ordered_by_their_size_beside_the_tolerance():
    mean = changed(0, verdict="error", bound=0.1, relative_bound=1.1)  # 11 tolerances, before 1.16 in log variance, which are 8
    assert mean.worst(1)[0].functional == "mean"
    assert mean.headline.startswith("Errors found in 6 of 10 quantities, the worst severe. Worst: the mean of intercept")


def test_what_was_ruled_out_is_said_in_standard_deviations():
    report = replace(clean_report(), rows=tuple(replace(row, verdict="no error found", detectable=0.3) for row in clean_report().rows))
    (one,) = report.answer
    assert one.kind == MAYBE
    unit = float(max(report.paths.unit[:2].min() and 0.3 / report.paths.unit[:2]))
    assert one.sentences[0].endswith(f"no error found; an error above {unit:.2g} standard deviations or a factor of 1.35 would have shown.")
    hidden = replace(report, rows=(replace(report.rows[0], detectable=float("inf")), *report.rows[1:]))
    assert "see 'would see'" in hidden.answer[0].sentences[0]


def test_what_could_not_be_judged_says_why_how_far_it_moved_and_what_to_do():
    (one,) = doubtful_report().answer
    assert one.kind == UNJUDGED
    assert "was still moving when the chains stopped" in one.sentences[0]
    assert "moved by at least a factor of" in one.sentences[1] and one.sentences[1].endswith("and was still moving.")
    assert one.sentences[-1].startswith("What to do: ")
    still = changed(0, verdict="untrusted", reason="a reason", bound=0.5, relative_bound=2.0)
    assert "The mean of intercept moved by at least 0.5." in still.answer[1].sentences  # no check says that it still moves


def test_a_fit_that_is_far_is_not_to_be_used_at_all():
    far = tuple(replace(check, passed=False) if check.name == "near the posterior" else check for check in demo_report().checks)
    (one,) = replace(demo_report(), checks=far).answer
    assert (one.kind, len(one.rows)) == (DO_NOT, 10)
    assert one.sentences[0].startswith("None of it")


def test_names_are_listed_briefly():
    report = wide_report()
    means = [row for row in report.rows if row.functional == "mean"]
    assert listed(report, means) == "all 200 means"
    assert listed(report, means[8:9]) == "the mean of beta[1]"
    assert listed(report, means[8:10]) == "the means of beta[1] and beta[2]"
    assert listed(report, means[8:20]) == "12 of 200 means (beta[1], beta[2], beta[3], …)"
    assert len(listed(report, means[3:4])) < 60  # a name of 300 letters
    quantile = replace(means[9], functional="q0.9")
    assert listed(report, [means[8], quantile]) == "the mean of beta[1] and the q0.9 of beta[2]"


# The tolerance ------------------------------------------------------------------------------------------------------------


def test_the_tolerance_of_the_call_decides():
    """A mean wrong by 0.3 is an error at 0.1, and within a tolerance of 0.5."""
    target = taddaa.Target(_normal, 2)
    usual = taddaa.diagnose(target, Gaussian([0.3, 0.0], [1.0, 1.0]), settings=Settings(chains=100))
    wide = taddaa.diagnose(target, Gaussian([0.3, 0.0], [1.0, 1.0]), settings=Settings(chains=100), tolerance=0.5)
    tight = taddaa.diagnose(target, Gaussian([0.3, 0.0], [1.0, 1.0]), settings=Settings(chains=100), tolerance=(0.02, 0.2))
    assert [r.rows[0].verdict for r in (usual, wide, tight)] == ["error", "within tolerance", "error"]
    assert (wide.tolerance, tight.tolerance) == ((0.5, 0.75), (0.02, 0.2))
    assert tight.tolerance.severity(tight.rows[0]) == "severe" and usual.tolerance.severity(usual.rows[0]) in ("moderate", "large")
    assert "surely below 0.5 standard deviations (0.75 in log variance)" in wide.headline


def test_a_larger_tolerance_plans_no_fewer_chains_and_a_smaller_one_more():
    assert with_tolerance(Settings(), 1.0).planned_chains == Settings().planned_chains == 194
    assert with_tolerance(Settings(), 0.05).planned_chains == Settings(mean_tolerance=0.05, variance_tolerance=0.075).planned_chains > 700
    assert with_tolerance(Settings(chains=20), 0.01).planned_chains == 20


@pytest.mark.parametrize("wrong", [0, -1.0, "much", (0.1,), (0.1, 0.2, 0.3), (0.1, -0.2), float("nan"), float("inf"), True, None])
def test_a_tolerance_that_is_none_is_refused(wrong):
    with pytest.raises(InputError, match="tolerance must be a positive number"):
        with_tolerance(Settings(), wrong)


# Checks that explain themselves -------------------------------------------------------------------------------------------


def test_checks_say_where_their_value_should_lie():
    said = {check.name: measured(check) for check in demo_report().checks}
    assert said["acceptance"].endswith(", should be 0.33 to 1.0 (share of proposals accepted)")
    assert said["forgot the start"].endswith(", should be below 0.10 (ρ² with the start)")
    assert said["near the posterior"].endswith(", should be below 140 (rise of the log density on the way)")
    assert measured(Check("unknown", False, 3.0, 0.0, "")) == "3.0, should be 0"
    for check in (check for make in (demo_report, doubtful_report, wide_report) for check in make().checks):
        inside = check.least <= check.value and (check.value < check.cutoff or check.value == check.cutoff == 0 or check.passed)
        assert inside == check.passed, check.name


def test_a_failed_check_shows_its_own_value_for_each_row():
    report = doubtful_report()
    memory = next(check for check in report.checks if check.name == "forgot the start")
    assert max(memory.each) == memory.value > memory.cutoff
    assert [i for i, value in enumerate(memory.each) if value >= memory.cutoff] == list(memory.rows)
    only = tuple(replace(check, passed=check.name != memory.name) for check in report.checks)
    lines = report_text(replace(report, checks=only), 120).splitlines()
    header = next(line for line in lines if line.startswith("parameter"))
    assert " forgot the start " in header
    end = header.index("forgot the start") + len("forgot the start")
    for row in report.worst():
        line = next(line for line in lines if line.startswith(row.parameter) and f" {row.functional} " in line)
        assert float(line[:end].split()[-1]) == pytest.approx(memory.each[report.rows.index(row)], rel=0.05)
    again = taddaa.Report.from_json(report.to_json())
    assert again.checks == report.checks


def test_a_value_for_each_row_must_be_one_for_each():
    text = demo_report().to_json().replace('"each": [', '"each": [1.0, ', 1)
    with pytest.raises(InputError, match=r"checks\[\d+\]\.each has 11 entries, but there are 10 rows"):
        taddaa.Report.from_json(text)


# Widths and colours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [demo_report, wide_report, doubtful_report, clean_report])
@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 200])
def test_the_text_fits_its_width(make, width):
    lines = report_text(make(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.endswith("…") and "─" in line for line in lines)
    header = next(line for line in lines if line.startswith("parameter"))
    assert "verdict" in header and "error ≥" in header
    if width == 200:
        assert all(name in header for name in ("q says", "relative", "would see", "ρ²"))


def test_columns_decides_and_has_limits(monkeypatch):
    for columns, longest in (("70", 70), ("10", 60), ("999", 200)):
        monkeypatch.setenv("COLUMNS", columns)
        assert max(map(len, str(demo_report()).splitlines())) <= longest
    monkeypatch.setenv("COLUMNS", "80")
    assert str(demo_report()) == report_text(demo_report(), 80)


def test_colours_only_where_asked():
    plain, coloured = report_text(demo_report(), 100), report_text(demo_report(), 100, colour=True)
    assert "\033" not in plain
    assert "\033[1;31mDo not use (5)\033[0m" in coloured and "\033[31mlarge error\033[0m" in coloured
    assert "\033[32mwithin tolerance\033[0m" in coloured
    for code in ("\033[1;31m", "\033[1;32m", "\033[31m", "\033[32m", "\033[1m", "\033[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def _normal(x):
    return -0.5 * (x**2).sum()
