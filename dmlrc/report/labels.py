"""What a page shows: cells of text in percent, methods by their labels, and what a caption must say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dmlrc.papers import musgrave2020
from dmlrc.protocol import Protocol, default_settings
from dmlrc.records import StudyRecords
from dmlrc.report import published, tables
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import (
    CLASSICS,
    METHODS,
    METRICS,
    PRETRAINED,
    SETTINGS,
    Methods,
    accuracy,
    improvement,
    marks,
    nmi_of_random,
    ordered,
    rank_agreement,
    spread,
)
from dmlrc.studies import experiments

if TYPE_CHECKING:
    from dmlrc.protocol import Study

METRIC_LABELS = {
    "precision_at_1": "P@1",
    "recall_at_1": "R@1",
    "recall_at_2": "R@2",
    "recall_at_4": "R@4",
    "recall_at_8": "R@8",
    "r_precision": "RP",
    "map_at_r": "MAP@R",
    "map_at_c": "mAP@C",
    "map_at_1000": "mAP@1000",
    "nmi": "NMI",
    "f1": "F1",
}
DATASET_LABELS = {
    "glyphs": "Glyphs",
    "glyphs-small": "Glyphs, small",
    "omniglot": "Omniglot",
    "grocery": "Grocery Store",
    "cars196": "Cars196",
    "cars196crops": "Cars196 crops",
    "cub200": "CUB200",
    "cub200_2010": "CUB-200 (2010)",
    "sop": "SOP",
}
TRUNK_LABELS = {
    "conv4": "conv4",
    "squeezenet1_0": "SqueezeNet 1.0",
    "googlenet": "GoogLeNet",
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "inception_v3": "Inception-v3",
    "bn_inception": "BN-Inception",
    "timm:tf_efficientnet_lite0": "EfficientNet-Lite0",
}


def method_label(method: str, methods: Methods = METHODS) -> str:
    """A method's name as printed; one that is not among `methods` keeps its name."""
    return "Pretrained" if method == PRETRAINED else methods[method].label if method in methods else method


def setting_text(value) -> str:
    """The value of a setting as printed.

    >>> setting_text((0.16, 1.0)), setting_text(True), setting_text(None), setting_text(1e-06)
    ('0.16 to 1', 'yes', 'none', '1e-06')
    >>> setting_text(("map_at_r", "jsd")), setting_text(())
    ('map_at_r, jsd', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "none"
    if isinstance(value, (list, tuple)):
        return " to ".join(f"{number:.3g}" for number in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def percent(mean: float, ci95: float = float("nan"), digits: int = 2) -> str:
    """A fraction and its interval in percent.

    >>> percent(0.6721, 0.0049), percent(0.5105), percent(float("nan"))
    ('67.21 ± 0.49', '51.05', '')
    """
    if np.isnan(mean):
        return ""
    half = "" if np.isnan(ci95) else f" ± {100 * ci95:.{digits}f}"
    return f"{100 * mean:.{digits}f}{half}"


def p_value(p: float) -> str:
    """The p of a test with two digits.

    >>> p_value(0.043), p_value(0.0001)
    ('p = 0.04', 'p < 0.01')
    """
    return "p < 0.01" if p < 0.01 else f"p = {p:.2f}"


def signed(value: float, digits: int = 1, unit: str = " %") -> str:
    """A gain (fraction) with its sign.

    >>> signed(0.016), signed(-0.00123, 2, ""), signed(float("nan"))
    ('+1.6 %', '-0.12', '–')
    """
    return "–" if np.isnan(value) else f"{100 * value:+.{digits}f}{unit}"


def results(
    frame: pd.DataFrame,
    dim: int = 128,
    folds: int = 4,
    state: pd.DataFrame | None = None,
    methods: Methods = METHODS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks (see `marks`) of a results table in the paper's layout.

    frame: `accuracy` or one data set of `published.results`. dim, folds: of the protocol, for the headings.
    state: `status`; adds a column that says how many reruns each row rests on, and rows for methods without any.
    """
    frame = frame[frame["metric"].isin(METRICS)]
    heads = {"concatenated": f"Concatenated ({folds * dim}-d)", "separated": f"Separated ({dim}-d)"}
    names = ordered(frame["method"] if state is None else [*frame["method"], *state.index], methods)
    keys = pd.MultiIndex.from_product([SETTINGS, METRICS])
    printed = frame.assign(cell=[percent(*pair) for pair in frame[["mean", "ci95"]].to_numpy()], mark=marks(frame))
    wide = {
        column: printed.pivot(index="method", columns=["setting", "metric"], values=column)
        .reindex(index=names, columns=keys)
        .fillna("")
        for column in ("cell", "mark")
    }
    for each in wide.values():
        each.columns = pd.MultiIndex.from_tuples([(heads[setting], METRIC_LABELS[metric]) for setting, metric in keys])
    if state is not None:
        wide["cell"].insert(0, ("", "reruns"), [_reruns(state, name) for name in names])
        wide["mark"].insert(0, ("", "reruns"), "")
    for each in wide.values():
        each.index = pd.Index([method_label(name, methods) for name in names], name="Method")
    return wide["cell"], wide["mark"]


