"""Every study by name."""

from dataclasses import replace

from dmlrc.errors import unknown
from dmlrc.papers import musgrave2020
from dmlrc.protocol import FULL, QUICK, Budget
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
        expected="",
    )


_PATIENCE = {"cars196": {"eval_every": 5, "patience": 14}, "sop": {"eval_every": 20, "patience": 39}}


def _musgrave(dataset: str) -> Study:
    protocol = replace(musgrave2020.PROTOCOL, **_PATIENCE.get(dataset, {}))
    methods = musgrave2020.SOP_METHODS if dataset == "sop" else musgrave2020.METHODS
    return Study(f"{dataset}-musgrave2020", dataset, protocol, FULL, methods, expected="about 1,000 GPU hours")


_ALL = (
    Study("glyphs-quick", "glyphs", musgrave2020.CHARACTERS, QUICK),
    Study("glyphs-full", "glyphs", musgrave2020.CHARACTERS, FULL),
    Study("omniglot-full", "omniglot", musgrave2020.CHARACTERS, FULL),
    Study("grocery-frozen-full", "grocery", musgrave2020.FROZEN, FULL),
    Study("cars196crops-frozen-full", "cars196crops", musgrave2020.FROZEN, FULL),
    *(_musgrave(dataset) for dataset in ("cub200", "cars196", "sop")),
)
STUDIES = {study.name: study for study in _ALL}
STUDIES |= {
    rate_study(study, rate).name: rate_study(study, rate)
    for study in _ALL
    for rate in RATES
    if study.protocol.frozen_trunk or study.protocol.trunk == "conv4"
}


def get(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]
