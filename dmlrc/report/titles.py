"""Titles of studies on a page. In code, files and commands they go by their slugs, and so do the templates of
sentences; `publish` prints the titles instead.
"""

import re

import pandas as pd

from dmlrc import papers
from dmlrc.papers.musgrave2020 import DEPTHS as DEPTH_SETTINGS
from dmlrc.protocol import Study
from dmlrc.studies import STUDIES
from dmlrc.studies.adapted import FIRST_RUNS
from dmlrc.studies.catalogue import DEPTHS, MOBILENETS

DATASETS = {
    "glyphs": "Glyphs",
    "glyphs-small": "Small Glyphs",
    "icons": "Icons",
    "omniglot": "Omniglot",
    "grocery": "Grocery Store",
    "grocery-lite0": "Grocery Store",
    "cars196": "Cars196",
    "cars196crops": "Cars crops",
    "cub200": "CUB200",
    "cub200_2010": "CUB-200 (2010)",
    "sop": "SOP",
    "inshop": "In-Shop",
}
TRUNKS = {
    "conv4": "conv4",
    "squeezenet1_0": "SqueezeNet 1.0",
    "googlenet": "GoogLeNet",
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "inception_v3_mixed7a": "Inception-v3 to Mixed_7a",  # ahead of the name that it begins with: see `about`
    "inception_v3": "Inception-v3",
    "bn_inception": "BN-Inception",
    "timm:tf_efficientnet_lite0": "EfficientNet-Lite0",
    "timm:mobilenetv2_100": "MobileNetV2",
}
MOBILENET_DEPTHS = {
    "embedder": "embedder alone",
    "last-block": "last block trained",
    "half": "half trained",
    "whole": "everything trained",
}
RATES = {
    "rate-tenfold": ", at ten times the rate",
    "rate-searched": ", rate searched",
    "rates-searched": ", rate searched in 100 trials",
}
"""The experiments that are tables of their own, with another learning rate."""

METHODS_TABLE = "methods table"
OUR_EXPERIMENTS = {
    METHODS_TABLE: METHODS_TABLE,
    "after2019": "losses after 2019",
    "projections": "untrained linear layers",
    "variance": "variance within classes",
    "rate-searched": f"{METHODS_TABLE}, learning rate searched",
    "rate-tenfold": f"{METHODS_TABLE}, ten times the learning rate",
    "rates-searched": f"{METHODS_TABLE}, learning rate searched, 100 trials",
}
"""Experiments that no paper of the five has."""
SWEEPS = {  # those whose names are no words
    "batches": "batch size",
    "batches-equal": "batch size, equal images",
    "decays": "weight decay",
    "dims": "embedding size",
    "early-winners": "settings found after 10 and 25 trials",
    "layer_norm": "LayerNorm",
    "losses-equal": "losses, equal batches",
    "preprocessing": "image size or augmentation",
    "random": "random class order",
    "log-scales": "scales searched in logarithms",
    "samples": "images of a class",
    "shares": "share of classes",
}
_QUOTED, _BARE = re.compile(r"(?<!`)`([\w/-]+)`(?!`)"), re.compile(r"(?<!study run )(?<![\w`/=-])([\w/-]+)(?![\w`/-])")
"""What may be the slug of a study."""


def title(study: str) -> str:
    """A study's name as printed; an experiment has that of the study it stands around, a reader's own its slug.

    >>> title("cars196crops-frozen"), title("grocery-quick"), title("cars196crops-depths/squeezenet-last-block")
    ('Cars crops', 'Grocery Store (quick)', 'Cars crops (last block trained)')
    >>> title("grocery-frozen/roth2020"), title("cub200-musgrave2020"), title("my-photos")
    ('Grocery Store', 'CUB200 (fine-tuned)', 'my-photos')
    >>> title("cub200-2010-depths/squeezenet-last-block"), title("cars196crops-depths/squeezenet-embedder-alone")
    ('CUB-200 (2010), last block trained', 'Cars crops (embedder alone)')
    >>> title("cars196crops-depths/mobilenetv2-whole-2000")
    'Cars crops (MobileNetV2, everything trained, 2,000 steps)'
    >>> title("cub200-2010-frozen/rate-tenfold")
    'CUB-200 (2010), at ten times the rate'
    """
    known = STUDIES.get(study)
    if known is None:
        return study
    if known.parent in STUDIES:
        return title(known.parent) + RATES.get(known.experiment, "")
    data, qualifiers = DATASETS.get(known.dataset, known.dataset), ", ".join(_qualifiers(known))
    if not qualifiers:
        return data
    return f"{data}, {qualifiers}" if data.endswith(")") else f"{data} ({qualifiers})"


