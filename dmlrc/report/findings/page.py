"""The list of findings: which they are, where they were seen, what each demonstration found.

Each was noted before its demonstration was written; `Outcome.checks` say whether the note stands.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords
from dmlrc.report import editions, labels, published
from dmlrc.report.findings import literature, metrics, training

WITH_CURVES = "grocery-frozen-full"
"""A study whose committed records have long validation curves, shown beside the studies of any edition."""

EXACT = 1e-9
"""Two float64 computations of one function agree to this, relative to its size."""

Found = Mapping[str, Any]
"""What `demonstrate` returns."""


def load(studies: str) -> list[StudyRecords]:
    """The records of these studies (names joined by commas), and of `WITH_CURVES` where they are present."""
    edition = editions.load(studies)
    if WITH_CURVES not in editions.names(studies):
        try:
            edition.append(records.load(WITH_CURVES))
        except MissingDataError:
            return edition
    return edition


def demonstrate(edition: Sequence[StudyRecords]) -> dict[str, Any]:
    """Every demonstration, computed now: name -> its numbers. The published tables and these records are read."""
    sides = training.crop_sides()
    return {
        "ties": metrics.ties(),
        "duplicates": metrics.duplicates(),
        "singletons": metrics.singletons(),
        "map-at-c": metrics.perfect_map_at_c(),
        "classes": metrics.number_of_classes(),
        "classes-published": metrics.validation_and_test(edition),
        "random-nmi": metrics.random_nmi(),
        "singular-values": metrics.kept_singular_values(),
        "ap-from-zero": metrics.ap_from_zero(),
        "arcface-margin": training.arcface_margins(),
        "coreset": training.coreset_radius(),
        "wasserstein": training.histogram_pairs(),
        "wasserstein-choice": training.histogram_choice(),
        "own-maximum": training.own_maximum(edition),
        "arcface-clamp": training.arcface_pull(),
        "arcface-clamp-start": training.arcface_without_gradient(),
        "snr-regulariser": training.snr_regulariser(),
        "crop-sides": sides,
        "crops": training.crops(sides),
        "sop-split": training.sop_splits(),
        "smooth-ap": training.smooth_ap_of_perfect_batches(),
        "same-losses": literature.same_losses(),
        "twins": literature.twin_rows(edition),
        "twin-temperatures": literature.twin_temperatures(),
        "proxy-nca-pp": literature.claims_of_proxy_nca_pp(),
        "recycled": literature.repeated_baselines(),
        "gains": literature.claimed_and_fair_gains(),
        "table-against-plot": literature.table_against_plot(),
        "copied-nmi": literature.copied_nmi(),
    }


class Outcome(NamedTuple):
    """What a demonstration found: effect, its size in a few words; checks, whether each part of the note stands."""

    effect: str
    checks: Collection[bool]


@dataclass(frozen=True)
class Finding:
    """One discrepancy.

    name: of its table or figure, `finding-<name>`. group: the section of the chapter. seen: the paper or public code
    that has it. outcome: the results of `demonstrate` -> what was found.
    """

    name: str
    group: str
    title: str
    seen: str
    outcome: Callable[[Found], Outcome]


def _ties(found: Found) -> Outcome:
    table = found["ties"]
    collapsed = table.loc["collapsed"]
    effect = (
        f"a collapsed embedding scores {percent(collapsed['lowest'])} to {percent(collapsed['sorted'])} % MAP@R, by "
        f"the order of its rows; ours {percent(collapsed['ours_lowest'])} %"
    )
    moves = table["highest"] - table["lowest"]
    return Outcome(effect, [*(moves > 1e-3), *(table["ours_highest"] - table["ours_lowest"] < EXACT)])


def _duplicates(found: Found) -> Outcome:
    last = found["duplicates"].groupby("copies").last()
    other = last.loc["another class"]
    effect = (
        f"copies of {percent(other['share'], 0)} % of the images under another label: P@1 {percent(other['naive'])} "
        f"instead of {percent(other['ours'])} %; copies with the same label change nothing"
    )
    return Outcome(effect, list(last["naive"] > last["ours"] + EXACT))


def _singletons(found: Found) -> Outcome:
    table = found["singletons"]
    last = table.iloc[-1]
    effect = (
        f"a perfect embedding scores {percent(last['as_zero'])} % P@1 where {percent(last['share'], 0)} % of the "
        "images are alone in their class"
    )
    return Outcome(effect, [*np.isclose(table["ours"], 1), *np.isclose(table["as_zero"], 1 - table["share"])])


def _map_at_c(found: Found) -> Outcome:
    table = found["map-at-c"]
    effect = f"a perfect embedding of classes of {table.index[0]} images scores {percent(table['as_coded'].iloc[0])} %"
    return Outcome(effect, np.isclose(table["as_coded"], table["formula"]))


def _classes(found: Found) -> Outcome:
    scores = found["classes"]["map_at_r"]
    ratios = found["classes-published"].loc[list(published.DATASETS), "ratio"]
    effect = (
        f"one embedding: {percent(scores[25])} % with 25 of its classes, {percent(scores[100])} % with 100; the "
        "paper's validation over its test: " + labels.each(ratios, "{:.2f}".format)
    )
    return Outcome(effect, [*(scores.diff().dropna() < 0), *(ratios > 1.5)])


def _random_nmi(found: Found) -> Outcome:
    table = found["random-nmi"]
    last = table.iloc[-1]
    effect = f"{percent(last['worst'])} % for {last['classes']:,.0f} classes of {last['images']:.0f}"
    misses = table[["worst", "shuffled", "kmeans"]].sub(table["formula"], axis=0).abs().to_numpy()
    return Outcome(effect, misses[np.isfinite(misses)] < 0.02)


def _singular_values(found: Found) -> Outcome:
    table = found["singular-values"]
    idle = table.loc["one idle direction"]
    effect = f"an embedding with an idle direction has rho {idle['paper']:.2f} or {idle['without_both']:.2f}"
    return Outcome(effect, ~np.isclose(table["paper"], table["without_both"]))


def _ap_from_zero(found: Found) -> Outcome:
    table = found["ap-from-zero"]
    row = table.loc["second place wrong"]
    effect = (
        f"undefined as written; other readings give a ranking with one error {percent(row['shifted'])} or "
        f"{percent(row['query'])} % instead of {percent(row['from_one'])} %"
    )
    return Outcome(effect, table["literal"].isna())


def _arcface_margin(found: Found) -> Outcome:
    table = found["arcface-margin"]
    row = table.loc["every logit"]
    effect = f"the loss is {row['zero']:.3f} without a margin and {row['half']:.3f} with 0.5 rad"
    same = abs(row["zero"] - row["half"]) < EXACT * row["zero"]
    return Outcome(effect, [same, row["gradient"] < EXACT, table.loc["ours", "gradient"] > EXACT])


def _coreset(found: Found) -> Outcome:
    table = found["coreset"]
    effect = "covering radius " + labels.each(table["mean"], "{:.2f}".format)
    no_better = table["mean"]["another pool"] > table["mean"]["uniform"] - table["std"]["uniform"]
    return Outcome(effect, [no_better, table["mean"]["greedy"] < table["mean"]["uniform"] - table["std"]["uniform"]])


def _wasserstein(found: Found) -> Outcome:
    table, choice = found["wasserstein"], found["wasserstein-choice"]
    effect = (
        f"a histogram and its reverse are {table.loc['reversed', 'as_samples']:.2f} apart instead of "
        f"{table.loc['reversed', 'as_weights']:.2f}; of ten batches the right one is chosen "
        f"{percent(choice['same'], 0)} % of the time"
    )
    return Outcome(effect, [table.loc[name, "as_samples"] < EXACT for name in ("reversed", "shuffled")])


def _own_maximum(found: Found) -> Outcome:
    table = found["own-maximum"]
    table = table[table["evaluations"] > 1]  # a run that was validated once has no other maximum
    means = table.groupby("study", sort=False)["inflation"].mean()
    effect = "P@1 gains " + labels.each(means, lambda value: f"{percent(value, 2)} points")
    return Outcome(effect if len(means) else "not run", list(means > 0))


def _arcface_clamp(found: Found) -> Outcome:
    pulls, start = found["arcface-clamp"], found["arcface-clamp-start"]
    effect = f"{percent(start['own'], 0)} % of the images are not pulled to their class at the start of training"
    negative = pulls.index < 0
    snr = found["snr-regulariser"]["drift"]
    return Outcome(
        effect,
        [
            bool((pulls["clamped"][negative].abs() < EXACT).all()),
            bool((pulls["ours"][negative] > 0).all()),
            snr["weight 0"] < EXACT < snr["as in the paper"],
        ],
    )


def _crops(found: Found) -> Outcome:
    drawn, literal = (found["crops"].iloc[row] for row in range(2))
    effect = (
        f"the smallest crop is {drawn['smallest']:.0f} pixels wide; of sides between 40 and 256, "
        f"{percent(literal['below_102'], 0)} % would be smaller"
    )
    return Outcome(effect, [round(drawn["smallest"]) in (102, 103), drawn["below_102"] == 0])


def _sop_split(found: Found) -> Outcome:
    table = found["sop-split"]
    ours, official = table.loc["first half"], table.loc["official"]
    effect = (
        f"{ours['train_val']:,} / {ours['test']:,} classes instead of {official['train_val']:,} / {official['test']:,}"
    )
    return Outcome(effect, [ours["tested_training_classes"] == 1, official["tested_training_classes"] == 0])


def _smooth_ap(found: Found) -> Outcome:
    table = found["smooth-ap"]
    right = table["sorted"] & (table["classes"] == table["images"])
    row = table[~right].iloc[0]
    effect = f"a perfect batch of {row['classes']} x {row['images']} has the loss {row['blocks']:.3f} instead of 0"
    return Outcome(effect, [*(table["ours"] < 1e-6), *((table["blocks"] < 1e-6) == right)])


def _twins(found: Found) -> Outcome:
    gaps = found["twins"]["gap"][list(published.DATASETS)]
    shares = found["twins"]["share"][list(published.DATASETS)]
    effect = (
        f"{percent(gaps[shares.idxmax()], 2)} points of MAP@R apart on {shares.idxmax()}, "
        f"{percent(shares.max(), 0)} % of the range of all methods"
    )
    identity = found["same-losses"].index.str.startswith("ProxyNCA,")
    return Outcome(effect, list(found["same-losses"]["gradient"][identity] < EXACT))


def _recycled(found: Found) -> Outcome:
    later = found["recycled"].groupby("baseline")["later"].max()
    effect = (
        f"{later['contrastive']} later papers repeat a contrastive number of 2016, {later['triplet']} a triplet one"
    )
    return Outcome(effect, [later["contrastive"] + 1 == 6, later["triplet"] + 1 == 3])


NOTED_GAINS = pd.DataFrame(
    {"claimed": [0.94, 1.89, 0.90], "fair": [-0.018, 0.020, 0.016]}, index=list(published.DATASETS)
)
"""The mean gains over contrastive that had been noted."""


def _gains(found: Found) -> Outcome:
    table = found["gains"].set_index(["baseline", "dataset"]).loc["contrastive"]
    effect = (
        f"over contrastive, claimed: {labels.each(table['claimed'], labels.whole)}; measured under one protocol: "
        f"{labels.each(table['fair'], labels.signed)}"
    )
    misses = (table[NOTED_GAINS.columns] - NOTED_GAINS).abs()
    return Outcome(effect, [*(misses["claimed"] < 0.005), *(misses["fair"] < 0.0005)])


def _table_against_plot(found: Found) -> Outcome:
    table, copied = found["table-against-plot"], found["copied-nmi"]
    effect = (
        f"{len(table)} cells differ, by up to {percent((table['value'] - table['plotted']).abs().max(), 2)} points; in "
        f"{table['plot_is_reported'].sum()} the plot shows the number of the original paper"
    )
    return Outcome(effect, [len(table) == 7, table["plot_is_reported"].sum() == 3, copied["value"] < copied["lowest"]])


def _same_losses(found: Found) -> Outcome:
    table = found["same-losses"]
    identity = table.index.str.contains(" = ") & ~table.index.str.startswith("ProxyNCA,")
    effect = f"{identity.sum()} pairs agree to {table['gradient'][identity].max():.0e} of their gradients"
    return Outcome(effect, list(table["gradient"][identity] < EXACT))


METRICS, TRAINING, CLAIMS = "Metrics", "Training code", "Claims in papers"
ROTH = "Roth et al. 2020, public code"
MUSGRAVE = "Musgrave et al. 2020"

FINDINGS = (
    Finding("ties", METRICS, "Ties scored by the order of the rows", f"{ROTH}; any plain sort", _ties),
    Finding("duplicates", METRICS, "Dropping the first neighbour instead of the query", ROTH, _duplicates),
    Finding(
        "singletons",
        METRICS,
        "Images alone in their class: left out or 0",
        f"pytorch-metric-learning leaves them out; {ROTH}, counts 0",
        _singletons,
    ),
    Finding("map-at-c", METRICS, "mAP@C whose maximum is below 100 %", ROTH, _map_at_c),
    Finding(
        "classes",
        METRICS,
        "MAP@R depends on the number of classes",
        f"argued by Oi et al. 2021; {MUSGRAVE}, tables and published searches",
        _classes,
    ),
    Finding("random-nmi", METRICS, "NMI of embeddings that know nothing", f"{MUSGRAVE}, Eqs. 3-7", _random_nmi),
    Finding("singular-values", METRICS, "rho by the singular values kept", ROTH, _singular_values),
    Finding("ap-from-zero", METRICS, "AP@R summed from k = 0", "Oi et al. 2021, Eq. 1", _ap_from_zero),
    Finding("arcface-margin", TRAINING, "ArcFace whose margin cancels", f"{ROTH}, corrected later", _arcface_margin),
    Finding("coreset", TRAINING, "A coreset of one pool looked up in another", ROTH, _coreset),
    Finding("wasserstein", TRAINING, "Bin heights compared as samples", ROTH, _wasserstein),
    Finding("own-maximum", TRAINING, "Each metric at its own best epoch", f"{ROTH}, evaluation of runs", _own_maximum),
    Finding("arcface-clamp", TRAINING, "Negative cosines clamped; a regulariser left out", ROTH, _arcface_clamp),
    Finding("crops", TRAINING, '"Crops between 40 and 256 pixels"', f"{MUSGRAVE}, text and default settings", _crops),
    Finding("sop-split", TRAINING, "SOP cut in halves", f"{MUSGRAVE}, protocol", _sop_split),
    Finding(
        "smooth-ap", TRAINING, "Smooth-AP with classes and images swapped", "pytorch-metric-learning 2.9", _smooth_ap
    ),
    Finding("twins", CLAIMS, "Two rows, one function: ProxyNCA and N. Softmax", f"{MUSGRAVE}, Tables 3-5", _twins),
    Finding("recycled", CLAIMS, "Baselines that were copied", "papers of 2016 to 2019", _recycled),
    Finding(
        "gains", CLAIMS, "Gains as claimed and as measured", f"papers of 2017 to 2019; {MUSGRAVE}, Tables 3-5", _gains
    ),
    Finding(
        "table-against-plot",
        CLAIMS,
        "Tables that differ from the authors' plots",
        "Fehervari et al. 2019, Tables 2-4; their public plots",
        _table_against_plot,
    ),
    Finding(
        "same-losses",
        CLAIMS,
        "New losses that are older ones",
        "Teh et al. 2020; Khosla et al. 2020; Zhang et al. 2024",
        _same_losses,
    ),
)


def index(found: Found) -> pd.DataFrame:
    """A row a finding, indexed by its name: title, where, stands ("yes", "in part", "no", "not run"), effect."""
    rows = {}
    for finding in FINDINGS:
        effect, checks = finding.outcome(found)
        rows[finding.name] = {
            "title": finding.title,
            "where": finding.seen,
            "stands": stands(checks),
            "effect": effect,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")


def stands(checks: Iterable[bool]) -> str:
    """Whether a note of several parts stands.

    >>> stands([True, True]), stands([True, False]), stands([False]), stands([])
    ('yes', 'in part', 'no', 'not run')
    """
    checks = list(checks)
    if not checks:
        return "not run"
    return "yes" if all(checks) else "in part" if any(checks) else "no"


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction in percent, with one digit where a sentence needs no more."""
    return labels.percent(fraction, digits=digits)


def cells(
    frame: pd.DataFrame, heads: Mapping[str, str], fractions: Collection[str] = (), digits: int = 1
) -> pd.DataFrame:
    """The columns of `heads` under their printed names, as text.

    Fractions in percent with so many digits, other real numbers to 4 significant ones, truth values as yes and no.

    >>> frame = pd.DataFrame({"a": [0.5, float("nan")], "b": [1.0, 2e-9]})
    >>> cells(frame, {"a": "A, %", "b": "B"}, ["a"]).to_numpy().tolist()
    [['50.0', '1'], ['–', '2e-09']]
    """
    text = {}
    for column, head in heads.items():
        values = frame[column]
        if column in fractions:
            text[head] = values.map(lambda value: percent(value, digits)).replace("", "–")
        elif pd.api.types.is_bool_dtype(values):
            text[head] = values.map({True: "yes", False: "no"})
        elif pd.api.types.is_float_dtype(values):
            text[head] = values.map("{:.4g}".format).replace("nan", "–")
        elif pd.api.types.is_integer_dtype(values):
            text[head] = values.map("{:,}".format)
        else:
            text[head] = values.map(str)
    return pd.DataFrame(text)
