"""Texts of a page: cells in percent, methods by their labels, and what a caption must say."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from dmlrc.data import folder_name
from dmlrc.papers import after2019
from dmlrc.records import StudyRecords
from dmlrc.report import editions, titles
from dmlrc.report.tables import PRETRAINED, Methods, accuracy, by_method
from dmlrc.studies.adapted import FIRST_RUNS

METRIC_LABELS = {
    "precision_at_1": "P@1",
    **{f"recall_at_{k}": f"R@{k}" for k in (1, 2, 4, 8)},
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "map_at_c": "mAP@C",
    "map_at_1000": "mAP@1000",
    "nmi": "NMI",
    "f1": "F1",
}
UNTRAINED = "Untrained trunk"
"""The row of the trunk before any training of ours, which the Reality Check calls *Pretrained*."""
PARAMETER_LABELS = {
    "pos_margin": "margin of positives",
    "neg_margin": "margin of negatives",
    "second_margin": "second margin",
    "loss_weights_lr": "rate of the loss's weights",
    "weight_length": "length of class weights at the start",
    "proxy_std": "SD of proxies at the start",
    "softmax_scale": "scale",
    **dict.fromkeys(("num_bins", "n_bins"), "bins"),
    **dict.fromkeys(("regularizer_weight", "reg_weight"), "weight of the regulariser"),
    "l2_weight": "weight of the norms",
    "angular_weight": "weight of the angles",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    **dict.fromkeys(("base", "la"), "λ"),
    "epsilon": "ε",
    "m": "margin",
    "centers_per_class": "centres a class",
    "switch_probability": "switching probability",
    "rank_temperature": "temperature of ranks",
    "max_k": "largest k",
    "Tn": "temperature of negatives",
}
"""The hyperparameters as printed, by the symbols of their papers where these have one; others are words already."""
SETTING_LABELS = {
    "frozen_trunk": "frozen trunk",
    "train_from": "first layer that trains",
    "embedding_dim": "embedding size",
    "image_size": "image size, pixels",
    "crop_size": "crop size, pixels",
    "crop_scale": "crop, share of the area",
    "crop_ratio": "crop, width to height",
    "lr": "learning rate",
    "new_lr": "learning rate of the new layer",
    "lr_steps": "epochs at which the rate falls",
    "lr_decay": "decay of the rate",
    "weight_decay": "weight decay",
    "loss_weight_decay": "weight decay of the loss's weights",
    "optimizer": "optimiser",
    "batch_size": "batch size",
    "eval_every": "epochs between validations",
    "max_epochs": "limit, epochs",
    "iterations_per_epoch": "steps an epoch",
    "warmup_epochs": "warm-up, epochs",
    "freeze_batch_norm": "BatchNorm frozen",
    "layer_norm": "LayerNorm",
    "class_share": "share of the classes in the softmax",
    "meta_classes": "meta-classes",
    "class_order": "class order",
    "per_class": "scores of each test class kept",
    "square": "images made square by",
}
"""The settings of a protocol as printed, where their own names are no words."""
_AS_PRINTED = {
    "trunk": titles.TRUNKS,
    "weights": {
        "imagenet": "ImageNet",
        "package": "ImageNet, from a Python package",
        "squeezenet1_0_deepcompression.pth": "ImageNet, Deep Compression",
        "inception_v3_mixed7a.pth": "ImageNet, TensorFlow's of 2015",
    },
    "augmentation": {"place": "crop at a random place"},
    "sampler": {"class_balanced": "class-balanced"},
    "split": {"ratio_4_1_5": "4 : 1 : 5"},
    "optimizer": {"rmsprop": "RMSprop", "adam": "Adam", "sgd": "SGD", "adamw": "AdamW"},
    **dict.fromkeys(("metrics", "val_metrics"), METRIC_LABELS | {"jsd": "JSD"}),
}
_NONE = {
    "iterations_per_epoch": "one pass",
    "new_lr": "as the network",
    "loss_weight_decay": "as the network",
    "embedding_dim": "that of the trunk",
}
"""What it means where a setting is not given."""
PCA = "pretrained: by a PCA, approximate above 1,000 features or with fewer than ten images per feature."
BELOW, CUT_OFF = "↓", "»"
SIGNS = {
    BELOW: "the mean is lower than that of the trunk without any training",
    CUT_OFF: "more than one in twenty of its runs ended at the limit of epochs",
}
"""What a sign behind a number means."""
LAST_BLOCKS = {
    "squeezenet1_0": "features.12",
    **dict.fromkeys(("timm:tf_efficientnet_lite0", "timm:mobilenetv2_100"), "blocks.6"),
}


def prose(name: str) -> str:
    """A name that a user gave, as Markdown that shows it as it is: in sentences and captions.

    >>> print(prose("a <b> & $c$ `d`"), prose("margin_per_class"))
    a \\<b\\> \\& \\$c\\$ \\`d\\` margin_per_class
    """
    return re.sub(r"[\\`*{}\[\]<>$&|~#!^]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(name.split()))


def method_label(method: str, methods: Methods = after2019.KNOWN) -> str:
    """A method's name as printed; one that is not among `methods` keeps its name."""
    return UNTRAINED if method == PRETRAINED else methods[method].label if method in methods else method


