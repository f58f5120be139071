"""One thread for small matrix products, and then as many as there were."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from taddaa.chains.machine.threads import one_blas_thread


def blas_threads() -> set[int]:
    np.linalg.inv(np.eye(2))  # it is loaded
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    """Whatever this machine has."""
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be told how many threads to use")
        yield


def test_one_while_open_also_nested_and_after_an_error():
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == {2}


def test_several_at_once_that_close_in_any_order():
    """As those of diagnoses in several threads do."""
    first, second = one_blas_thread(), one_blas_thread()
    for opened in (first, second):
        opened.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}  # the other is still open
    second.__exit__(None, None, None)
    assert blas_threads() == {2}
