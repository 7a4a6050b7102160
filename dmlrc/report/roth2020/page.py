"""The numbers of Roth et al. 2020, Revisiting Training Strategies and Generalization Performance in DML.

Experiments: trunks (Table 1), roth2020 (Table 2, Figs. 1, 5, 7), roth2020/batches, -decays, -preprocessing, -trunks and
-dims (Fig. 2), roth2020/samplers (Fig. 3); Fig. 4 pools them all. Fig. 6 needs none: `toy`.
"""

import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.building import normalized
from dmlrc.papers import roth2020
from dmlrc.protocol import FIXED
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, prose, published, starts, statistics, tables, titles
from dmlrc.report.claims.measures import AGGREGATED
from dmlrc.report.common import R1, ByStudy
from dmlrc.report.results_table import with_foot
from dmlrc.report.roth2020 import toy
from dmlrc.report.statistics import Estimate, of_groups

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
TABLE = (R1, "nmi")
ALL_METRICS = roth2020.PROTOCOL.test_metrics
STRUCTURE = {"pi_intra": "π intra", "pi_inter": "π inter", "pi_ratio": "π ratio", "rho": "ρ"}
SCALED = ("pi_intra", "pi_inter")
"""Properties in the unit of the embeddings: they compare only where embeddings have length 1."""
FACTORS = {
    "batches": ("batch", "images in a batch"),
    "decays": ("decay", "weight decay"),
    "preprocessing": ("", "preprocessing"),
    "trunks": ("", "trunk, pretrained or random"),
    "dims": ("dim", "embedding size"),
}
"""What Fig. 2 varies: the end of the experiment's id -> what stands before the number in a value, what it is."""
SAMPLERS = {name: name.upper().replace("SPC", "SPC-") for name in roth2020.SAMPLERS}
MINED = ("triplet_random", "triplet_semihard", "triplet_softhard")
"""Triplet loss with the other minings than by distance."""
KINDS = {"projection": "random linear layer", "imagenet": "all its features", "random": "random weights, its features"}
"""Of trunks before any training of ours: the level of the experiment -> as printed; the first is the paper's."""
CARRIES = 0.1
"""A method without which a correlation moves by this much is named beside it."""


roth_label = functools.partial(labels.method_label, methods=METHODS)
"""A method as the paper prints it."""


# Table 2


def moments(records: StudyRecords, metrics: Collection[str] = TABLE, setting: str = "separated") -> pd.DataFrame:
    """Metrics of every method over the seeds: method, metric, mean, std, ci95, n; std, ci95 NaN for one seed."""
    frame = common.seed_scores(records, setting=setting)
    groups = frame[frame["metric"].isin(metrics)].groupby(["method", "metric"], sort=False)["score"]
    return of_groups(groups).assign(std=groups.std()).reset_index()


def printed_table2(dataset: str) -> pd.DataFrame:
    """Table 2 of the paper for one data set, as `moments`; ci95 follows from std and the paper's seeds."""
    frame = published.roth_results()
    frame = frame[frame["dataset"] == dataset].drop(columns=["dataset", "source_table"])
    seeds = FIXED.reruns
    return frame.assign(ci95=stats.t.ppf(0.975, seeds - 1) / np.sqrt(seeds) * frame["std"], n=seeds)


def table2_beside(by_study: ByStudy) -> pd.DataFrame:
    """Every Table 2, the paper's three and ours, distinguished by `source`."""
    frames = [printed_table2(name).assign(source=f"the paper, {name}") for name in published.DATASETS]
    return pd.concat([*frames, common.ours(by_study, moments).drop(columns="column")]).set_index("source")