def _qualifiers(study: Study) -> list[str]:
    """Words that tell a study from the usual one on its data: full budget, frozen trunk or characters from scratch."""
    words = [] if study.budget.name == "full" else [study.budget.name]
    return words + ["first run"] * (study.name in FIRST_RUNS) + _depth(study)


def _depth(study: Study) -> list[str]:
    protocol = study.protocol
    if study.name in MOBILENETS:
        depth = next(name for name, changes in DEPTH_SETTINGS.items() if changes.items() <= vars(protocol).items())
        steps = protocol.max_epochs * protocol.iterations_per_epoch
        return ["MobileNetV2", MOBILENET_DEPTHS[depth], *[f"{steps:,} steps"] * (steps > 1000)]
    if protocol.train_from:
        return ["last block trained"]
    if protocol.frozen_trunk:
        return ["embedder alone"] * (study.name in DEPTHS)
    return ["everything trained"] * (study.name in DEPTHS) if protocol.weights is None else ["fine-tuned"]


def paper(key: str) -> str:
    """A paper as printed.

    >>> paper("roth2020")
    'Roth et al. 2020'
    """
    return next((other.label for other in papers.ALL if other.key == key), key)


def trunk_level(level: str) -> tuple[str, str]:
    """A level of a sweep over trunks: the trunk, and "random" or "frozen" where its weights are, else "".

    The levels are named in `dmlrc.studies.adapted`.

    >>> trunk_level("conv4-random"), trunk_level("timm:tf_efficientnet_lite0")
    (('conv4', 'random'), ('timm:tf_efficientnet_lite0', ''))
    """
    name, _, kind = level.rpartition("-")
    return (name, kind) if kind in ("random", "frozen") else (level, "")


def trunk_title(level: str) -> str:
    """A level of a sweep over trunks as printed.

    >>> trunk_title("conv4-random"), trunk_title("timm:tf_efficientnet_lite0")
    ('conv4, random', 'EfficientNet-Lite0')
    """
    name, kind = trunk_level(level)
    return ", ".join(filter(None, (TRUNKS.get(name, name), kind)))


def experiment(name: str, of: str) -> str:
    """An experiment in words; of: the key of the paper whose protocol it follows.

    >>> experiment("roth2020/dims", "roth2020"), experiment("methods table", "musgrave2020")
    ('Roth et al. 2020: embedding size', 'methods table')
    >>> experiment("after2019", "musgrave2020"), experiment("trunks", "musgrave2020")
    ('losses after 2019', 'Musgrave et al. 2020: trunks')
    >>> experiment("rate-tenfold", "musgrave2020"), experiment("oi2021/order-2", "oi2021")
    ('methods table, ten times the learning rate', 'Oi et al. 2021: random class order 2')
    """
    if name in OUR_EXPERIMENTS:
        return OUR_EXPERIMENTS[name]
    sweep = re.sub(r"^order-(?=\d)", f"{SWEEPS['random']} ", name.removeprefix(of).removeprefix("/"))
    return f"{paper(of)}: {SWEEPS.get(sweep, sweep)}" if sweep else paper(of)


def _entitled(match: re.Match) -> str:
    return title(match[1]) if match[1] in STUDIES else match[0]


def in_label(text: object) -> object:
    """A heading, or a text of a figure, in which slugs have become titles; commands and other things stay.

    >>> in_label("grocery-quick, fold 1"), in_label("dmlrc study run grocery-quick"), in_label(3)
    ('Grocery Store (quick), fold 1', 'dmlrc study run grocery-quick', 3)
    """
    if not isinstance(text, str):
        return text
    return _BARE.sub(_entitled, text)


def in_prose(markdown: str) -> str:
    """Markdown in which each study goes by its title; what stands in backticks with other words is a command and stays.

    >>> in_prose("`grocery-quick` and cub200-2010-frozen gain; `make book STUDY=grocery-quick` shows it.")
    'Grocery Store (quick) and CUB-200 (2010) gain; `make book STUDY=grocery-quick` shows it.'
    """
    parts = re.split(r"(`+[^`]*`+)", _QUOTED.sub(_entitled, markdown))
    return "".join(part if part.startswith("`") else in_label(part) for part in parts)


def in_headings(cells: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows and columns are named by titles."""
    return cells.rename(index=in_label, columns=in_label)
