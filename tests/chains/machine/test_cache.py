"""Programs on disk: another process compiles nothing, the folder keeps its size, and what cannot be is refused."""

import os
import subprocess
import sys

import pytest

import taddaa
from taddaa.chains.machine import cache as module

SCRIPT = """
import jax, numpy as np, taddaa
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith(("cache_hits", "cache_misses")) else None)
target = taddaa.Target(lambda x: -0.5 * x @ x, dim=3)
report = taddaa.diagnose(target, taddaa.Gaussian(np.zeros(3), np.ones(3)), settings=taddaa.Settings(chains=50, iterations=8, budget=1))
print(sum(hit.endswith("misses") for hit in hits), sum(hit.endswith("hits") for hit in hits), [row.moved for row in report.rows])
"""


def in_process(**environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing_and_finds_the_same(tmp_path):
    first, second = (in_process(TADDAA_CACHE=str(tmp_path / "programs")) for _ in range(2))
    (missed, _, rows), (missed_again, hit, rows_again) = (text.split(" ", 2) for text in (first, second))
    # One program, the gradient of the log density, though it is so small that JAX alone would not keep it.
    assert (int(missed), int(missed_again), int(hit)) == (1, 0, 1)
    assert rows == rows_again
    assert (tmp_path / "programs").stat().st_mode & 0o077 == 0


def test_old_programs_go_first(tmp_path):
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).write_bytes(b"x" * 1000)
        os.utime(tmp_path / name, (10_000 - age, 10_000 - age))
    module._trim(tmp_path, 2500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "new"]


@pytest.mark.parametrize("megabytes", [0, -1, "many", True, float("nan")])
def test_sizes_that_are_none_are_refused(tmp_path, megabytes):
    with pytest.raises(taddaa.InputError, match="megabytes must be a positive number"):
        taddaa.cache(tmp_path, megabytes)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(taddaa.InputError, match="name another"):
        taddaa.cache(tmp_path / "file" / "below")