def _reruns(state: pd.DataFrame, method: str) -> str:
    if method not in state.index:
        return ""
    row = state.loc[method]
    failed = f", {row['failed_reruns']} diverged" if row["failed_reruns"] else ""
    count = f"{row['reruns']}{failed}"
    return (
        count if row["state"] == "complete" else row["state"] + (f": {count}" if row["state"] == "unfinished" else "")
    )


def compare_with_published(
    theirs: pd.DataFrame, edition: Sequence[StudyRecords], paper: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of a published table, with our concatenated P@1 and MAP@R of each study beside it.

    theirs: one data set of `published.results`. paper: the heading of the published columns. A method that one side
    does not have has a dash there.
    """
    names = [method_label(name) for name in ordered([PRETRAINED, *METHODS])]
    theirs = results(theirs)
    blocks = [(paper, theirs, slice(0, 3))]
    blocks += [(records.name, results(accuracy(records), *dimensions(records)), [0, 2]) for records in edition]
    blocks += [(paper, theirs, slice(3, 6))]  # ours stand between the paper's concatenated and separated columns
    cells, marked = [], []
    for head, pair, columns in blocks:
        for whole, frame in zip((cells, marked), pair, strict=True):
            part = frame.iloc[:, columns]
            part.columns = pd.MultiIndex.from_tuples(
                [(f"{head}, {over.lower()}", under) for over, under in part.columns]
            )
            whole.append(part.reindex(names))
    return pd.concat(cells, axis=1).replace("", np.nan).fillna("–"), pd.concat(marked, axis=1).fillna("")


def dimensions(records: StudyRecords) -> tuple[int, int]:
    """The size of an embedding and the number of folds."""
    return records.meta["protocol"]["embedding_dim"], records.meta["protocol"]["folds"]


def dataset(records: StudyRecords) -> str:
    """The data set of a study as printed."""
    return DATASET_LABELS.get(records.meta["dataset"], records.meta["data"]["name"])


def trunk(records: StudyRecords) -> str:
    """The trunk of a study as printed: which network, where its weights come from, and whether it trains."""
    return _trunk(records.meta["protocol"])


def _trunk(protocol: Mapping) -> str:
    name = TRUNK_LABELS.get(protocol["trunk"], protocol["trunk"])
    if protocol["frozen_trunk"]:
        return f"{name}, frozen"
    if layer := protocol.get("train_from"):
        return f"{name}, trained from {layer}"
    return f"{name}, fine-tuned" if protocol["weights"] else f"{name}, from scratch"


def caption(records: StudyRecords) -> str:
    """What stands under every number of a study: data set, protocol, trunk, budget, seed and commit."""
    meta = records.meta
    data, budget = meta["data"], meta["budget"]
    order = ", in random order" if meta["class_order"] == "random" else ""
    return (
        f"`{records.name}`: {dataset(records)} ({data['images']:,} images, {data['classes']:,} classes{order}); "
        f"protocol {meta['protocol']['name']}: {trunk(records)}; budget {budget['name']}: {budget['trials']} trials, "
        f"{budget['reruns']} reruns, {meta['protocol']['folds']} folds; seed {meta['seed']}; commit "
        f"`{meta['commit']}`."
    )


def caveats(edition: Sequence[StudyRecords]) -> str:
    """What the numbers of these studies cannot show, each thing said once, with the studies of which it holds."""

    def named(those: Iterable[StudyRecords]) -> str:
        return " and ".join(f"`{records.name}`" for records in those)

    sentences = []
    if small := [records for records in edition if records.meta["budget"]["name"] != "full"]:
        budgets = dict.fromkeys(
            "{name}: {trials} trials, {reruns} reruns".format(**each.meta["budget"]) for each in small
        )
        sentences.append(
            f"The small budget of {named(small)} ({'; '.join(budgets)}) shows that the whole chain works. It is too "
            "small to rank the methods."
        )
    if frozen := [records for records in edition if records.meta["protocol"]["frozen_trunk"]]:
        sentences.append(
            f"In {named(frozen)} the trunk is frozen: the losses are compared on fixed ImageNet features, with a "
            "linear embedder. That says nothing about how they compare when the whole network is fine-tuned."
        )
    if random := [records for records in edition if records.meta["protocol"]["weights"] is None]:
        sentences.append(f"In {named(random)} the row *Pretrained* is the trunk with random weights, untrained.")
    sentences += [sentence for records in edition for sentence in _below_pretrained(records)]
    return " ".join(sentences) or "A ranking on one data set and one trunk is no ranking on another."


def _below_pretrained(records: StudyRecords) -> list[str]:
    """Which methods the trunk itself beats in concatenated P@1, if there are any: their MAP@R may still be higher."""
    means = accuracy(records)
    means = means[means["setting"] == "concatenated"].pivot(index="method", columns="metric", values="mean")
    if PRETRAINED not in means.index or len(means) < 2:
        return []
    trunk_alone, trained = means.loc[PRETRAINED], means.drop(index=PRETRAINED)
    below = trained["precision_at_1"] < trunk_alone["precision_at_1"]
    if not below.any():
        return []
    higher = (trained["map_at_r"][below] > trunk_alone["map_at_r"]).sum()
    return [
        f"In `{records.name}` {below.sum()} of {len(trained)} methods {'has' if below.sum() == 1 else 'have'} a lower "
        f"P@1 than the trunk without any training ({percent(trunk_alone['precision_at_1'])} %); {higher} of these "
        f"{'has' if higher == 1 else 'have'} a higher MAP@R."
    ]


def settings(
    edition: Sequence[StudyRecords], paper: Protocol = musgrave2020.PROTOCOL
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of every setting of the protocol: a row a setting, the paper's column, then the studies'.

    A setting that differs from the paper's is marked "best", that is bold. Those that have a default are shown where
    one of the columns departs from it.
    """
    columns = {"paper": asdict(paper)} | {records.name: records.meta["protocol"] for records in edition}
    cells = pd.DataFrame(columns).drop(index=["name", "paper"]).map(setting_text)
    defaults = {name: setting_text(value) for name, value in default_settings().items()}
    cells = cells.drop(index=[name for name, text in defaults.items() if (cells.loc[name] == text).all()])
    return cells, cells.ne(cells["paper"], axis=0).replace({True: "best", False: ""})


def pretrained_trunks(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Table 1 of the Reality Check and our pretrained rows: P@1 of trunk features, reduced by PCA, in percent."""
    table = published.trunks()
    table = table[table["source_table"] == "Table 1"].pivot(index="network", columns="dataset", values="value")
    cells = table[list(published.DATASETS)].map(percent, digits=1)
    for records in edition:
        frame = accuracy(records).set_index(["method", "setting", "metric"])["mean"]
        cells.loc[_pretrained_trunk(records), records.name] = percent(
            frame[PRETRAINED, "concatenated", "precision_at_1"], digits=1
        )
    ours = [records.name for records in edition]
    cells[ours] = cells[ours].fillna("not run")
    return cells.fillna("–").rename_axis("Trunk").rename_axis(None, axis=1)


def _pretrained_trunk(records: StudyRecords) -> str:
    protocol = records.meta["protocol"]
    name = TRUNK_LABELS.get(protocol["trunk"], protocol["trunk"])
    return name if protocol["weights"] else f"{name}, untrained"


def random_trunks(nmi_by_dataset: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table 2 of the Reality Check and ours: NMI of random trunks, in percent.

    nmi_by_dataset: data set -> `untrained.random_trunks`.
    The last row is what embeddings score that know nothing of the images (`untrained.nmi_of_random`).
    """
    table = published.trunks()
    table = table[table["source_table"] == "Table 2"].pivot(index="network", columns="dataset", values="value")
    table = table[list(published.DATASETS)].rename(index={"GoogleNet": "GoogLeNet"})
    chance = {}
    for name, frame in nmi_by_dataset.items():
        for (classes, images), part in frame.groupby(["classes", "images"], sort=False):
            column = f"{name}, {classes} x {images:.0f}"
            for row in part.itertuples():
                table.loc[TRUNK_LABELS.get(row.trunk, row.trunk), column] = row.nmi
            chance[column] = nmi_of_random(classes, images)
    table.loc["chance: 1 - log S / log C"] = pd.Series(chance)
    return table.map(percent, digits=1).replace("", "–").rename_axis("Random trunk").rename_axis(None, axis=1)


def answer(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The book's first table, a row a results table: the best and the worst method, how far apart, and the gain."""
    theirs = published.results()
    frames = {f"{name} (the paper)": theirs[theirs["dataset"] == name] for name in published.DATASETS}
    trunks = dict.fromkeys(frames, _trunk(asdict(musgrave2020.PROTOCOL)))
    frames |= {records.name: accuracy(records) for records in edition}
    trunks |= {records.name: trunk(records) for records in edition}
    rows = {}
    for name, frame in frames.items():
        apart = spread(frame)
        gains = {baseline: improvement(frame, baseline)["concatenated"] for baseline in CLASSICS}
        rows[name] = {
            **{f"over {baseline}": signed(gain) for baseline, gain in gains.items()},
            "range": percent(apart["range"]),
            "interval": percent(apart["mean_ci95"]),
            "best": f"{percent(apart['best'])} {method_label(apart.get('best_method', ''))}",
            "worst": f"{percent(apart['worst'])} {method_label(apart.get('worst_method', ''))}",
            "trunk": trunks[name],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Results of")


def provenance(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Where each study's numbers were made: a column a study."""
    return pd.DataFrame({records.name: _provenance(records) for records in edition})


def _provenance(records: StudyRecords) -> dict[str, str]:
    meta, where = records.meta, records.meta["environment"]
    reruns = records.runs[records.runs["kind"] == "rerun"]["seconds"].sum()
    return {
        "commit": meta["commit"],
        "begun": meta["created"],
        "seed": str(meta["seed"]),
        "trials, all methods": f"{len(records.trials):,}",
        "of which diverged": f"{(records.trials['state'] == 'diverged').sum():,}",
        "training runs": f"{len(records.runs):,}",
        "training steps": f"{records.runs['steps'].sum():,}",
        "hours of searching": f"{records.trials['seconds'].sum() / 3600:.2f}",
        "hours of reruns": f"{reruns / 3600:.2f}",
        "device": where["device"],
        "processor": f"{where['processor']}, {where['cores']} cores",
        "system": where["system"],
        "Python": where["python"],
        **where["packages"],
    }


def experiments_table(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """What is recorded of the experiments around each methods table: a row an experiment of a study."""
    rows = []
    for main in edition:
        for name, study in experiments.of(main.name).items():
            recorded = experiments.load(main.name, name)
            row = {"Study": main.name, "experiment": name, "rows": str(len(study.methods))}
            if recorded is None:
                rows.append(row | {"reruns": "not run", "steps": "–", "hours": "–", "commit": "–"})
                continue
            reruns = recorded.runs[recorded.runs["kind"] == "rerun"]
            done = len(reruns[["method", "number"]].drop_duplicates())
            row["reruns"] = f"{done} of {len(study.methods) * study.budget.reruns}"
            row["steps"] = f"{recorded.runs['steps'].sum():,}"
            row["hours"] = f"{recorded.runs['seconds'].sum() / 3600:.2f}"
            rows.append(row | {"commit": recorded.meta["commit"]})
    columns = ["Study", "experiment", "rows", "reruns", "steps", "hours", "commit"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:2])


def results_sentence(records: StudyRecords, methods: Methods = METHODS) -> str:
    """What a results table says, in two sentences."""
    frame = accuracy(records)
    frame = frame[(frame["setting"] == "concatenated") & (frame["metric"] == "map_at_r")]
    apart = spread(frame)
    ties = int((marks(frame) == "tie").sum())
    count = len(frame) - (PRETRAINED in set(frame["method"]))
    if count < 2:
        return f"`{records.name}`: fewer than two methods have results so far, so there is nothing to compare."
    return (
        f"`{records.name}`: of {count} methods {method_label(apart['best_method'], methods)} has the highest "
        f"concatenated MAP@R, {percent(apart['best'])} %, and {method_label(apart['worst_method'], methods)} the "
        f"lowest, {percent(apart['worst'])} %. The interval of a method is ± {percent(apart['mean_ci95'])} on "
        f"average, and {'that of 1 other method overlaps' if ties == 1 else f'those of {ties} other methods overlap'} "
        "that of the best."
    )


def agreement(records: StudyRecords, theirs: Mapping[str, pd.DataFrame]) -> str:
    """Whether the methods of a study stand in the paper's order, in one sentence. theirs: data set -> results."""
    tests = {name: rank_agreement(accuracy(records), theirs[name]) for name in published.DATASETS}
    if tests["CUB200"]["n"] < 3:
        return f"`{records.name}`: too few methods have results to compare their order with the paper's."
    rhos = each(tests, lambda test: f"{test['rho']:+.2f} ({p_value(test['p'])})")
    return (
        f"`{records.name}`: Spearman's rank correlation of its MAP@R with the paper's, over the methods of both, is "
        f"{rhos}."
    )


def results_scalars(records: StudyRecords) -> dict[str, float | str]:
    """The named numbers of a study that a chapter records."""
    apart = spread(accuracy(records))
    gains = {f"gain_over_{name}": float(improvement(accuracy(records), name)["concatenated"]) for name in CLASSICS}
    return {name: value for name, value in (apart | gains).items() if value == value}  # NaN is no JSON


def each(values: Mapping, text: Callable[..., str]) -> str:
    """Named numbers in a sentence.

    >>> each({"CUB200": 0.1, "SOP": 0.25}, "{:.0%}".format)
    'CUB200 10%, SOP 25%'
    """
    return ", ".join(f"{name} {text(value)}" for name, value in values.items())


def sources() -> str:
    """The methods with citations of where they come from, as MyST."""
    return ", ".join(f"{method.label} {{cite:p}}`{method.reference}`" for method in METHODS.values())


def trends(slopes: Mapping[str, Estimate]) -> pd.DataFrame:
    """Trends (`statistics.slope`) as cells: points a year, the interval, and the number of points."""
    rows = {
        name: {
            "points a year": signed(trend.value, digits=2, unit=""),
            "95 % interval": "–" if np.isnan(trend.half) else f"± {100 * trend.half:.2f}",
            "points in the fit": str(trend.n),
        }
        for name, trend in slopes.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def trend_sentence(slopes: Mapping[str, Estimate]) -> str:
    """Which of the measured trends can be told from a flat line."""
    flat = [name for name, trend in slopes.items() if abs(trend.value) <= trend.half]
    rising = [name for name, trend in slopes.items() if abs(trend.value) > trend.half]
    sentences = []
    if flat:
        sentences.append(f"the measured trend cannot be told from a flat line on {', '.join(flat)}")
    if rising:
        sentences.append(f"it can on {', '.join(rising)}")
    return "; ".join(sentences) + "."


def studies_table(studies: Iterable["Study"]) -> pd.DataFrame:
    """Studies as `dmlrc study list` shows them, without those around others and those that chose a learning rate."""
    apart = experiments.around()
    rows = {
        study.name: {
            "data set": DATASET_LABELS.get(study.dataset, study.dataset),
            "protocol": study.protocol.name,
            "budget": f"{study.budget.name}: {study.budget.trials} trials, {study.budget.reruns} reruns",
            "expected": study.expected,
        }
        for study in studies
        if study.kind != "rates" and study.name not in apart
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def joining(frame: pd.DataFrame) -> str:
    """What joining the folds' embeddings does to MAP@R, in words. frame: `accuracy` or a published data set."""
    rows = frame[(frame["metric"] == "map_at_r") & (frame["method"] != PRETRAINED)]
    means = rows.pivot(index="method", columns="setting", values="mean")
    gain = (means["concatenated"] - means["separated"]).mean()
    rho = means["concatenated"].corr(means["separated"], method="spearman")
    return f"{100 * gain:+.1f} points (rank correlation {rho:.2f})"


def stops(records: StudyRecords) -> str:
    """How the training runs of a study ended, in one sentence."""
    shares = records.runs["stopped"].value_counts(normalize=True)
    words = {"plateau": "on a plateau", "limit": "at the limit of epochs", "diverged": "diverged"}
    ends = [f"{100 * shares[end]:.1f} % {text}" for end, text in words.items() if end in shares]
    return f"Of {len(records.runs):,} runs of `{records.name}`, {', '.join(ends)}."


def cost(records: StudyRecords) -> pd.DataFrame:
    """`tables.cost` as cells."""
    table = tables.cost(records)
    return pd.DataFrame(
        {
            "search, minutes": (table["search_seconds"] / 60).map("{:.1f}".format),
            "a rerun, seconds": table["seconds"].map("{:.1f}".format),
            "a rerun, steps": table["steps"].map("{:,.0f}".format),
        }
    ).rename(index=method_label)


def sensitivity(records: StudyRecords, min_trials: int) -> tuple[pd.DataFrame, str]:
    """`tables.sensitivity` as cells, and what to see in them."""
    table = tables.sensitivity(records)
    cells = table[["best", "median", "worst", "median_share"]].map(percent)
    cells = cells.assign(trials=table["trials"]).rename(index=method_label, columns={"median_share": "median / best"})
    if records.meta["budget"]["trials"] < min_trials:
        return cells, f"With {records.meta['budget']['trials']} trials a method these shares are anecdotes."
    share = table["median_share"]
    return cells, (
        f"See *median / best*: in `{records.name}` {method_label(share.idxmax())} depends least on its "
        f"hyperparameters (the median trial reaches {100 * share.max():.0f} % of the best one), "
        f"{method_label(share.idxmin())} most ({100 * share.min():.0f} %)."
    )


def best_hyperparameters(records: StudyRecords) -> tuple[pd.DataFrame, str]:
    """`tables.best_hyperparameters` as cells, and what to see in them."""
    table = tables.best_hyperparameters(records)
    cells = table[["method", "hyperparameter"]].assign(
        method=table["method"].map(method_label),
        **{column: table[column].map("{:.4g}".format) for column in ("value", "low", "high")},
    )
    edges = [f"{method_label(row.method)} {row.hyperparameter}" for row in table[table["at_edge"]].itertuples()]
    return cells.set_index(["method", "hyperparameter"]), (
        "See how near a value is to an end of its range, where the range, not the loss, may have set it: "
        f"{len(edges)} of {len(table)} lie within 2 % of one ({', '.join(edges) or 'none'})."
    )


def claimed_improvement(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """`tables.claimed_improvement` as cells."""
    cells = table.assign(
        r1=table["r1"].map(one_digit), r1_baseline=table["r1_baseline"].map(one_digit), gain=table["gain"].map(whole)
    )
    heads = {"r1": "its R@1", "r1_baseline": f"its {baseline} R@1", "dataset": "data set"}
    columns = ["year", "dataset", "r1", "r1_baseline", "gain", "method"]
    return cells.set_index("paper")[columns].rename(columns=heads)


def baselines(table: pd.DataFrame, theirs: Mapping[str, pd.DataFrame], baseline: str) -> str:
    """The range of a baseline's claimed R@1 beside what the fair protocol measured (concatenated), in words.

    table: `tables.claimed_improvement`. theirs: data set -> one data set of `published.results`.
    """
    ranges = []
    for name, frame in theirs.items():
        claimed = table[table["dataset"] == name]["r1_baseline"]
        measured = frame.set_index(["method", "setting", "metric"])["mean"]
        ours = one_digit(measured[baseline, "concatenated", "precision_at_1"])
        ranges.append(f"on {name} {one_digit(claimed.min())} to {one_digit(claimed.max())} %, measured {ours} %")
    return "; ".join(ranges)


def recycled(table: pd.DataFrame) -> pd.DataFrame:
    """`tables.recycled` as cells."""
    cells = table.assign(r1=table["r1"].map(one_digit)).set_index(["dataset", "r1"])
    return cells.rename(columns={"who": "printed by"}).rename_axis(["data set", "R@1"])


def one_digit(value: float) -> str:
    """A fraction in percent, as papers print R@1."""
    return percent(value, digits=1)


def whole(value: float) -> str:
    """A gain in whole percent."""
    return signed(value, digits=0)
