"""Ways to get a wrong number: the tables and figures of the chapter, and the numbers that its text names."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pandas as pd

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords
from dmlrc.report import editions, labels, publish, published
from dmlrc.report.fehervari2019.page import fehervari_label
from dmlrc.report.findings import literature, metrics, training

WITH_CURVES = "grocery-frozen"
"""A study whose committed records have long validation curves, shown beside the studies of any edition."""


def load(studies: str, train: bool = False) -> list[StudyRecords]:
    """The records of these studies (names joined by commas), and of `WITH_CURVES` where they are present."""
    edition = editions.load(studies, train)
    if WITH_CURVES not in editions.names(studies):
        try:
            edition.append(records.load(WITH_CURVES))
        except MissingDataError:
            return edition
    return edition


# The tables


class Shape(NamedTuple):
    """How the numbers of a finding are printed.

    make: the numbers, of these studies where some of them are theirs. heads: column -> printed name. percents: the
    columns that are fractions. index: what stands over the rows' names; rows: the numbers -> rows named as printed.
    """

    make: Callable[..., pd.DataFrame]
    heads: Mapping[str, str]
    percents: Collection[str] = ()
    index: str = ""
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    digits: int = 1


def _gains_as_text(frame: pd.DataFrame) -> pd.DataFrame:
    whole = {name: frame[name].map(labels.whole) for name in ("claimed", "lowest", "highest")}
    return frame.assign(**whole, fair=frame["fair"].map(labels.signed)).set_index("baseline")


def _plots_as_text(frame: pd.DataFrame) -> pd.DataFrame:
    names = {
        "method": fehervari_label,
        "trunk": labels.TRUNK_LABELS.get,
        "metric": labels.METRIC_LABELS.get,
    }
    return frame.assign(**{name: frame[name].map(told) for name, told in names.items()}).set_index("dataset")


def _batches(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(batch=frame["classes"].astype(str) + " x " + frame["images"].astype(str)).set_index("batch")


OURS = ("own-maximum", "classes-published", "twins")
"""The numbers that need an edition."""
SHAPES = {
    "ties": Shape(
        metrics.ties,
        {
            "sorted": "sorted rows",
            "lowest": "random, lowest",
            "highest": "random, highest",
            "ours_lowest": "ours, lowest",
            "ours_highest": "ours, highest",
        },
        ("sorted", "lowest", "highest", "ours_lowest", "ours_highest"),
        "embedding",
    ),
    "duplicates": Shape(
        metrics.duplicates,
        {"share": "images copied, %", "naive": "first dropped", "ours": "query left out"},
        ("share", "naive", "ours"),
        rows=lambda frame: frame.set_index("copies"),
    ),
    "singletons": Shape(
        metrics.singletons,
        {"share": "share of all, %", "ours": "left out", "excluded": "queries left out", "as_zero": "counted as 0"},
        ("share", "ours", "as_zero"),
        "images alone",
        lambda frame: frame.set_index("alone"),
    ),
    "map-at-c": Shape(
        metrics.perfect_map_at_c,
        {"ours": "ours", "as_coded": "divided by C", "formula": "(C - 1) / C"},
        ("ours", "as_coded", "formula"),
    ),
    "classes-published": Shape(
        metrics.validation_and_test,
        {
            "validation_classes": "validation classes",
            "test_classes": "test classes",
            "validation": "validation",
            "test": "test",
            "ratio": "ratio",
        },
        ("validation", "test"),
        "data",
    ),
    "random-nmi": Shape(
        metrics.random_nmi,
        {
            "images": "images a class",
            "worst": "worst clusters",
            "shuffled": "shuffled",
            "kmeans": "k-means",
            "formula": "1 − log S / log C",
        },
        ("worst", "shuffled", "kmeans", "formula"),
        rows=lambda frame: frame.assign(classes=frame["classes"].map("{:,}".format)).set_index("classes"),
    ),
    "singular-values": Shape(
        metrics.kept_singular_values,
        {
            "all": "all D",
            "paper": "without the largest",
            "without_smallest": "without the smallest",
            "without_both": "without both",
        },
        index="spectrum",
    ),
    "ap-from-zero": Shape(
        metrics.ap_from_zero,
        {
            "from_one": "k = 1 to R",
            "literal": "with Precision@0",
            "shifted": "places from 0",
            "query": "query as place 0",
        },
        ("from_one", "literal", "shifted", "query"),
        "ranking",
    ),
    "arcface-margin": Shape(
        training.arcface_margins,
        {"zero": "loss, margin 0", "half": "loss, margin 0.5 rad", "gradient": "change of the gradient"},
        index="margin added to",
    ),
    "coreset": Shape(training.coreset_radius, {"mean": "covering radius", "std": "std"}, index="anchors"),
    "wasserstein": Shape(
        training.histogram_pairs,
        {"as_weights": "heights as weights", "as_samples": "heights as samples"},
        index="a histogram and",
    ),
    "snr-regulariser": Shape(
        training.snr_regulariser,
        {"loss": "loss", "gradient": "length of the gradient", "drift": "its part along the sum"},
        index="regulariser",
    ),
    "soft-triple": Shape(
        training.soft_triple_of_perfect_batches,
        {"perfect": "loss, perfect batch", "random": "loss, random batch"},
        index="SoftTriple",
    ),
    "sop-split": Shape(
        training.sop_splits,
        {
            "train_val": "classes for training",
            "test": "for testing",
            "tested_training_classes": "training classes tested",
        },
        index="split",
    ),
    "smooth-ap": Shape(
        training.smooth_ap_of_perfect_batches,
        {"sorted": "labels sorted", "ours": "groups by label", "blocks": "blocks"},
        index="classes x images",
        rows=_batches,
    ),
    "twins": Shape(
        literature.twin_rows,
        {
            "normalized_softmax": "N. Softmax",
            "proxy_nca": "ProxyNCA",
            "gap": "difference",
            "noise": "intervals",
            "range": "range",
            "share": "share",
        },
        ("normalized_softmax", "proxy_nca", "gap", "noise", "range", "share"),
        "data",
        digits=2,
    ),
    "twin-temperatures": Shape(
        literature.twin_temperatures,
        {
            "batch_size": "batch",
            "normalized_softmax": "N. Softmax, T",
            "proxy_nca": "ProxyNCA, 1 / (2 s)",
            "ratio": "ratio",
        },
        index="data",
        rows=lambda frame: frame.reset_index().set_index("dataset"),
    ),
    "recycled": Shape(
        literature.repeated_baselines,
        {"dataset": "data", "r1": "R@1, 2016", "later": "again", "read": "of", "who": "who"},
        ("r1",),
        rows=lambda frame: frame.set_index("baseline"),
    ),
    "gains": Shape(
        literature.claimed_and_fair_gains,
        {
            "dataset": "data",
            "claimed": "claimed, mean",
            "lowest": "lowest",
            "highest": "highest",
            "papers": "papers",
            "fair": "measured",
        },
        index="over",
        rows=_gains_as_text,
    ),
    "table-against-plot": Shape(
        literature.table_against_plot,
        {
            "method": "method",
            "trunk": "trunk",
            "metric": "metric",
            "value": "table",
            "plotted": "plot",
            "reported": "original paper",
            "plot_is_reported": "plot agrees with the original paper",
        },
        ("value", "plotted", "reported"),
        "data",
        _plots_as_text,
    ),
    "same-losses": Shape(
        literature.same_losses,
        {"first": "first", "second": "second", "value": "difference", "gradient": "difference of the gradients"},
        index="losses",
    ),
    "proxy-nca-pp": Shape(
        literature.claims_of_proxy_nca_pp,
        {"norm_softmax": "N. Softmax, 2019", "proxy_nca_pp": "ProxyNCA++, 2020", "difference": "difference"},
        ("norm_softmax", "proxy_nca_pp", "difference"),
        "data",
    ),
}


@cache
def frame(name: str) -> pd.DataFrame:
    """The numbers of a finding that needs no study."""
    return SHAPES[name].make()


def table(name: str, caption: str, edition: Sequence[StudyRecords] = (), wrap: bool = False) -> None:
    """Publish the table of a finding under `finding-<name>`."""
    shape = SHAPES[name]
    numbers_ = shape.make(edition) if name in OURS else frame(name)
    text = cells(shape.rows(numbers_), shape.heads, shape.percents, shape.index, shape.digits)
    publish.table(f"finding-{name}", text, caption, data=numbers_, wrap=wrap)


def cells(
    frame: pd.DataFrame, heads: Mapping[str, str], fractions: Collection[str] = (), index: str = "", digits: int = 1
) -> pd.DataFrame:
    """The columns of `heads` under their printed names, as text. index: what stands over the rows' names.

    Fractions in percent with so many digits, other real numbers as `labels.number` tells them, truth values yes and no.

    >>> frame = pd.DataFrame({"a": [0.5, float("nan")], "b": [1.0, 2e-9]})
    >>> cells(frame, {"a": "A, %", "b": "B"}, ["a"]).to_numpy().tolist()
    [['50.0', '1'], ['–', '2·10⁻⁹']]
    """
    text = {}
    for column, head in heads.items():
        values = frame[column]
        if column in fractions:
            text[head] = values.map(lambda value: labels.percent(value, digits=digits)).replace("", "–")
        elif pd.api.types.is_bool_dtype(values):
            text[head] = values.map({True: "yes", False: "no"})
        elif pd.api.types.is_float_dtype(values):
            text[head] = values.map(labels.number).replace("nan", "–")
        elif pd.api.types.is_integer_dtype(values):
            text[head] = values.map("{:,}".format)
        else:
            text[head] = values.map(str)
    printed = pd.DataFrame(text)
    return printed.rename_axis(index) if index else printed


# The overview


@dataclass(frozen=True)
class Pair:
    """A score as the fault makes it and as it should be, fractions. what: of what it is the score."""

    what: str
    wrong: float
    right: float

    @property
    def size(self) -> float:
        return abs(self.wrong - self.right)


def pairs(edition: Sequence[StudyRecords]) -> dict[str, Pair]:
    """The findings whose effect is two scores, the widest first; that of `own-maximum` only where a study shows it."""
    choice, alone, two = training.histogram_choice(), frame("singletons").iloc[-1], frame("map-at-c").iloc[0]
    copied = frame("duplicates").iloc[-1]
    ranking, collapsed = frame("ap-from-zero").loc["second place wrong"], frame("ties").loc["collapsed"]
    drawn, literal = (crops().iloc[row] for row in range(2))
    kept = training.arcface_without_gradient()["own"]
    found = {
        "wasserstein": Pair(
            f"how often the right one of ten batches is chosen, in {choice['pools']:.0f} pools", choice["same"], 1.0
        ),
        "singletons": Pair("P@1, some images alone in their class", alone["as_zero"], alone["ours"]),
        "map-at-c": Pair("mAP@C of a perfect embedding", two["as_coded"], two["ours"]),
        "arcface-clamp": Pair("images pulled to their class at the start", 1 - kept, 1.0),
        "duplicates": Pair("P@1 with copies under another label", copied["naive"], copied["ours"]),
        "ap-from-zero": Pair("AP@R of a ranking with one error", ranking["shifted"], ranking["from_one"]),
        "crops": Pair("share of the image in a mean crop", literal["area"], drawn["area"]),
        "ties": Pair("MAP@R of a collapsed embedding", collapsed["sorted"], collapsed["ours_lowest"]),
    }
    if len(part := own_maximum(edition)):
        means = part[["own_maximum", "at_checkpoint"]].mean()
        found["own-maximum"] = Pair("validation P@1 of a run", *means)
    return dict(sorted(found.items(), key=lambda item: item[1].size, reverse=True))


def own_maximum(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The rows of `training.own_maximum` of the study that validated its reruns most often; empty without one."""
    return training.longest_curves(training.own_maximum(edition))


