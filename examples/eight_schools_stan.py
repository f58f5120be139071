"""Eight schools in Stan, through BridgeStan.  pip install 'taddaa[stan]';  python eight_schools_stan.py

The first run compiles the program (BridgeStan fetches Stan's sources for that, and needs a C++ compiler).
"""

from pathlib import Path

import bridgestan

import taddaa

DATA = {
    "J": 8,
    "effect": [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
    "error": [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
}

# What ADVI found on Stan's unconstrained scale: mu, log(tau), eta. With CmdStanPy, pass its result instead of this:
#     fit = cmdstanpy.CmdStanModel(stan_file="eight_schools.stan").variational(DATA)   # or .pathfinder, .laplace_sample
#     taddaa.diagnose(*taddaa.from_stan(model, fit))
MEAN = [4.49, 0.85, 0.29, 0.11, -0.08, 0.07, -0.20, -0.12, 0.31, 0.08]
SD = [3.11, 0.74, 0.96, 0.93, 1.02, 0.96, 0.94, 0.93, 0.94, 0.98]


def problem():
    model = bridgestan.StanModel(Path(__file__).with_name("eight_schools.stan"), DATA)
    return taddaa.from_stan(model, taddaa.Gaussian(MEAN, SD))


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
