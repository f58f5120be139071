"""Reports do not depend on how many devices there are, and data that the user has sharded stays where it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from devices import DIM, REPORTS, ROWS, USUAL

TESTS = Path(__file__).parents[2]
CHAINS = 121
NUMBERS = ("approximation", "moved", "lower", "upper", "bound", "relative_bound", "detectable", "rho2")


def run_on(devices: int, folder: Path, checkpoint: Path, names: tuple[str, ...] = ()) -> None:
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(TESTS / "devices.py"), str(folder), str(checkpoint), *names],
        env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What one device gives, and what four do; the second process goes on from the first one's checkpoint."""
    folder = tmp_path_factory.mktemp("devices")
    for devices in (1, 4):
        run_on(devices, folder / str(devices), folder / "run.ckpt")
    return folder


def load(path: Path) -> dict:
    return json.loads(path.read_text())


def assert_same(one: dict, many: dict) -> None:
    assert [row["verdict"] for row in one["rows"]] == [row["verdict"] for row in many["rows"]]
    assert one["notes"] == many["notes"]
    assert (one["cost"]["gradients"], one["cost"]["iterations"]) == (many["cost"]["gradients"], many["cost"]["iterations"])
    assert [(check["name"], check["passed"]) for check in one["checks"]] == [(check["name"], check["passed"]) for check in many["checks"]]
    for column in NUMBERS:
        np.testing.assert_allclose(
            [float(row[column]) for row in one["rows"]], [float(row[column]) for row in many["rows"]], rtol=1e-6, atol=1e-9
        )
    for path, values in one["paths"].items():
        np.testing.assert_allclose(np.asarray(values, float), np.asarray(many["paths"][path], float), rtol=1e-6, atol=1e-9, err_msg=path)
    np.testing.assert_allclose(one["moved_draws"], many["moved_draws"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", [*USUAL, "resumed"])
def test_four_devices_give_the_report_of_one(name, reports):
    assert_same(load(reports / "1" / f"{name}.json"), load(reports / "4" / f"{name}.json"))


@pytest.mark.slow
def test_four_devices_give_every_other_report_of_one(tmp_path):
    others = tuple(name for name in REPORTS if name not in USUAL)
    for devices in (1, 4):
        run_on(devices, tmp_path / str(devices), tmp_path / "none.ckpt", others)
    for name in others:
        assert_same(load(tmp_path / "1" / f"{name}.json"), load(tmp_path / "4" / f"{name}.json"))


def test_four_devices_went_on_from_where_one_was(reports):
    assert load(reports / "4" / "resumed.json")["cost"]["iterations"] == 16
    assert (reports / "run.ckpt").exists()


def test_padding_is_in_no_count(reports):
    one, many = (load(reports / devices / "outside.json") for devices in "14")
    assert any("starts, whose chains had to find support first" in note for note in one["notes"])
    assert any("proposals had a NaN or infinite" in note for note in one["notes"])
    assert one["notes"] == many["notes"]
    assert CHAINS - 2 <= len(many["moved_draws"]) == len(one["moved_draws"]) <= CHAINS  # a chain that never came away is left out


@pytest.mark.parametrize("mesh", ["rows", "both"])
def test_sharded_data_gives_the_report_of_plain_data(mesh, reports):
    assert_same(load(reports / "1" / "regression.json"), load(reports / "4" / f"{mesh}.json"))


def test_what_four_devices_do(reports):
    facts = load(reports / "4" / "facts.json")
    assert facts["devices"] == 4
    assert facts["programs of a second diagnosis"] == 0
    # Data sharded by rows stays so, in either precision, and where the precision is right nothing is copied.
    assert facts["data stays"] == [[kind, "P('rows',)"] for kind in ("float64", "float64", "float32", "float32")]
    assert facts["data is not copied"]
    # JAX's own random numbers do not depend on the devices either.
    assert facts["noise"]
    assert facts["padded noise"] == [[2, CHAINS + 3, DIM], [2, CHAINS + 3, DIM], [2, CHAINS + 3]]
    # A device that the user has chosen is the only one used.
    assert facts["chosen device"]
    assert facts["committed data"] == [1]
    assert facts["refused"].startswith("data must be sharded over one mesh, got arrays on 2")


def test_devices_exchange_no_more_than_they_must(reports):
    """An iteration sums acceptance and summaries over chains; with sharded data also log densities and gradients. No gathers."""
    found = load(reports / "4" / "facts.json")["collectives"]
    assert all(kind == "all-reduce" for program in found.values() for kind, _ in program)
    summaries = sorted([1, 2, 2, DIM, DIM, DIM])  # and what two groups need
    assert sorted(size for _, sizes in found["chains"] for size in sizes) == summaries
    # Chains on every device: no sum over them is needed, but each iteration's gradients are summed over the parts of the data.
    assert sorted(size for _, sizes in found["rows"] for size in sizes) == [CHAINS, CHAINS * DIM]
    half = (CHAINS + 1) // 2
    assert sorted(size for _, sizes in found["both"] for size in sizes) == sorted([*summaries, half, half * DIM])
    # A sum in chunks sends no more than one at once: gradients of two parameters and log densities, outside the loop over chunks.
    assert sorted(size for _, sizes in found["chunks"] for size in sizes) == [CHAINS, CHAINS * 2]
    assert max(size for program in found.values() for _, sizes in program for size in sizes) < ROWS * DIM