@cache
def crops() -> pd.DataFrame:
    return training.crops(training.crop_sides())


class Finding(NamedTuple):
    """A way to get a wrong number: its table or figure is `finding-<name>`. seen: where it is found; do: the remedy."""

    name: str
    title: str
    do: str
    seen: str


ROTH, MUSGRAVE = "Roth et al. 2020, public code", "Musgrave et al. 2020"
FINDINGS = (
    Finding("wasserstein", "Bin heights compared as samples", "Give heights as weights of the bins' places.", ROTH),
    Finding("singletons", "Images alone in their class count as 0", "Leave them out, and say how many.", ROTH),
    Finding("map-at-c", "mAP@C that cannot reach 100 %", "Divide by the number of positives, C - 1.", ROTH),
    Finding("arcface-clamp", "Negative cosines clamped", "Leave cosines as they are.", ROTH),
    Finding("duplicates", "The first neighbour dropped, not the query", "Leave the query out by its index.", ROTH),
    Finding("ap-from-zero", "AP@R summed from k = 0", "Sum from k = 1.", "Oi et al. 2021, Eq. 1"),
    Finding("crops", "Crops between 40 and 256 pixels", "Say whether a scale is of area or side.", MUSGRAVE),
    Finding(
        "ties", "Ties scored by the order of the rows", "Take the mean score over all orders.", f"{ROTH}; any sort"
    ),
    Finding("own-maximum", "Each metric at its own best epoch", "Choose one checkpoint by validation.", ROTH),
    Finding("gains", "Gains over an untuned baseline", "Tune the baseline as hard.", "papers of 2017 to 2019"),
    Finding("recycled", "Baselines that were copied", "Run the baseline again.", "papers of 2016 to 2019"),
    Finding("random-nmi", "NMI of embeddings that know nothing", "Print NMI beside that of chance.", MUSGRAVE),
    Finding("soft-triple", "SoftTriple's softmax over the classes", "Take it over a class's centres.", ROTH),
    Finding("classes", "MAP@R compared over different classes", "Compare on one set of classes.", MUSGRAVE),
    Finding("arcface-margin", "ArcFace whose margin cancels", "Add it to the own class alone.", f"{ROTH}, corrected"),
    Finding("smooth-ap", "Classes and images swapped", "Test with unequal numbers.", "pytorch-metric-learning 2.9"),
    Finding("singular-values", "ρ without the smallest value", "Keep all but the largest.", ROTH),
    Finding("coreset", "A coreset looked up in another pool", "Measure and choose in one pool.", ROTH),
    Finding("twins", "One function as two methods", "List it once.", f"{MUSGRAVE}, Tables 3-5"),
    Finding("same-losses", "New losses that are older ones", "Compare value and gradient.", "three papers, 2020-2024"),
    Finding("table-against-plot", "Tables unlike the plots", "Publish numbers as a file.", "Fehervari et al. 2019"),
    Finding("sop-split", "SOP cut in halves", "Name the split, and keep to one.", f"{MUSGRAVE}, protocol"),
)
"""The worst first: those with two scores by their gap, then by how much a reader is misled, which is our judgement."""


