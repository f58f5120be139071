"""Eight schools in PyMC: ADVI, judged.  pip install 'taddaa[pymc]';  python eight_schools_pymc.py"""

import pymc as pm

import taddaa

SCHOOLS = ["A", "B", "C", "D", "E", "F", "G", "H"]
EFFECT = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
ERROR = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]


def problem():
    with pm.Model(coords={"school": SCHOOLS}):
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims="school")
        pm.Normal("y", theta, ERROR, observed=EFFECT)
        approx = pm.fit(20_000, method="advi", random_seed=0, progressbar=False)
    return taddaa.from_pymc(approx)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
