"""As where surrogates are learnt: small matrices, many times, which several threads only make slower."""

import pytest

from taddaa.chains.machine.threads import one_blas_thread


@pytest.fixture(autouse=True)
def one_thread():
    with one_blas_thread():
        yield
