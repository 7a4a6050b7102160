"""The tables and figures of Roth et al. 2020, Revisiting Training Strategies and Generalization Performance in DML.

Numbers first (frames of fractions), then cells and sentences for the page, then figures, then the deviation ledger.
Experiments: trunks (Table 1), roth2020 (Table 2, Figs. 1, 5, 7), roth2020-batches, -decays, -preprocessing, -trunks and
-dims (Fig. 2), roth2020-samplers (Fig. 3); Fig. 4 pools them all. Fig. 6 needs none: `roth2020_toy`.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.building import normalized
from dmlrc.papers import roth2020
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, published
from dmlrc.report.common import ByStudy
from dmlrc.report.statistics import half_width

METHODS = {method.name: method for method in roth2020.METHODS}
"""The methods of Table 2, in its order."""
REGULARISED = {
    "r_contrastive": "contrastive",
    "r_margin_06": "margin_06",
    "r_margin_12": "margin_12",
    "r_snr": "snr",
    "r_triplet": "triplet_distance",
}
"""The rho-regularised methods and the methods that they regularise."""
PLAIN = tuple(name for name in METHODS if name not in REGULARISED)
TABLE = ("precision_at_1", "nmi")
METRICS = ("precision_at_1", "recall_at_2", "nmi", "f1", "map_at_c", "map_at_1000")
"""The metrics of section 4.1, over which Figs. 2 and 3 average."""
ALL_METRICS = roth2020.PROTOCOL.test_metrics
STRUCTURE = {
    "pi_intra": "$\\pi_{intra}$",
    "pi_inter": "$\\pi_{inter}$",
    "pi_ratio": "$\\pi_{ratio}$",
    "rho": "$\\rho$",
}
SCALED = ("pi_intra", "pi_inter")
"""Properties in the unit of the embeddings: they compare only where embeddings have length 1."""
FACTORS = {
    "batches": ("batch", "images in a batch"),
    "decays": ("decay", "weight decay"),
    "preprocessing": ("", "preprocessing"),
    "trunks": ("", "trunk"),
    "dims": ("dim", "embedding size"),
}
"""What Fig. 2 varies: the end of the experiment's id -> what stands before the number in a value, what it is."""
SAMPLERS = {name: name.upper() for name in roth2020.SAMPLERS} | {
    "spc2": "SPC-2",
    "spc4": "SPC-4",
    "spc8": "SPC-8",
    "spcr": "SPC-R",
}
PAPER_SEEDS = roth2020.BUDGET.reruns


def roth_label(method: str) -> str:
    """A method as the paper prints it."""
    return "ImageNet" if method == PRETRAINED else METHODS[method].label if method in METHODS else method


def scores(records: StudyRecords, setting: str = "separated") -> pd.DataFrame:
    """`common.seeds` of one setting, without values that are not finite (rho of a collapsed embedding)."""
    frame = common.seeds(records)
    return frame[(frame["setting"] == setting) & np.isfinite(frame["score"])]


# Table 2


def table2(records: StudyRecords) -> pd.DataFrame:
    """R@1 and NMI of every method over the seeds: method, metric, mean, std, ci95, n; std, ci95 NaN for one seed."""
    frame = scores(records)
    groups = frame[frame["metric"].isin(TABLE)].groupby(["method", "metric"], sort=False)["score"]
    return groups.agg(mean="mean", std="std", ci95=half_width, n="size").reset_index()


def printed_table2(dataset: str) -> pd.DataFrame:
    """Table 2 of the paper for one data set, as `table2`; ci95 follows from std and the paper's 5 seeds."""
    frame = published.roth_results()
    frame = frame[frame["dataset"] == dataset].drop(columns=["dataset", "source_table"])
    half = stats.t.ppf(0.975, PAPER_SEEDS - 1) / np.sqrt(PAPER_SEEDS)
    return frame.assign(ci95=half * frame["std"], n=PAPER_SEEDS).reset_index(drop=True)


