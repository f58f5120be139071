"""Pieces in threads: in order, and what fails is told."""

import threading

import numpy as np
import pytest

from taddaa.formulas.pieces import PIECE, WORTH_THREADS, by_pieces, in_threads


def test_columns_by_pieces_are_all_columns():
    values = np.random.default_rng(0).standard_normal((5, 2 * PIECE + 3))
    np.testing.assert_array_equal(by_pieces(lambda part: part.sum(axis=0), values), values.sum(axis=0))


def test_large_arrays_are_done_in_threads_and_small_ones_here():
    def ours(part):
        return np.full(part.shape[1], float(threading.current_thread() is threading.main_thread()))

    assert by_pieces(ours, np.zeros((10, 20))).all()
    assert not by_pieces(ours, np.zeros((WORTH_THREADS // 20, 21))).any()


def test_threads_warn_of_no_more_than_the_caller_does():
    with np.errstate(invalid="ignore"):
        assert np.isnan(in_threads(lambda piece: np.float64(piece) - piece, [np.inf, np.inf])).all()
    with pytest.raises(FloatingPointError), np.errstate(invalid="raise"):
        in_threads(lambda piece: np.float64(piece) - piece, [np.inf, np.inf])


def test_answers_come_in_order_from_two_threads_at_once():
    together = threading.Barrier(2, timeout=30)

    def answer(piece):
        together.wait()  # never comes to an end in one thread
        return 10 * piece

    assert in_threads(answer, iter(range(6))) == [0, 10, 20, 30, 40, 50]


def test_one_piece_stays_in_this_thread_and_failures_are_told():
    assert in_threads(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert in_threads(len, []) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda piece: 1 / piece, [1, 0])