def compare_table2(frame: pd.DataFrame, metric: str, by_study: ByStudy) -> pd.DataFrame:
    """roth-t2 and roth-t2-nmi, of `table2_beside`: mean and deviation of every method, our columns, then the paper's.

    Rows without and with rho-regularisation compete among themselves, as in the paper; ranks stand behind ours.
    """
    rows = frame[frame["metric"] == metric].reset_index()
    ours = rows["source"].isin(list(by_study))
    rows = pd.concat([rows[ours], common.ours(by_study, common.empty_rows), rows[~ours]])
    rows = rows.assign(column=rows["source"], block=rows["method"].isin(list(REGULARISED)))
    compared = common.with_ranks(rows)
    compared.loc[~compared["source"].isin(list(by_study)), ["rank_low", "rank_high"]] = np.nan
    row = common.in_order(compared["method"], [PRETRAINED, *METHODS], roth_label)
    return with_foot(compared.assign(row=row, half=compared["std"], form=".2%"))


def agreement(by_study: ByStudy) -> pd.DataFrame:
    """Rank correlation of our `PLAIN` methods with each of the paper's columns: study, metric, dataset, rho, p, n."""
    frame = table2_beside(by_study).reset_index()
    trained = frame[frame["method"].isin(PLAIN)]
    means = trained.pivot(index="method", columns=["source", "metric"], values="mean").astype(float)
    rows = [
        {"study": name, "metric": metric, "dataset": dataset}
        | statistics.rank_test(means[name, metric], means[f"the paper, {dataset}", metric])
        for name in by_study
        for metric in TABLE
        for dataset in published.DATASETS
    ]
    return pd.DataFrame(rows, columns=["study", "metric", "dataset", "rho", "p", "n"])


# Table 1


def _trunks(records: StudyRecords) -> pd.DataFrame:
    """R@1 of trunks before any training of ours: kind (of `KINDS`), trunk, mean, half (of a deviation over seeds)."""
    frame = common.seed_scores(records, R1, "separated")
    frame = frame[frame["method"] != PRETRAINED].rename(columns={"value": "kind", "row": "trunk"})
    means = frame.groupby(["kind", "trunk"])["score"].agg(mean="mean", half="std").reset_index()
    return means.assign(half=means["half"].mask(means["kind"] == "imagenet"))  # features as they are have no seed


def compare_trunks(by_study: ByStudy) -> pd.DataFrame:
    """roth-t1: R@1 of every trunk before training, our columns and then the paper's; the paper's kind first."""
    theirs = published.roth_trunks().replace({"network": {"Inception-BN": "BN-Inception"}})
    theirs = theirs.rename(columns={"network": "trunk", "value": "mean"}).assign(kind="projection")
    theirs["column"] = "the paper, " + theirs["dataset"]
    scores = pd.concat([common.ours(by_study, _trunks), theirs])
    scores = scores.sort_values("kind", key=lambda kinds: kinds.map(list(KINDS).index), kind="stable")
    rows = scores["trunk"].replace(titles.TRUNKS) + ", " + scores["kind"].map(KINDS)
    return scores.assign(row=rows, form=".2%")


# Figures 1 and 7: with and without regularisation


def regularisation(rows: pd.DataFrame) -> pd.DataFrame:
    """Each pair without and with rho-regularisation, from means and deviations of one metric, ours or the paper's.

    rows: of `moments`. Columns: mean, std, r_mean, r_std, gain, ci95 (half of Welch's); index: the regularised method.
    """
    rows = rows.set_index("method")[["mean", "std", "n"]].astype(float)
    plain, regularised = rows.reindex(list(REGULARISED.values())), rows.reindex(list(REGULARISED))
    pairs = plain.join(regularised.set_axis(plain.index).add_prefix("r_"))
    variances = np.square(pairs[["std", "r_std"]].to_numpy()) / pairs[["n", "r_n"]].to_numpy()
    with np.errstate(invalid="ignore"):  # seeds that do not differ have no interval
        halves = [statistics.welch_half(*pair) for pair in zip(variances, pairs[["n", "r_n"]].to_numpy(), strict=True)]
    return pairs.assign(gain=pairs["r_mean"] - pairs["mean"], ci95=halves).drop(columns=["n", "r_n"])


