"""Every study by name."""

from dataclasses import replace

from dmlrc.errors import unknown
from dmlrc.papers import musgrave2020
from dmlrc.protocol import FULL, QUICK, SMOKE, Budget
from dmlrc.study import Study

_RATE_METHODS = ("contrastive", "triplet", "normalized_softmax", "multi_similarity")
_RATE_BUDGET = Budget("rate", trials=4, reruns=0)
RATES = (1e-4, 3e-4, 1e-3)


def rate_study(study: Study, rate: float) -> Study:
    """The short search that judges one learning rate: a few methods, random settings, validation folds only."""
    return replace(
        study,
        name=f"{study.name}-rate-{rate:.0e}",
        protocol=replace(study.protocol, lr=rate, patience=9, max_epochs=50),
        budget=_RATE_BUDGET,
        methods=tuple(study.method(name) for name in _RATE_METHODS),
        expected="4 minutes, 2 cores",
    )


_PATIENCE = {"cars196": {"eval_every": 5, "patience": 14}, "sop": {"eval_every": 20, "patience": 39}}


def _musgrave(dataset: str) -> Study:
    protocol = replace(musgrave2020.PROTOCOL, **_PATIENCE.get(dataset, {}))
    methods = musgrave2020.SOP_METHODS if dataset == "sop" else musgrave2020.METHODS
    return Study(
        f"{dataset}-musgrave2020", dataset, protocol, FULL, methods, expected="some hundred GPU hours, not measured"
    )


_CHOOSE_A_RATE = ("grocery-frozen-full",)
_ALL = (
    Study("glyphs-smoke", "glyphs-small", musgrave2020.CHARACTERS, SMOKE, expected="1 minute, 2 cores"),
    Study("glyphs-quick", "glyphs", musgrave2020.CHARACTERS, QUICK, expected="8 minutes, 2 cores"),
    Study("glyphs-full", "glyphs", musgrave2020.CHARACTERS, FULL, expected="some GPU hours, not measured"),
    Study("omniglot-full", "omniglot", musgrave2020.CHARACTERS, FULL, expected="some GPU hours, not measured"),
    Study("grocery-frozen-full", "grocery", musgrave2020.FROZEN, FULL, expected="1 hour, 2 cores"),
    Study("cars196crops-frozen-full", "cars196crops", musgrave2020.FROZEN, FULL, expected="1 hour, 2 cores"),
    *(_musgrave(dataset) for dataset in ("cub200", "cars196", "sop")),
)
STUDIES = {study.name: study for study in _ALL}
STUDIES |= {(judged := rate_study(STUDIES[name], rate)).name: judged for name in _CHOOSE_A_RATE for rate in RATES}


def get(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]