def columns(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """Every Table 2 by its heading, the paper's three and then ours: `table2` each, empty where nothing was run."""
    empty = pd.DataFrame(columns=["method", "metric", "mean", "std", "ci95", "n"])
    ours = {name: empty if records is None else table2(records) for name, records in by_study.items()}
    return {f"the paper, {name}": printed_table2(name) for name in published.DATASETS} | ours


def compare_table2(by_study: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """roth-t2, cells and marks: mean and standard deviation of every method, the paper's columns and then ours.

    Bold: the best of the rows without and of those with rho-regularisation, which the paper keeps apart too; italic:
    its 95 % interval overlaps that of the best. The trunk before training does not compete.
    """
    cells, marks = {}, {}
    for head, frame in columns(by_study).items():
        for metric in TABLE:
            part = frame[frame["metric"] == metric].set_index("method").astype({"mean": float, "ci95": float})
            column = (head, common.metric_label(metric))
            cells[column] = {name: _cell(part, by_study, head, name) for name in (PRETRAINED, *METHODS)}
            marks[column] = pd.concat(
                common.column_marks(part["mean"].reindex(group), part["ci95"].reindex(group))
                for group in (list(PLAIN), list(REGULARISED))
            )
    rows = [PRETRAINED, *METHODS]
    cells, marks = pd.DataFrame(cells).reindex(rows), pd.DataFrame(marks).reindex(rows).fillna("")
    for each in (cells, marks):
        each.index = pd.Index([roth_label(name) for name in rows], name="Method")
    return cells, marks


def _cell(part: pd.DataFrame, by_study: ByStudy, head: str, method: str) -> str:
    if method in part.index:
        return labels.percent(part["mean"][method], part["std"][method])
    return common.state(by_study[head], method) if head in by_study else "–"


def table2_data(by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind roth-t2, the paper's and ours, told apart by `source`, for its CSV."""
    frames = [frame.assign(source=head) for head, frame in columns(by_study).items() if len(frame)]
    return pd.concat(frames, ignore_index=True).set_index("source")


def agreement(by_study: ByStudy) -> pd.DataFrame:
    """Spearman's rank correlation of our methods with each of the paper's columns.

    Columns: study, metric, dataset, rho, p, n. The trunk before training is no method.
    """
    theirs = {name: _means(printed_table2(name)) for name in published.DATASETS}
    ours = {name: _means(table2(records)) for name, records in common.present(by_study).items()}
    rows = [
        {"study": name, "metric": metric, "dataset": dataset, **common.spearman(means[metric], column[metric])}
        for name, means in ours.items()
        for metric in TABLE
        for dataset, column in theirs.items()
    ]
    return pd.DataFrame(rows, columns=["study", "metric", "dataset", "rho", "p", "n"])


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """The means of a Table 2: a row a method, a column a metric."""
    trained = frame[frame["method"] != PRETRAINED]
    return trained.pivot(index="method", columns="metric", values="mean").reindex(columns=list(TABLE)).astype(float)


def agreement_sentence(by_study: ByStudy) -> str:
    """Whether the methods stand in the paper's order, in a sentence a study."""
    frame = agreement(by_study)
    sentences = []
    for name, part in frame.groupby("study", sort=False):
        texts = [
            f"{common.metric_label(metric)} " + labels.each(each.set_index("dataset").T, _rho)
            for metric, each in part.groupby("metric", sort=False)
        ]
        sentences.append(f"`{name}`: rank correlation of its methods with the paper's columns: {'; '.join(texts)}.")
    return " ".join(sentences) or "Without a run of ours there is no order to compare with the paper's."


def agreement_in_short(by_study: ByStudy) -> str:
    """Spearman's rank correlations of `agreement` for R@1 alone, in one sentence; "" where there are none."""
    frame = agreement(by_study)
    texts = [
        f"around `{name}` " + labels.each(dict(zip(part["dataset"], part["rho"], strict=True)), "{:+.2f}".format)
        for name, part in frame[frame["metric"] == "precision_at_1"].dropna().groupby("study", sort=False)
    ]
    return f"Rank correlation of R@1 with the paper's columns: {'; '.join(texts)}." if texts else ""


def _rho(test: Mapping) -> str:
    if np.isnan(test["rho"]):
        return "too few methods"
    return f"{test['rho']:+.2f} (n = {test['n']}, {labels.p_value(test['p'])})"


def r1_range(frame: pd.DataFrame) -> dict[str, float]:
    """How far apart the rows without regularisation are in R@1: range, std (the mean of theirs), and n rows.

    frame: `table2` or `printed_table2`. NaN for fewer than two rows.
    """
    rows = frame[(frame["metric"] == "precision_at_1") & frame["method"].isin(PLAIN)]
    if len(rows) < 2:
        return {"range": np.nan, "std": np.nan, "n": len(rows)}
    return {
        "range": float(rows["mean"].max() - rows["mean"].min()),
        "std": float(rows["std"].mean()),
        "n": len(rows),
    }


def range_sentence(by_study: ByStudy) -> str:
    """The range of R@1 over the rows without regularisation, the paper's and ours."""
    texts = {}
    for head, frame in columns(by_study).items():
        here = r1_range(frame)
        if here["n"] > 1:
            noise = "one seed" if np.isnan(here["std"]) else f"mean standard deviation {labels.percent(here['std'])}"
            texts[head] = f"{labels.one_digit(here['range'])} points ({here['n']} methods, {noise})"
    return f"From the worst to the best method without regularisation R@1 spans: {labels.each(texts, str)}."


# Table 1


def trunks(records: StudyRecords | None) -> pd.DataFrame:
    """R@1 of trunks before any training of ours, indexed by kind and trunk: mean, std, n.

    Kinds: "projection" (ImageNet features, random linear layer: the paper's), "imagenet" (the features themselves),
    "random" (a trunk with random weights).
    """
    if records is None:
        return pd.DataFrame(columns=["mean", "std", "n"], dtype=float)
    frame = scores(records)
    frame = frame[(frame["metric"] == "precision_at_1") & (frame["method"] != PRETRAINED)]
    return frame.groupby(["value", "row"])["score"].agg(mean="mean", std="std", n="size")


KINDS = {"projection": "random linear layer", "imagenet": "its features", "random": "random weights, its features"}


def compare_trunks(by_study: ByStudy) -> pd.DataFrame:
    """roth-t1, cells: R@1 of every trunk before training, the paper's columns and then ours."""
    theirs = published.roth_trunks().replace({"network": {"Inception-BN": "BN-Inception"}})
    cells = {
        f"the paper, {name}": {("projection", row.network): labels.percent(row.value) for row in part.itertuples()}
        for name, part in theirs.groupby("dataset", sort=False)
    }
    for name, records in by_study.items():
        ours = trunks(records)
        cells[name] = {
            (kind, _trunk(trunk)): labels.percent(row["mean"], row["std"]) for (kind, trunk), row in ours.iterrows()
        }
    rows = dict.fromkeys(key for column in cells.values() for key in column)
    rows = sorted(rows, key=lambda key: list(KINDS).index(key[0]))  # the paper's kind first
    table = pd.DataFrame({head: [column.get(key, "–") for key in rows] for head, column in cells.items()})
    for name in by_study.keys() - common.present(by_study).keys():
        table[name] = "not run"
    table.index = pd.Index([f"{trunk}, {KINDS[kind]}" for kind, trunk in rows], name="Trunk, what is searched")
    return table


def _trunk(name: str) -> str:
    return labels.TRUNK_LABELS.get(name, name)


def projection_sentence(by_study: ByStudy) -> str:
    """What a random linear layer costs the features of a trunk, in words."""
    texts = []
    for name, records in common.present(by_study).items():
        means = trunks(records)["mean"]
        for kind, trunk in means.index:
            if kind == "projection" and ("imagenet", trunk) in means.index:
                texts.append(
                    f"around `{name}` the features of {_trunk(trunk)} have an R@1 of "
                    f"{labels.one_digit(means['imagenet', trunk])} %, behind a random linear layer "
                    f"{labels.one_digit(means[kind, trunk])} %"
                )
    return f"What the layer costs: {'; '.join(texts)}." if texts else "No trunk of ours here has ImageNet weights."


# Figure 1: with and without regularisation


def regularisation(records: StudyRecords, metric: str = "precision_at_1", setting: str = "separated") -> pd.DataFrame:
    """A metric with and without rho-regularisation, a row a pair (index: the method that is regularised).

    Columns: mean, std, r_mean, r_std, gain (mean difference over the seeds, which the two share), ci95 (half width of
    its 95 % interval), n (seeds). Pairs of which one has no score are NaN.
    """
    frame = scores(records, setting)
    frame = frame[frame["metric"] == metric]
    spreads = frame.groupby("method")["score"].agg(["mean", "std"]).reindex([*REGULARISED.values(), *REGULARISED])
    rows = {}
    for regularised, plain in REGULARISED.items():
        gain, ci95, n = common.difference(frame, regularised, plain)
        own, other = spreads.loc[plain], spreads.loc[regularised]
        rows[plain] = [own["mean"], own["std"], other["mean"], other["std"], gain, ci95, n]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "r_mean", "r_std", "gain", "ci95", "n"])


def published_regularisation(dataset: str) -> pd.DataFrame:
    """The same from the paper's Table 2; its seeds are not published one by one, so gain has no interval."""
    frame = printed_table2(dataset)
    frame = frame[frame["metric"] == "precision_at_1"].set_index("method")[["mean", "std"]]
    rows = {
        plain: [*frame.loc[plain], *frame.loc[regularised], frame["mean"][regularised] - frame["mean"][plain]]
        for regularised, plain in REGULARISED.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "r_mean", "r_std", "gain"])
    return table.assign(ci95=np.nan, n=PAPER_SEEDS)


