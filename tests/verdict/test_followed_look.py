"""Looks from draws of a surrogate: textbook standard errors where it is right, and doubt for as much as it may be off."""

import numpy as np
import pytest
from scipy import stats

from taddaa import Covariance, Mean, Quantile, Variance
from taddaa.verdict.followed_look import LEAST_DENSITY, MOST_OFF, FollowedLook
from taddaa.verdict.questions import RowGroup

WORTH = 1000.0
RNG = np.random.default_rng(0)
NORMAL = stats.norm.ppf((np.arange(8000) + 0.5) / 8000)  # as regular as draws can be
PROBED = stats.norm.ppf((np.arange(80) + 0.5) / 80)


def look(values, probed, off, functional, worth=WORTH, columns=None):
    """Estimate, unit and doubt of all columns."""
    values, probed = (np.asarray(part, float).reshape(len(part), -1) for part in (values, probed))
    chosen = np.arange(values.shape[1]) if columns is None else np.array(columns)
    group = RowGroup(functional, chosen, tuple(map(str, chosen)), chosen)
    return FollowedLook(values, probed, np.asarray(off, float), worth)(group, np.zeros(len(chosen)))


@pytest.mark.parametrize("sd", [1.0, 30.0])
@pytest.mark.parametrize(
    ("functional", "estimate", "error"),
    [
        (Mean(), lambda sd: 5.0, 1.0),
        (Variance(), lambda sd: 2 * np.log(sd), np.sqrt(2.0)),
        (Quantile(0.5), lambda sd: 5.0, 0.5 / stats.norm.pdf(0)),
        (Quantile(0.05), lambda sd: 5 - 1.645 * sd, np.sqrt(0.05 * 0.95) / stats.norm.pdf(1.645)),
    ],
    ids=["mean", "variance", "median", "quantile"],
)
def test_a_surrogate_that_is_right_leaves_the_textbooks_standard_error(functional, estimate, error, sd):
    """In standard deviations, or log variance, from so many independent draws."""
    found, unit, doubt = look(5 + sd * NORMAL, 5 + sd * PROBED, np.zeros(80), functional)
    assert found[0] == pytest.approx(estimate(sd), abs=2e-3 * sd)
    assert unit[0] == pytest.approx(1.0 if isinstance(functional, Variance) else sd, rel=1e-2)
    assert doubt[0] == pytest.approx(error / np.sqrt(WORTH), rel=0.04)


@pytest.mark.parametrize("shift", [0.1, 0.3])
@pytest.mark.parametrize("direction", [-1, 1])
def test_doubt_holds_what_a_surrogate_that_is_off_gets_wrong(shift, direction):
    """It says N(0, 1) where N(s, 1) is: off by s x nats, and every estimate by the difference of these normals."""
    off = direction * shift * PROBED + 7
    for functional, error in ((Mean(), shift), (Quantile(0.5), shift), (Quantile(0.95), shift)):
        doubt = look(NORMAL, PROBED, off, functional)[2][0]
        assert error <= doubt < 2 * error + 0.35
    alone = look(NORMAL, PROBED, np.zeros(80), Mean())[2][0]
    assert look(NORMAL, PROBED, off, Mean())[2][0] - alone > 0.95 * shift


def test_doubt_of_a_variance_holds_a_width_that_is_off():
    """It says N(0, 1) where N(0, s²) is."""
    for s in (0.8, 1.2):
        doubt = look(NORMAL, PROBED, (1 - s**-2) * PROBED**2 / 2, Variance())[2][0]
        assert 0.8 * abs(np.log(s**2)) < doubt < 4 * abs(np.log(s**2))


def test_what_has_nothing_to_do_with_it_is_doubted_less():
    """Only by how large the correlation of so few draws may be by chance."""
    values, probed = RNG.standard_normal((8000, 2)), RNG.standard_normal((80, 2))
    probed -= probed.mean(axis=0)
    probed[:, 1] -= probed[:, 0] * (probed[:, 0] @ probed[:, 1]) / (probed[:, 0] @ probed[:, 0])
    off = 0.5 * probed[:, 0]
    weights = np.exp(off)
    _, _, doubt = look(values, probed, off, Mean())
    assert doubt[0] > 0.5
    chance = weights.std() / weights.mean() / np.sqrt(80) + 1 / np.sqrt(WORTH)
    assert 0.9 * chance < doubt[1] < 0.5 * doubt[0]


def test_doubt_is_never_more_than_both_spreads_make():
    """By Cauchy and Schwarz, whatever the chance adds."""
    off = np.where(np.arange(80) < 40, -1.0, 1.0)
    doubt = look(np.sign(NORMAL), np.sign(PROBED), off, Mean())[2][0]
    weights = np.exp(off)
    assert doubt == pytest.approx(weights.std() / weights.mean() + 1 / np.sqrt(WORTH), rel=1e-6)


