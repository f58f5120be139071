"""A formula in Bambi: its variational fit, judged.  pip install 'taddaa[pymc]' bambi;  python regression_bambi.py"""

import bambi
import pandas as pd

import taddaa

# Stopping distance in feet of cars at a speed in miles an hour (17 of the 50 cars of Ezekiel 1930).
CARS = pd.DataFrame(
    {
        "speed": [4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24],
        "distance": [2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92],
    },
    dtype=float,
)


def problem():
    model = bambi.Model("distance ~ speed", CARS)
    fit = model.fit(inference_method="vi", n=10_000, random_seed=0, progressbar=False)
    return {"target": model, "approximation": fit, "var_names": ["~mu"]}  # mu has a value for each car


if __name__ == "__main__":
    print(taddaa.diagnose(**problem()))