def regularisation_panels(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """The panels of roth-f1: ours, then the paper's three data sets."""
    ours = {name: regularisation(records) for name, records in common.present(by_study).items()}
    return ours | {f"{name} (the paper)": published_regularisation(name) for name in published.DATASETS}


def regularisation_cells(by_study: ByStudy) -> pd.DataFrame:
    """The gain of every pair in points, as cells: ours with an interval and whether it has the claimed sign."""
    cells = {}
    for head, frame in regularisation_panels(by_study).items():
        cells[head] = {
            roth_label(plain): common.judged(row["gain"], row["ci95"], int(row["n"]))
            if head in by_study
            else common.stated(row["gain"])
            for plain, row in frame.iterrows()
        }
    for name in by_study:
        cells.setdefault(name, dict.fromkeys(map(roth_label, REGULARISED.values()), "not run"))
    return pd.DataFrame(cells).rename_axis("Regularised")


def regularisation_sentence(by_study: ByStudy) -> str:
    """How many pairs gain R@1 from the regularisation, the paper's and ours."""
    texts = {}
    for head, frame in regularisation_panels(by_study).items():
        gains = frame["gain"].dropna()
        if len(gains):
            clear = (gains > frame["ci95"][gains.index]).sum()
            beyond = f", {clear} beyond the interval" if head in by_study else ""
            texts[head] = f"{(gains > 0).sum()} of {len(gains)}{beyond} (mean {common.points(gains.mean())} points)"
    return f"Pairs whose R@1 rises with ρ-regularisation: {labels.each(texts, str)}."


# Figures 2 and 3: what the pipeline is worth


def normalised(records: StudyRecords) -> pd.DataFrame:
    """Every score of a sweep as a share of the best value's: row (loss), value, metric, score in (0, 1].

    The mean over the seeds, divided by the largest mean over the evaluated values for the same loss and metric
    (section 4.2). A loss that diverged at a value has no row there.
    """
    frame = scores(records)
    frame = frame[frame["metric"].isin(METRICS) & (frame["value"] != "")]
    means = frame.groupby(["row", "value", "metric"], sort=False)["score"].mean()
    best = means.groupby(["row", "metric"]).transform("max")
    return (means[best > 0] / best[best > 0]).rename("score").reset_index()


def influence(records: StudyRecords) -> pd.DataFrame:
    """`normalised`, averaged over the metrics: a row a value, a column a loss."""
    return normalised(records).pivot_table(index="value", columns="row", values="score")


def in_order(values: Iterable[str], factor: str) -> list[str]:
    """The values of a sweep by their number, then those without one by name.

    >>> in_order(["batch64", "batch8"], "batches"), in_order(["227px", "none", "56px"], "preprocessing")
    (['batch8', 'batch64'], ['56px', '227px', 'none'])
    """

    def place(value: str) -> tuple[float, str]:
        try:
            return float(value.removeprefix(FACTORS[factor][0]).removesuffix("px")), value
        except ValueError:
            return np.inf, value

    return sorted(set(values), key=place)


def effects(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """How much each factor of Fig. 2 is worth: study, factor, row (loss), effect (fraction), best (value).

    sweeps: factor -> main study -> records. effect: the best value's mean share minus the worst's.
    """
    rows = []
    for factor, by_study in sweeps.items():
        for name, records in common.present(by_study).items():
            for row, shares in influence(records).items():
                shares = shares.dropna()
                if len(shares) > 1:
                    effect = shares.max() - shares.min()
                    rows.append([name, factor, row, effect, shares.idxmax()])
    return pd.DataFrame(rows, columns=["study", "factor", "row", "effect", "best"])


def effects_cells(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects` as cells: a row a factor, a column a study.

    The mean over the losses, the lowest and the highest, and for how many losses each value is best.
    """
    frame = effects(sweeps)
    names = list(next(iter(sweeps.values())))
    cells = pd.DataFrame("not run", index=list(sweeps), columns=names)
    for (name, factor), part in frame.groupby(["study", "factor"], sort=False):
        best = part["best"].value_counts()
        wins = ", ".join(f"{value.removeprefix(FACTORS[factor][0])} ({count})" for value, count in best.items())
        cells.loc[factor, name] = (
            f"{100 * part['effect'].mean():.1f} % ({100 * part['effect'].min():.1f} to "
            f"{100 * part['effect'].max():.1f}); best: {wins}"
        )
    return cells.rename(index={factor: text for factor, (_, text) in FACTORS.items()}).rename_axis("Varied")


def effects_data(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects`, for the CSV of its cells; where no sweep was run the cells."""
    frame = effects(sweeps)
    return frame.set_index(["study", "factor"]) if len(frame) else effects_cells(sweeps)


def effects_sentence(sweeps: Mapping[str, ByStudy]) -> str:
    """Which factor moves the scores most, in a sentence a study."""
    frame = effects(sweeps)
    sentences = []
    for name, part in frame.groupby("study", sort=False):
        means = part.groupby("factor")["effect"].mean().sort_values(ascending=False)
        texts = {FACTORS[factor][1]: f"{100 * value:.1f} %" for factor, value in means.items()}
        sentences.append(f"Around `{name}` the best value is above the worst by: {labels.each(texts, str)}.")
    return " ".join(sentences) or "None of the five sweeps was run here."


def any_of(sweeps: Mapping[str, ByStudy]) -> dict[str, StudyRecords | None]:
    """For each main study the records of the first sweep that was run, for captions; None where none was."""
    names = next(iter(sweeps.values()))
    return {name: next((by_study[name] for by_study in sweeps.values() if by_study[name]), None) for name in names}


def sampler_gap(records: StudyRecords, first: str, second: str) -> tuple[float, float, int]:
    """Mean share of a sampler minus that of another, its 95 % interval over the losses, and how many losses."""
    shares = influence(records)
    if not {first, second} <= set(shares.index):
        return np.nan, np.nan, 0
    return common.mean_and_interval(shares.loc[first] - shares.loc[second])


def samplers_cells(by_study: ByStudy) -> pd.DataFrame:
    """The samplers as cells: mean share of each, and its difference to SPC-4 with an interval over the losses."""
    columns = {}
    for name, records in by_study.items():
        shares = pd.Series(dtype=float) if records is None else influence(records).mean(axis=1)
        missing = "not run" if records is None else "–"
        columns[name, "mean share, %"] = {
            key: labels.one_digit(shares[key]) if key in shares.index else missing for key in SAMPLERS
        }
        others = shares.index.drop("spc4", errors="ignore")
        columns[name, "above SPC-4, points"] = {
            key: common.points(*sampler_gap(records, key, "spc4")[:2]) if key in others else missing for key in SAMPLERS
        }
    return pd.DataFrame(columns).rename(index=SAMPLERS).rename_axis("Sampler")


def samplers_sentence(by_study: ByStudy) -> str:
    """Which sampler leads, and whether SPC-2 and FRD beat SPC-4 as the paper finds."""
    sentences = []
    for name, records in common.present(by_study).items():
        means = influence(records).mean(axis=1)
        if len(means) < 2:
            continue
        gaps = {
            f"{SAMPLERS[key]} above SPC-4": common.judged(*sampler_gap(records, key, "spc4")) for key in ("spc2", "frd")
        }
        sentences.append(
            f"Around `{name}` {SAMPLERS.get(means.idxmax(), means.idxmax())} has the highest mean share, and all lie "
            f"within {100 * (means.max() - means.min()):.1f} points; {labels.each(gaps, str)} (interval over losses)."
        )
    return " ".join(sentences) or "The samplers were not run here."


# Figure 4: which metrics say the same


def correlations(experiments: Sequence[StudyRecords]) -> tuple[pd.DataFrame, int]:
    """Pearson's correlations between the test metrics over all runs of these experiments, and the number of runs.

    A run with a metric missing is left out. NaN where a metric is constant, and for fewer than 3 runs.
    """
    frames = [scores(records).assign(study=records.name) for records in experiments]
    frame = pd.concat(frames)
    frame = frame[(frame["method"] != PRETRAINED) & frame["metric"].isin(ALL_METRICS)]
    wide = frame.pivot(index=["study", "method", "rerun"], columns="metric", values="score")
    wide = wide[[name for name in ALL_METRICS if name in wide]].dropna()
    return wide.corr(min_periods=3), len(wide)


def pooled(*experiments: ByStudy) -> dict[str, list[StudyRecords]]:
    """All experiments of each main study that has some."""
    names = experiments[0]
    runs = {name: [by_study[name] for by_study in experiments if by_study[name]] for name in names}
    return {name: each for name, each in runs.items() if each}


def correlations_sentence(runs_by_study: Mapping[str, Sequence[StudyRecords]]) -> str:
    """The pair of metrics that agree least, and R@1 with NMI, in a sentence a study."""
    sentences = []
    for name, experiments in runs_by_study.items():
        matrix, runs = correlations(experiments)
        lower = matrix.where(np.tril(np.ones(matrix.shape, dtype=bool), -1)).stack().dropna()
        if lower.empty:
            continue
        pair = " and ".join(map(common.metric_label, lower.idxmin()))
        nmi = matrix.loc["precision_at_1", "nmi"] if {"precision_at_1", "nmi"} <= set(matrix) else np.nan
        known = "" if np.isnan(nmi) else f"; R@1 and NMI at {nmi:.2f}"
        sentences.append(f"Over {runs:,} runs around `{name}`, {pair} agree least, at {lower.min():.2f}{known}.")
    return " ".join(sentences) or "No runs, no correlations."


# Figures 5 and 7: the shape of the embedding space


def structure(records: StudyRecords) -> pd.DataFrame:
    """R@1 on the test images and the shape of the training embeddings, a row a method, means over the seeds.

    Columns: precision_at_1, those of `STRUCTURE`, group ("plain", "regularised"), unit (whether its embeddings are
    L2-normalised).
    """
    test, train = scores(records), scores(records, "train")
    frame = pd.concat([test[test["metric"] == "precision_at_1"], train[train["metric"].isin(STRUCTURE)]])
    wide = frame.pivot_table(index="method", columns="metric", values="score")
    wide = wide.reindex(index=[name for name in METHODS if name in wide.index], columns=["precision_at_1", *STRUCTURE])
    return wide.assign(
        group=["regularised" if name in REGULARISED else "plain" for name in wide.index],
        unit=[normalized(METHODS[name]) for name in wide.index],
    )


def structure_data(by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind roth-f5, a row a study and method, for its CSV."""
    frames = {name: structure(records) for name, records in common.present(by_study).items()}
    return pd.concat(frames, names=["study", "method"]) if frames else correlation_cells(by_study)


def counted(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of `structure` that a correlation counts: not regularised, and in a common unit where it matters."""
    kept = (frame["group"] == "plain") & frame[["precision_at_1", name]].notna().all(axis=1)
    return frame[kept & frame["unit"]] if name in SCALED else frame[kept]


def correlation(frame: pd.DataFrame, name: str) -> dict[str, float]:
    """Pearson's correlation of R@1 with a property over the methods: r, low, high (95 %, Fisher's z), n.

    frame: `structure`; only the `counted` rows. NaN for fewer than 4 methods or where one of the two is constant.
    """
    rows = counted(frame, name)
    if len(rows) < 4 or rows["precision_at_1"].nunique() < 2 or rows[name].nunique() < 2:
        return {"r": np.nan, "low": np.nan, "high": np.nan, "n": len(rows)}
    test = stats.pearsonr(rows[name], rows["precision_at_1"])
    low, high = test.confidence_interval()
    return {"r": float(test.statistic), "low": float(low), "high": float(high), "n": len(rows)}


def correlation_cells(by_study: ByStudy) -> pd.DataFrame:
    """The correlations of roth-f5 as cells, with what the paper says of each."""
    says = {
        "pi_intra": "not consistent over the data sets",
        "pi_inter": "not consistent over the data sets",
        "pi_ratio": "positive on CUB200 and Cars196, noise on SOP",
        "rho": "at most -0.63 on each data set",
    }
    cells = {"the paper": says}
    for name, records in by_study.items():
        frame = None if records is None else structure(records)
        cells[name] = {key: "not run" if frame is None else correlation_text(correlation(frame, key)) for key in says}
    return pd.DataFrame(cells).rename(index=dict(zip(STRUCTURE, PLAIN_STRUCTURE, strict=True))).rename_axis("R@1 with")


PLAIN_STRUCTURE = ("π intra", "π inter", "π ratio", "ρ")


def correlation_text(test: Mapping[str, float]) -> str:
    """A correlation with its interval.

    >>> correlation_text({"r": -0.634, "low": -0.86, "high": -0.2, "n": 18})
    '-0.63 [-0.86, -0.20], n = 18'
    """
    if np.isnan(test["r"]):
        return f"too few methods (n = {test['n']})"
    return f"{test['r']:+.2f} [{test['low']:+.2f}, {test['high']:+.2f}], n = {test['n']}"


def correlation_sentence(by_study: ByStudy) -> str:
    """Whether R@1 falls with rho as the paper finds, in words."""
    sentences = []
    for name, records in common.present(by_study).items():
        test = correlation(structure(records), "rho")
        if np.isnan(test["r"]):
            sentences.append(f"Around `{name}` there are too few methods to correlate ρ with R@1.")
            continue
        trend = "falls with" if test["high"] < 0 else "rises with" if test["low"] > 0 else "shows no clear trend in"
        sentences.append(f"Around `{name}` R@1 {trend} ρ: r = {correlation_text(test)}.")
    return " ".join(sentences) or "ρ was not measured here."


def spectra(records: StudyRecords) -> pd.DataFrame:
    """Singular values of the training embeddings, a row a place: method, place (from 2), mean, low, high.

    Without the largest value, divided by their sum (section 5); mean, lowest and highest over the seeds.
    """
    arrays = records.arrays
    arrays = arrays[(arrays["name"] == "spectrum") & (arrays["setting"] == "train")]
    frames = []
    for method, values in arrays.groupby("method")["values"]:
        kept = np.stack([np.asarray(each, dtype=float)[1:] for each in values])  # (seeds, D - 1)
        sums = kept.sum(axis=1, keepdims=True)
        kept = kept[sums[:, 0] > 0] / sums[sums[:, 0] > 0]
        if kept.size:
            places = np.arange(2, kept.shape[1] + 2)
            row = {"method": method, "place": places, "mean": kept.mean(0), "low": kept.min(0), "high": kept.max(0)}
            frames.append(pd.DataFrame(row))
    empty = pd.DataFrame(columns=["method", "place", "mean", "low", "high"], dtype=float)
    return pd.concat(frames, ignore_index=True) if frames else empty


def decay_cells(by_study: ByStudy) -> pd.DataFrame:
    """rho of each pair without and with regularisation, and the change, as cells; the paper finds that rho falls."""
    cells = {}
    for name, records in by_study.items():
        frame = None if records is None else regularisation(records, "rho", "train")
        for head in ("ρ without", "ρ with", "falls"):
            cells[name, head] = dict.fromkeys(REGULARISED.values(), "not run")
        if frame is None:
            continue
        for plain, row in frame.iterrows():
            cells[name, "ρ without"][plain] = _plain_number(row["mean"])
            cells[name, "ρ with"][plain] = _plain_number(row["r_mean"])
            cells[name, "falls"][plain] = _falls(row)
    return pd.DataFrame(cells).rename(index=roth_label).rename_axis("Regularised")


def _plain_number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def _falls(row: pd.Series) -> str:
    if np.isnan(row["gain"]):
        return "–"
    change = f"{row['gain']:+.2f}"
    if row["n"] < 2:
        return f"one seed: {change}"
    verdict = "unclear" if abs(row["gain"]) <= row["ci95"] else "yes" if row["gain"] < 0 else "no"
    return f"{verdict}: {change} ± {row['ci95']:.2f}"


def decay_sentence(by_study: ByStudy) -> str:
    """In how many pairs the regularisation lowers rho, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        frame = regularisation(records, "rho", "train").dropna(subset="gain")
        if len(frame):
            fell = (frame["gain"] < 0).sum()
            change = frame["gain"].mean()
            sentences.append(
                f"Around `{name}` ρ falls in {fell} of {len(frame)} pairs; its mean change is {change:+.2f}."
            )
    return " ".join(sentences) or "Spectra were not recorded here."


def roth_scalars(by_study: ByStudy) -> dict[str, float]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float] = {"published_cells": len(published.roth_results())}
    for name, records in common.present(by_study).items():
        gains = regularisation(records)["gain"]
        named = {
            "range_r1": r1_range(table2(records))["range"],
            "rho_with_r1": correlation(structure(records), "rho")["r"],
            "mean_gain": float(gains.mean()),
        }
        recorded |= {f"{name}.{key}": value for key, value in named.items() if np.isfinite(value)}
    return recorded