def overview(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The cells of findings-all: a row a finding, with what is right and what the fault makes of it."""
    effects = {
        name: (f"{pair.what}: {labels.percent(pair.right, digits=1)} %", f"{labels.percent(pair.wrong, digits=1)} %")
        for name, pair in pairs(edition).items()
    }
    effects |= _other_effects(edition)
    rows = {
        each.title: {
            "right": effects.get(each.name, ("not run", ""))[0],
            "wrong": effects.get(each.name, ("", "not run"))[1],
            "what to do": each.do,
            "seen in": each.seen,
        }
        for each in FINDINGS
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("what goes wrong")


def _other_effects(edition: Sequence[StudyRecords]) -> dict[str, tuple[str, str]]:
    """Name -> what is right, and what the fault makes of it, of the findings without two scores."""
    n = numbers(edition)
    return {
        "gains": (f"gain on CUB200: {n['gains.fair']:+.1f} %", f"{n['gains.claimed']:+.0f} % claimed"),
        "recycled": ("measured again", f"{n['recycled.contrastive']:.0f} papers copy one number"),
        "random-nmi": ("NMI of chance: worth nothing", f"{n['nmi']:.1f} %"),
        "soft-triple": (f"loss of a perfect batch: {n['soft.paper']:.2f}", f"{n['soft.code']:.2f}"),
        "classes": (f"MAP@R, 25 classes: {n['classes.fewest']:.1f} %", f"{n['classes.most']:.1f} % with 200"),
        "arcface-margin": (f"loss with margin: {n['arcface.ours']:.2f}", f"{n['arcface.half']:.2f}, as without"),
        "smooth-ap": ("loss of a perfect batch: 0", f"{n['smooth']:.2f}"),
        "singular-values": (f"ρ: {n['rho.idle']:.2f}", f"{n['rho.idle.without']:.2f}"),
        "coreset": (f"covering radius: {n['coreset.greedy']:.2f}", f"{n['coreset.another']:.2f}, as at random"),
        "twins": ("gap of one function: 0", f"{n['twins.gap']:.2f} points of MAP@R"),
        "same-losses": ("three older losses", "three new names"),
        "table-against-plot": ("table and plot alike", f"{n['plot.cells']:.0f} cells differ"),
        "sop-split": ("no training class tested", f"{n['sop.tested']:.0f} class tested"),
    }


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on; percents and points as printed. Those of our runs begin with own and ours."""
    return _of_metrics() | _of_training() | _of_papers() | _of_runs(edition)


def _of_metrics() -> dict[str, float | str]:
    ties, copies = frame("ties").loc["collapsed"], frame("duplicates").iloc[-1]
    ranking, spectra = frame("ap-from-zero").loc["second place wrong"], frame("singular-values")
    classes = metrics.number_of_classes()["map_at_r"]
    return {
        "ties.sorted": 100 * ties["sorted"],
        "ties.lowest": 100 * ties["lowest"],
        "ties.ours": 100 * ties["ours_lowest"],
        "copies.naive": 100 * copies["naive"],
        "copies.ours": 100 * copies["ours"],
        "alone": 100 * frame("singletons")["as_zero"].iloc[-1],
        "map-at-c": 100 * frame("map-at-c")["as_coded"].iloc[0],
        "ap.right": 100 * ranking["from_one"],
        "ap.shifted": 100 * ranking["shifted"],
        "ap.query": 100 * ranking["query"],
        "classes.fewest": 100 * classes.iloc[0],
        "classes.most": 100 * classes.iloc[-1],
        "nmi": 100 * frame("random-nmi")["worst"].iloc[-1],
        "rho.idle": spectra["paper"]["one idle direction"],
        "rho.idle.without": spectra["without_both"]["one idle direction"],
        "rho.decaying": spectra["paper"]["decaying"],
        "rho.decaying.without": spectra["without_both"]["decaying"],
    }


def _of_training() -> dict[str, float | str]:
    arcface, start, soft = frame("arcface-margin"), training.arcface_without_gradient(), frame("soft-triple")
    snr, choice, radius = frame("snr-regulariser")["loss"], training.histogram_choice(), frame("coreset")["mean"]
    smooth = frame("smooth-ap")
    return {
        "arcface.zero": arcface["zero"]["every logit"],
        "arcface.half": arcface["half"]["every logit"],
        "arcface.ours": arcface["half"]["ours"],
        "coreset.greedy": radius["greedy"],
        "coreset.another": radius["another pool"],
        "coreset.uniform": radius["uniform"],
        "wasserstein.same": 100 * choice["same"],
        "wasserstein.pools": choice["pools"],
        "clamp.own": 100 * start["own"],
        "snr.lost": 100 * (1 - snr["weight 0"] / snr["as in the paper"]),
        "soft.paper": soft["perfect"]["as in the paper"],
        "soft.code": soft["perfect"]["all three"],
        "soft.guess": math.log(100),
        "crops.below": 100 * crops()["below_102"].iloc[1],
        "crops.area": 100 * crops()["area"].iloc[0],
        "crops.area.literal": 100 * crops()["area"].iloc[1],
        "sop.tested": frame("sop-split")["tested_training_classes"]["first half"],
        "smooth": smooth["blocks"][smooth["blocks"] > 1e-6].iloc[0],
    }


def _of_papers() -> dict[str, float | str]:
    twins, gains = literature.twin_rows([]), frame("gains").set_index(["baseline", "dataset"]).loc["contrastive"]
    later, plots = frame("recycled").groupby("baseline")["later"].max(), frame("table-against-plot")
    ratios = metrics.validation_and_test([])["ratio"]
    return {
        "twins.gap": 100 * twins["gap"].max(),
        "twins.share": 100 * twins["share"].max(),
        "twins.ratio": frame("twin-temperatures")["ratio"].max(),
        "recycled.contrastive": later["contrastive"],
        "recycled.triplet": later["triplet"],
        "gains.claimed": 100 * gains["claimed"]["CUB200"],
        "gains.fair": 100 * gains["fair"]["CUB200"],
        "plot.cells": len(plots),
        "plot.most": 100 * (plots["value"] - plots["plotted"]).abs().max(),
        "plot.reported": plots["plot_is_reported"].sum(),
        "plot.nmi": 100 * literature.copied_nmi()["value"],
        "same.fours": 100 * frame("same-losses")["gradient"].iloc[-1],
        "same.reports": 100 * frame("proxy-nca-pp")["difference"].max(),
        "ratio.low": ratios[list(published.DATASETS)].min(),
        "ratio.high": ratios[list(published.DATASETS)].max(),
    }


def _of_runs(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    part, twins = own_maximum(edition), literature.twin_rows(edition).drop(index=list(published.DATASETS))
    told: dict[str, float | str] = {}
    if len(twins):
        told |= {"ours.twins": 100 * twins["gap"].max(), "ours.twins.within": (twins["gap"] < twins["noise"]).all()}
    if len(part):
        told |= {"own.gain": 100 * part["inflation"].mean(), "own.least": 100 * part["inflation"].min()}
        told |= {"own.swapped": training.swapped_pairs(part), "own.pairs": len(part) * (len(part) - 1) // 2}
    return told