def regularisation_panels(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """`regularisation` of R@1, a panel of roth-f1 each: ours, then the paper's three data sets."""
    tables = {name: moments(records) for name, records in by_study.items()}
    tables |= {f"{name} (the paper)": printed_table2(name) for name in published.DATASETS}
    return {name: regularisation(table[table["metric"] == R1]) for name, table in tables.items()}


def compare_gains(by_study: ByStudy) -> pd.DataFrame:
    """roth-f1-gains: what rho-regularisation adds to R@1 of every pair, in points; ours and the paper's."""
    gains = pd.concat(regularisation_panels(by_study), names=["column", "method"]).reset_index()
    return gains.assign(row=gains["method"].map(roth_label), mean=gains["gain"], form="+.2%")


def decay(records: StudyRecords) -> pd.DataFrame:
    """roth-f7-decay: rho of each pair without and with regularisation, and the difference; the paper finds a fall."""
    frame = regularisation(moments(records, ["rho"], "train")).rename(index=roth_label).rename_axis("row")
    columns = {"mean": "ρ without", "r_mean": "ρ with", "gain": "difference"}
    long = frame[list(columns)].rename(columns=columns).reset_index().melt("row", var_name="head", value_name="mean")
    gains = long["head"] == "difference"
    half = long["row"].map(frame["ci95"]).where(gains)
    return long.assign(half=half, form=gains.map({True: "+.3f", False: ".2f"}))


# Figures 2 and 3: what the recipe is worth


def swept(records: StudyRecords) -> pd.Series:
    """The mean over the seeds of every score that Figs. 2 and 3 count, by row (loss), value and metric."""
    frame = common.seed_scores(records, setting="separated")
    frame = frame[frame["metric"].isin(AGGREGATED) & (frame["value"] != "")]
    return frame.groupby(["row", "value", "metric"], sort=False)["score"].mean()


def normalised(records: StudyRecords) -> pd.DataFrame:
    """`swept` as a share of the best value's for the same loss and metric (section 4.2): row, value, metric, score."""
    means = swept(records)
    best = means.groupby(["row", "metric"]).transform("max")
    return (means[best > 0] / best[best > 0]).rename("score").reset_index()


@functools.lru_cache(maxsize=64)  # the sweeps' figures, tables and sentences all ask for it
def influence(records: StudyRecords) -> pd.DataFrame:
    """`normalised`, averaged over the metrics: a row a value, a column a loss."""
    return normalised(records).pivot_table(index="value", columns="row", values="score")


def value_label(value: str, factor: str) -> str:
    """A value of a sweep as printed: without what it is a value of, a trunk by its name."""
    if factor == "decays":
        return labels.number(float(value.removeprefix(FACTORS[factor][0])))
    return titles.trunk_title(value) if factor == "trunks" else value.removeprefix(FACTORS[factor][0])


def factor_effects(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """The worth of each factor of Fig. 2: study, factor, row, effect (best mean share less the worst), best (value)."""
    rows = []
    for factor, by_study in sweeps.items():
        for name, records in by_study.items():
            shares = influence(records).dropna(axis=1, thresh=2)
            worth = zip(shares, shares.max() - shares.min(), shares.idxmax(), strict=True)
            rows += [(name, factor, *row) for row in worth]
    return pd.DataFrame(rows, columns=["study", "factor", "row", "effect", "best"])


def loss_spread(records: StudyRecords) -> pd.Series:
    """The lead of the best loss over the worst at each value of a sweep, on the scale of `factor_effects`."""
    means = swept(records).unstack("row")
    shares = 1 - means.min(axis=1) / means.max(axis=1)
    return shares[means.notna().sum(axis=1) > 1].groupby("value").mean()


def compare_effects(frame: pd.DataFrame) -> pd.DataFrame:
    """roth-f2-effects: of the effects the mean over the losses, lowest, highest, and which value is best how often."""
    names = {factor: text for factor, (_, text) in FACTORS.items()} | {"batches": "images in a batch, equal steps"}
    rows = []
    for (factor, name), part in frame.groupby(["factor", "study"], sort=False):
        best = part["best"].value_counts()
        wins = ", ".join(f"{value_label(value, factor)} ({count})" for value, count in best.items())
        mean, low, high = (f"{100 * number:.1f}" for number in part["effect"].agg(["mean", "min", "max"]))
        rows.append((names[factor], name, np.nan, f"{mean} % ({low} to {high}); best: {wins}"))
    return pd.DataFrame(rows, columns=["row", "column", "mean", "text"])


def sampler_gap(records: StudyRecords, name: str) -> Estimate:
    """Mean share of a sampler minus that of SPC-4, over the losses."""
    shares = influence(records)
    both = {name, "spc4"} <= set(shares.index)
    return statistics.mean(shares.loc[name] - shares.loc["spc4"] if both else [], "losses")


def sampler_shares(records: StudyRecords) -> pd.DataFrame:
    """roth-f3-gaps: mean share of each sampler, and its difference to SPC-4 with an interval over the losses."""
    shares = influence(records).mean(axis=1)
    gaps = {key: sampler_gap(records, key) for key in SAMPLERS if key != "spc4"}
    rows = [(SAMPLERS[key], "mean share, %", shares.get(key), np.nan, ".1%") for key in SAMPLERS]
    rows += [(SAMPLERS[key], "above SPC-4, points", gap.value, gap.half, "+.1%") for key, gap in gaps.items()]
    return pd.DataFrame(rows, columns=["row", "head", "mean", "half", "form"])


# Figure 4: the metrics


def correlations(experiments: Sequence[StudyRecords]) -> tuple[pd.DataFrame, int]:
    """Pearson's correlations between the test metrics over all runs, one that is shared once, and their number."""
    frames = [common.seed_scores(records, setting="separated").assign(study=records.name) for records in experiments]
    frame = pd.concat(frames)
    frame = frame[(frame["method"] != PRETRAINED) & frame["metric"].isin(ALL_METRICS)]
    wide = frame.pivot(index=["study", "method", "rerun"], columns="metric", values="score")
    wide = wide[[name for name in ALL_METRICS if name in wide]].dropna().drop_duplicates()
    return wide.corr(min_periods=3), len(wide)


def pooled(*experiments: ByStudy) -> dict[str, list[StudyRecords]]:
    """All experiments of each main study that has some."""
    names = dict.fromkeys(name for by_study in experiments for name in by_study)
    return {name: [by_study[name] for by_study in experiments if name in by_study] for name in names}


# Figures 5 and 7: the shape of the embedding space


def structure(records: StudyRecords) -> pd.DataFrame:
    """R@1 on the test images and the shape of the training embeddings, a row a method, means over the seeds.

    Columns: R1, those of `STRUCTURE`, group ("plain", "regularised"), unit (whether embeddings are L2-normalised).
    """
    train = common.seed_scores(records, setting="train")
    frame = pd.concat([common.seed_scores(records, R1, "separated"), train[train["metric"].isin(STRUCTURE)]])
    wide = frame.pivot_table(index="method", columns="metric", values="score")
    wide = wide.reindex(index=[name for name in METHODS if name in wide.index], columns=[R1, *STRUCTURE])
    return wide.assign(
        group=["regularised" if name in REGULARISED else "plain" for name in wide.index],
        unit=[normalized(METHODS[name]) for name in wide.index],
    )


def counted_rows(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of `structure` that a correlation counts: not regularised, and in a common unit where it matters."""
    kept = (frame["group"] == "plain") & frame[[R1, name]].notna().all(axis=1)
    return frame[kept & frame["unit"]] if name in SCALED else frame[kept]


def correlate(frame: pd.DataFrame, name: str, ranks: bool = False) -> Estimate:
    """Pearson's correlation of R@1 with a property over the `counted_rows` methods of `structure`, or Spearman's."""
    rows = counted_rows(frame, name)
    return statistics.correlation(rows[name], rows[R1], ranks=ranks, units="methods")


def carried(frame: pd.DataFrame, name: str) -> tuple[str, Estimate]:
    """The method without which the correlation moves most, and what it is then; ("", the whole one) if little."""
    whole = correlate(frame, name)
    without = {method: correlate(frame.drop(index=method), name) for method in counted_rows(frame, name).index}
    known = {method: estimate for method, estimate in without.items() if not np.isnan(estimate.low)}
    moves = {method: abs(estimate.value - whole.value) for method, estimate in known.items()}
    most = max(moves, key=moves.get, default="")
    return (most, without[most]) if most and moves[most] >= CARRIES else ("", whole)


def spectra(records: StudyRecords) -> pd.DataFrame:
    """Singular values of the training embeddings but the largest, over their sum: method, place, mean, low, high."""
    arrays = records.arrays.query("name == 'spectrum' and setting == 'train'")
    frames = [pd.DataFrame(columns=["method", "place", "mean", "low", "high"], dtype=float)]
    for method, values in arrays.groupby("method")["values"]:
        kept = np.stack([np.asarray(spectrum, dtype=float)[1:] for spectrum in values])  # (seeds, D - 1)
        sums = kept.sum(axis=1, keepdims=True)
        kept = kept[sums[:, 0] > 0] / sums[sums[:, 0] > 0]
        if kept.size:
            places = np.arange(2, kept.shape[1] + 2)
            row = {"method": method, "place": places, "mean": kept.mean(0), "low": kept.min(0), "high": kept.max(0)}
            frames.append(pd.DataFrame(row))
    return pd.concat(frames[1:] or frames, ignore_index=True)


def structure_data(by_study: ByStudy) -> pd.DataFrame | None:
    """The numbers behind roth-f5, a row a study and method, for its CSV."""
    frames = {name: structure(records) for name, records in by_study.items()}
    return pd.concat(frames, names=["study", "method"]) if frames else None


def correlation_cells(by_study: ByStudy) -> pd.DataFrame:
    """The correlations of roth-f5 as cells, Pearson's and by ranks, with what the paper says of each."""
    says = {
        "pi_intra": "not consistent over the data sets",
        "pi_inter": "not consistent over the data sets",
        "pi_ratio": "positive on CUB200 and Cars196, noise on SOP",
        "rho": "at most -0.63 on each data set",
    }
    cells = {}
    for name, records in by_study.items():
        shape = structure(records)
        whole, ranked = ({key: correlate(shape, key, ranks) for key in says} for ranks in (False, True))
        texts = {key: f"{interval(estimate)}, n = {estimate.n}" for key, estimate in whole.items()}
        cells[name] = {key: f"{text}; by ranks {interval(ranked[key])}" for key, text in texts.items()}
    return pd.DataFrame(cells | {"the paper": says}).rename(index=STRUCTURE).rename_axis("R@1 with")


def interval(estimate: Estimate) -> str:
    """A correlation with its interval; that of few methods is not known."""
    return "unknown" if np.isnan(estimate.low) else f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: `common.numbers`, and those of the paper and of the toy.

    Of a factor: see `against_losses`. toy: shares of the second singular value, and what switching does to test P@1.
    """
    judged = claims.judge_all(edition, "roth")
    toys = toy.recorded_toys(10)
    changes = [toy.gain_over_partner(toys, name) for name in ("regularised", "regularised_cub200")]
    named = {
        **common.numbers(edition, judged, _of_study, ("agreement", "nmi_rank", "least_metrics")),
        "withdrawn": ", ".join(judged[claims.WITHOUT_RECORDS]),
        **_of_paper(),
        **prose.span("toy", [end for change in changes for end in (change.low, change.high)]),
    }
    named |= {f"toy.{name}": 100 * value for name, value in toys.groupby("variant")["spectrum"].mean().items()}
    for study in edition:
        named[f"{study.meta['dataset']}.low"] = sum(one.from_low_rows for one in judged[study.name].values())
    return named


def _of_paper() -> dict[str, float | str]:
    """The numbers of the paper's own tables; "best": the methods with the highest R@1 on a data set."""
    pairs, plain = pd.concat(regularisation_panels({})), published.roth_results().query("method in @PLAIN")
    best = plain[plain["metric"] == R1].set_index("method").groupby("dataset")["mean"].idxmax()
    raised = int((pairs["gain"] > pairs["ci95"]).sum())
    return {"paper.pairs": len(pairs), "paper.raised": raised, "paper.best": ", ".join(sorted(set(best)))}


def _of_study(main: str) -> dict[str, float | str]:
    """The numbers around one study."""
    suffixes = {"batches": "batches-equal"} | {factor: factor for factor in FACTORS if factor != "batches"}
    sweeps = {name: editions.experiment_of(main, f"roth2020/{suffix}") for name, suffix in suffixes.items()}
    steps = editions.experiment_of(main, "roth2020/batches")
    samplers, table = editions.experiment_of(main, "roth2020/samplers"), editions.experiment_of(main, "roth2020")
    matrix, _ = correlations([table, samplers, steps, *(sweeps[name] for name in FACTORS if name != "batches")])
    untrained = starts.by_dimension(main)
    gaps = [sampler_gap(samplers, name) for name in SAMPLERS if name != "spc4"]
    shares = influence(samplers).mean(axis=1)
    random = factor_effects({"trunks": {main: sweeps["trunks"]}})["effect"]
    return {
        **against_losses(sweeps),
        **_of_table(table),
        "random_trunk": 100 * float(random.min()),
        "spread": 100 * float(shares.max() - shares.min()),
        "samplers_clear": sum(gap.low > 0 or gap.high < 0 for gap in gaps),
        "least_metrics": float(np.nanmin(matrix)),
        "untrained_gain": 100 * float(untrained.iloc[-1] - untrained.iloc[0]),
    }


def against_losses(sweeps: Mapping[str, StudyRecords]) -> dict[str, str]:
    """The word for each factor: it moves a score "more" or "less" than the losses do; "" where Welch's is unclear."""
    gaps = {
        factor: statistics.welch(factor_effects({factor: {"": records}})["effect"], loss_spread(records))
        for factor, records in sweeps.items()
    }
    return {factor: "more" if gap.low > 0 else "less" if gap.high < 0 else "" for factor, gap in gaps.items()}


def _of_table(records: StudyRecords) -> dict[str, float | str]:
    """The numbers of Table 2 and of Figs. 1, 5 and 7."""
    frame = moments(records)
    r1 = frame[frame["metric"] == R1].set_index("method").astype({"mean": float, "ci95": float})
    tied = statistics.by_luck_of_seeds(r1[r1.index.isin(PLAIN)])["among_best"]
    trained, nmi = r1["mean"].drop(PRETRAINED), frame[frame["metric"] == "nmi"].set_index("method")["mean"]
    gains, decay = regularisation(frame[frame["metric"] == R1]), regularisation(moments(records, ["rho"], "train"))
    scored = common.seed_scores(records, R1, "separated")
    mined = [common.difference(scored, "triplet_distance", name) for name in MINED]
    order = agreement({"": records})
    order = order[order["metric"] == R1]["rho"]
    shape = structure(records)
    rank, whole, (_, without) = (correlate(shape, "rho", ranks=True), correlate(shape, "rho"), carried(shape, "rho"))
    return {
        "among_best": ", ".join(sorted(tied.index[tied])),
        "lift": 100 * tables.lift(r1["mean"]),
        **{"rows": len(trained), "below": int((trained < r1["mean"][PRETRAINED]).sum())},
        **{"agreement_low": float(order.min()), "agreement_high": float(order.max())},
        **{"mined_low": min(estimate.low for estimate in mined)},
        **{"raised": int((gains["gain"] > gains["ci95"]).sum()), "pairs": int(gains["gain"].notna().sum())},
        "lowered": ", ".join(gains.index[gains["gain"] < -gains["ci95"]]),
        "flatter": int((decay["gain"] < -decay["ci95"]).sum()),
        **{"rho": rank.value, "rho_low": rank.low, "rho_high": rank.high},
        **{"pearson_high": whole.high, "without_high": without.high},
        "nmi_rank": statistics.rank_test(r1["mean"].reindex(PLAIN), nmi.reindex(PLAIN))["rho"],
    }