def parameter(name: str) -> str:
    """A hyperparameter as printed; one of a reader's own loss keeps its name.

    >>> parameter("pos_margin"), parameter("temperature")
    ('margin of positives', 'temperature')
    """
    return PARAMETER_LABELS.get(name, name)


def parameters(names: str) -> str:
    """Hyperparameters as printed. names: joined by ", ", as `tables.method_facts` has them."""
    return ", ".join(map(parameter, names.split(", ")))


def in_words(cells: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows, or whose column "setting", name settings, with words for them."""
    words = cells.rename(index=SETTING_LABELS)
    return words.assign(setting=words["setting"].replace(SETTING_LABELS)) if "setting" in words else words


def setting_text(value) -> str:
    """The value of a setting as printed; a file by its name alone.

    >>> setting_text((0.16, 1.0)), setting_text(True), setting_text(None), setting_text(1e-06)
    ('0.16 to 1', 'yes', 'none', '1e-06')
    >>> setting_text(("map_at_r", "jsd")), setting_text(())
    ('map_at_r, jsd', 'none')
    >>> setting_text("~/nets/mine.pth"), setting_text("timm:hf-hub:timm/resnet50")
    ('mine.pth', 'timm:hf-hub:timm/resnet50')
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, str) and (value.startswith("~") or Path(value).is_absolute()):
        return Path(value).name
    if isinstance(value, (list, tuple)):
        texts = all(isinstance(part, str) for part in value)
        return ", ".join(value) or "none" if texts else " to ".join(f"{number:.3g}" for number in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(name: str, value) -> str:
    """The value of a setting as printed: networks and metrics by their names, rates in powers of ten.

    >>> setting("trunk", "bn_inception"), setting("lr", 1e-06), setting("weight_decay", 0.0)
    ('BN-Inception', '10⁻⁶', '0')
    >>> setting("metrics", ("map_at_r", "nmi")), setting("momentum", 0.9), setting("iterations_per_epoch", None)
    ('MAP@R, NMI', '0.9', 'one pass')
    """
    if value is None and name in _NONE:
        return _NONE[name]
    words = _AS_PRINTED.get(name, {})
    if isinstance(value, (list, tuple)) and words:
        return setting_text([words.get(part, part) for part in value])
    if name in ("lr", "new_lr", "weight_decay", "loss_weight_decay") and isinstance(value, float) and 0 < value < 0.01:
        return rate(value)
    return words.get(value, setting_text(value)) if isinstance(value, str) else setting_text(value)


def format_settings(values: pd.DataFrame) -> pd.DataFrame:
    """Settings as cells, see `setting`. values: a row a setting, by its field of the protocol."""
    return values.apply(lambda row: row.map(lambda value: setting(row.name, value)), axis=1)


def score(mean: float, ci95: float, form: str = ".2%") -> str:
    """Format a score as `number` does, but end its interval where the scale ends.

    >>> score(0.6721, 0.0049), score(0.9881, 0.1513), score(0.02, 0.03, ".1%")
    ('67.21 ± 0.49', '98.81 (83.68 to 100.00)', '2.0 (0.0 to 5.0)')
    """
    if math.isnan(mean + ci95) or 0 <= mean - ci95 <= mean + ci95 <= 1:
        return number(mean, ci95, form=form)
    ends = max(mean - ci95, 0), min(mean + ci95, 1)
    return "{} ({} to {})".format(*(number(value, form=form) for value in (mean, *ends)))


def rate(value: float) -> str:
    """A learning rate in powers of ten.

    >>> rate(1e-05), rate(0.0003), rate(0.01)
    ('10⁻⁵', '3·10⁻⁴', '10⁻²')
    """
    factor, power = f"{value:.0e}".split("e")
    ten = "10" + str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if factor == "1" else f"{factor}·{ten}"


def signs(cells: pd.DataFrame) -> str:
    """The meaning of each sign in these cells; "" where they have none.

    >>> signs(pd.DataFrame({"a": ["1.0 ↓", "2.0"], "b": ["", 3]}))
    '↓: the mean is lower than that of the trunk without any training.'
    """
    texts = " ".join(map(str, cells.to_numpy().ravel()))
    return " ".join(f"{sign}: {meaning}." for sign, meaning in SIGNS.items() if sign in texts)


def marks_legend(frame: pd.DataFrame) -> str:
    """The meaning of bold and italic cells in a results table. frame: `tables.accuracy`."""
    if "seed_ci95" in frame:
        return (
            "In brackets: the ranks that a method may have, all pairs compared. Bold: the highest mean. Italic: tied "
            "with the best, with which alone it is compared, counting the noise of search and seed. A "
            "method's variance is its own, moved towards the mean of all."
        )
    marks = "Bold: the highest mean. Italic: tied with the best, counting the noise of seeds alone."
    return f"In brackets: the ranks that a method may have. {marks}" if "rank_low" in frame else marks


def number(
    value: float | str, half: float = nan, low: float = nan, high: float = nan, form: str = "", unit: str = ""
) -> str:
    """A number as printed, with its interval where it has one, "" for NaN; a word as it is.

    form: as Python has it; ".1%" is a share in percent, "+.1%" a difference in points, ".3f" the number itself; "" up
    to four digits, below a thousandth in powers of ten, as hyperparameters are printed.

    >>> number(0.5801), number(1e-06), number(0.0001337), number(-0.2), number(100.0), number(0.0), number("cosine")
    ('0.5801', '10⁻⁶', '1.3·10⁻⁴', '-0.2', '100', '0', 'cosine')
    >>> number(-0.0123, 0.004, form="+.1%"), number(0.5, form=".3f"), percent(0.6721, 0.0049), percent(nan)
    ('-1.2 ± 0.4', '0.500', '67.21 ± 0.49', '')
    >>> number(0.016, low=0.01, high=0.02, form="+.1%", unit=" points")
    '+1.6 points [+1.0, +2.0]'
    """
    if isinstance(value, str) or math.isnan(value):
        return value if isinstance(value, str) else ""
    if not form:
        return f"{value:.4g}" if not 0 < abs(value) < 1e-3 else _power(value)
    interval = "" if math.isnan(half) else f" ± {half:{form.removeprefix('+')}}"
    interval = interval if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"
    return f"{value:{form}}".replace("%", "") + unit + interval.replace("%", "")


def _power(value: float) -> str:
    """A small number in powers of ten."""
    power = math.floor(math.log10(abs(value)))
    factor, ten = f"{value / 10**power:.2g}", rate(10.0**power)
    return ten if factor == "1" else f"{factor}·{ten}"


percent = partial(number, form=".2%")
"""A fraction and its interval in percent."""
one_digit = partial(number, form=".1%")
"""A fraction in percent, as papers print R@1."""


_WORDS = {"method": method_label, "study": titles.title, "paper": titles.paper, "hyperparameter": parameter}
"""The columns whose texts are names of ours, and how these are printed."""


def cells(frame: pd.DataFrame, shown: Mapping | None = None, form: str = ".2%", index: Sequence = ()) -> pd.DataFrame:
    """Print columns under their headings, and the names of rows; methods and studies by their labels and titles.

    shown: column -> its heading, or its heading and form; default all by their names. A tuple of columns is a number
    and half of its interval, or a number and the two ends of it. form: of `number`, for real numbers, with a dash for
    NaN; or a function of what stands in these columns. index: headings, or headings and forms, of the names of rows;
    default the names of the index's levels.

    >>> frame = pd.DataFrame({"a": [0.5, nan], "half": [0.1, nan]}, pd.Index(["margin", "x"], name="method"))
    >>> cells(frame, {("a", "half"): "A", "a": ("as it is", str)}).reset_index().to_numpy().tolist()
    [['Margin', '50.00 ± 10.00', '0.5'], ['x', '–', 'nan']]
    """
    levels, table, texts = frame.index.names, frame.reset_index(), {}
    heads = dict(zip(levels, index or levels, strict=True)) | (shown or dict(zip(frame, frame, strict=True)))
    for names, head in heads.items():
        head, own = (head, form) if isinstance(head, str) else head
        values = table[list(names) if isinstance(names, tuple) else [names]].itertuples(index=False, name=None)
        texts[head] = [_cell(names, value, own) for value in values]
    return pd.DataFrame(texts).set_index(list(texts)[: len(levels)])


def _cell(names: str | tuple[str, ...], values: tuple, form: str | Callable[..., str]) -> str:
    if not callable(form) and isinstance(values[0], float):
        value, *interval = values
        return number(value, *([nan] * (len(interval) > 1)), *interval, form=form) or "–"
    return (form if callable(form) else _WORDS.get(names, str))(*values)


def signed(value: float, digits: int = 1, unit: str = " %") -> str:
    """A gain (fraction) with its sign.

    >>> signed(0.016), signed(-0.00123, 2, ""), signed(float("nan"))
    ('+1.6 %', '-0.12', '–')
    """
    return "–" if np.isnan(value) else f"{100 * value:+.{digits}f}{unit}"


def dataset(records: StudyRecords) -> str:
    """The data set of a study as printed; a folder of the reader's own by its last part."""
    return dataset_label(records.meta["dataset"])


def dataset_label(name: str) -> str:
    """A data set as printed; of a folder its own name, without where it lies.

    >>> dataset_label("cars196"), dataset_label("folder:/home/me/photos")
    ('Cars196', 'folder photos')
    """
    return f"folder {folder_name(name)}" if name.startswith("folder:") else titles.DATASETS.get(name, name)


def trunk(protocol: Mapping) -> str:
    """The trunk of a protocol as printed: which network, where its weights come from, and how much of it trains.

    >>> trunk({"trunk": "squeezenet1_0", "frozen_trunk": False, "train_from": "features.12"})
    'SqueezeNet 1.0, last block trained'
    >>> trunk({"trunk": "squeezenet1_0", "frozen_trunk": False, "train_from": "features.10"})
    'SqueezeNet 1.0, trained from features.10 on'
    """
    name = titles.TRUNKS.get(protocol["trunk"], protocol["trunk"])
    if protocol["frozen_trunk"]:
        return f"{name}, frozen"
    if first := protocol.get("train_from"):
        last = LAST_BLOCKS.get(protocol["trunk"]) == first
        return f"{name}, last block trained" if last else f"{name}, trained from {first} on"
    return f"{name}, fine-tuned" if protocol["weights"] else f"{name}, from scratch"


def caption(records: StudyRecords) -> str:
    """A caption's words on a study: how many runs stand behind a number. The rest is said once per page (`about`).

    Also whether it is a reader's own beside published ones, and how a comparison cut the records that it takes over.
    """
    yours = ", your run" if editions.is_yours(records.name) else ""
    return f"`{records.name}`{yours}: {count_of_runs(records)}.{_cut(records)}"


def _cut(records: StudyRecords) -> str:
    first_of, budget = records.meta.get("first_of"), records.meta["budget"]
    if not first_of:
        return ""
    pairs = {what: (budget[what], first_of["budget"][what]) for what in ("trials", "reruns")}
    parts = [f"{what} {kept} of {all_}" for what, (kept, all_) in pairs.items() if kept < all_]
    return f" From `{first_of['study']}`: {', '.join(parts)}."


def count_of_runs(records: StudyRecords) -> str:
    """The finished reruns of a method, or trials where none was run again; "fewest to most" where methods differ."""
    frame, noun = (records.trials, "trial") if records.reruns.empty else (records.reruns, "rerun")
    counts = frame["method"][frame["state"] == "complete"].value_counts()
    low, high = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
    if low < high:
        return f"n = {low} to {plural(high, noun)}"
    searches = records.searches
    if searches > 1 and high % searches == 0:
        return f"n = {plural(high, noun)} ({searches} searches, {plural(high // searches, noun)} each)"
    return f"n = {plural(high, noun)}"


CAVEATS: Mapping[str, Callable[[StudyRecords], bool]] = {
    "Short searches and runs, which rank the methods for this budget alone and settle no claim": lambda records: (
        records.meta["budget"]["name"] != "full" and records.meta["budget"]["trials"] >= 10
    ),
    "A small budget, which shows that the whole chain works and is too small to rank the methods": lambda records: (
        records.meta["budget"]["name"] != "full" and records.meta["budget"]["trials"] < 10
    ),
    "{term}`Frozen trunk`, on whose fixed ImageNet features a linear embedder alone is trained, where the papers "
    "fine-tuned the whole network": lambda records: records.meta["protocol"]["frozen_trunk"],
    "Random weights of the untrained trunk": lambda records: records.meta["protocol"]["weights"] is None,
}
"""The limits of what numbers show -> of which studies' numbers."""


def caveats(edition: Sequence[StudyRecords]) -> str:
    """The limits of what these studies' numbers show, each stated once, with the studies to which it applies."""
    of = {limit: [f"`{records.name}`" for records in edition if holds(records)] for limit, holds in CAVEATS.items()}
    stated = [f"{limit}: {listed(names)}." for limit, names in of.items() if names]
    texts = filter(None, [first_runs(edition), *stated])
    return " ".join(texts) or "A ranking on one data set and one trunk is no ranking on another."


def first_runs(edition: Iterable[StudyRecords]) -> str:
    """The meaning of a first run, where one, or an experiment around it, is shown; else ""."""
    rate = "the learning rate of its methods table is not the one that the validation classes choose"
    shown = any((records.meta["parent"] or records.name) in FIRST_RUNS for records in edition)
    return f"{{term}}`First run`: {rate}." if shown else ""


def below_untrained(records: StudyRecords, metric: str, setting: str = "concatenated") -> tuple[int, int]:
    """The number of methods with a lower mean than the trunk, and of all; (0, 0) where the trunk or all are missing."""
    rows = by_method(accuracy(records), metric, setting)
    trained = rows["mean"].drop(PRETRAINED, errors="ignore")
    return (int((trained < rows["mean"][PRETRAINED]).sum()), len(trained)) if PRETRAINED in rows.index else (0, 0)


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "claim"), plural(3, "search")
    ('1 claim', '3 searches')
    """
    return f"{number} {noun}{('es' if noun.endswith(('ch', 'ss')) else 's') * (number != 1)}"


def rank_range(low: float, high: float, between: str = " to ") -> str:
    """The places between which a mean may lie, as printed.

    >>> rank_range(1, 3), rank_range(2, 2), rank_range(float("nan"), 1), rank_range(1, 3, between="–")
    ('1 to 3', '2', '–', '1–3')
    """
    if np.isnan(low) or np.isnan(high):
        return "–"
    return f"{low:.0f}" if low == high else f"{low:.0f}{between}{high:.0f}"


def listed(texts: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
    ('a', 'a, b and c', '')
    """
    texts = list(texts)
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


whole = partial(signed, digits=0)
"""A gain in whole percent."""