def test_only_differences_count():
    off = 0.3 * PROBED + 0.1 * PROBED**3
    for functional in (Mean(), Variance(), Quantile(0.9)):
        one, other = (look(NORMAL, PROBED, off + by, functional)[2][0] for by in (0.0, -5000.0))
        assert one == pytest.approx(other, rel=1e-6)


def test_one_draw_that_has_nearly_all_the_weight_does_not_hide_the_others():
    off = 0.3 * PROBED
    plain = look(NORMAL, PROBED, off, Mean())[2][0]
    off[40] = 60.0
    with_one = look(NORMAL, PROBED, off, Mean())[2][0]
    assert plain < with_one < 1.5 * plain


def test_where_draws_are_rare_a_quantile_is_doubted():
    """The median between two halves, where any place says as much."""
    two = np.concatenate([NORMAL - 6, NORMAL + 6])
    between = look(two, np.concatenate([PROBED - 6, PROBED + 6]), np.zeros(160), Quantile(0.5))[2][0]
    assert between == pytest.approx(0.5 / LEAST_DENSITY / np.sqrt(WORTH), rel=1e-6)
    assert between > 10 * look(NORMAL, PROBED, np.zeros(80), Quantile(0.5))[2][0]


def test_draws_before_that_were_narrower_count_as_wide_as_the_last():
    """A correlation is of what is off with the quantity, not with how far those few draws happened to spread."""
    off = 0.2 * PROBED
    wide, narrow = (look(NORMAL, width * PROBED, off, Mean())[2][0] for width in (1.0, 0.5))
    assert wide > 0.2 and 0.1 + 1 / np.sqrt(WORTH) < narrow < wide
    assert narrow - 1 / np.sqrt(WORTH) > 0.5 * (wide - 1 / np.sqrt(WORTH))


def test_fewer_independent_draws_are_doubted_more():
    for functional in (Mean(), Variance(), Quantile(0.3)):
        few, many = (look(NORMAL, PROBED, np.zeros(80), functional, worth)[2][0] for worth in (25.0, 2500.0))
        assert few == pytest.approx(10 * many, rel=1e-6)


def test_each_column_is_its_own_and_groups_choose():
    values = np.column_stack([NORMAL, 3 + 2 * NORMAL[::-1], NORMAL])
    probed = np.column_stack([PROBED, 3 + 2 * PROBED, RNG.permutation(PROBED)])
    off = 0.4 * PROBED
    estimate, unit, doubt = look(values, probed, off, Mean())
    np.testing.assert_allclose(estimate, [0, 3, 0], atol=1e-9)
    np.testing.assert_allclose(unit, [1, 2, 1], rtol=1e-2)
    assert doubt[0] == pytest.approx(doubt[1], rel=1e-6) and doubt[2] < doubt[0]
    np.testing.assert_allclose(look(values, probed, off, Mean(), columns=[2, 1])[2], doubt[[2, 1]])


def test_covariances_are_looked_at_too():
    """Of two standard normals with correlation 0.6: in products of standard deviations, with their own standard error."""
    turn = np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
    values, probed = RNG.standard_normal((8000, 2)) @ turn * [1, 10], RNG.standard_normal((80, 2)) @ turn * [1, 10]
    group = RowGroup(Covariance(0, 1), np.array([0, 1]), ("0, 1",), np.array([0]))
    estimate, unit, doubt = FollowedLook(values, probed, np.zeros(80), WORTH)(group, np.zeros(1))
    assert estimate.shape == doubt.shape == (1,) and estimate[0] / unit[0] == pytest.approx(0.6, abs=0.05)
    assert doubt[0] == pytest.approx(np.sqrt(1 + 0.6**2) / np.sqrt(WORTH), rel=0.25)


def test_what_does_not_vary_or_is_no_number_is_doubtful():
    for values in (np.full(8000, 2.0), np.where(NORMAL > 2, np.nan, NORMAL)):
        assert not np.isfinite(look(values, PROBED, np.zeros(80), Mean())[2][0])


def test_it_is_astray_where_the_middle_draws_differ_by_a_nat():
    def found(off):
        return FollowedLook(NORMAL[:, None], PROBED[:, None], off, WORTH)

    assert found(0.5 * PROBED).bent == pytest.approx(0.5, rel=0.05) and not found(0.9 * MOST_OFF * PROBED).astray
    assert found(1.1 * MOST_OFF * PROBED).astray and found(np.full(80, np.nan)).astray
    lost = np.where(np.arange(80) < 4, -1e4, 0.01 * PROBED)
    assert found(lost).bent < 0.03 and not found(lost).astray
