"""The paper's studies on the public API. The registry names them without importing any, so that `taddaa --help` is quick.

`study` says what a study is, `run` measures its cells and stores each, `page` writes the claims. The real `posteriors` are made of
`data`, `models` and `truth`. A side room: it imports the main path, `fit` and `comparison`. Begin with `study`, then read `chaos`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .study import Study

STUDIES = {  # name → module and class, in the paper's order
    "gaussian": "gaussian:CorrelatedGaussian",
    "funnel": "funnel:Funnel",
    "funnel-t": "funnel:FunnelT",
    "candy": "candy:Candy",
    "leukemia": "leukemia:Leukemia",
    "bnn": "network:Network",
    "ablation": "ablation:Ablation",
    "ablation-leukemia": "ablation_leukemia:LeukemiaAblation",
    "cost": "cost:Cost",
    "chaos": "chaos:Chaos",
}


def load(name: str) -> "Study":
    """The study of that name."""
    module, _, kind = STUDIES[name].partition(":")
    return getattr(import_module(f".{module}", __name__), kind)()
