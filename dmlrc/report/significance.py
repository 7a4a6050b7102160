"""Which methods of a study really differ: paired tests, effect sizes, ranks over blocks, and accuracy beside cost.

The unit is a rerun. Reruns of one number share their seeds, so methods are compared in pairs. The folds of a rerun are
no units of their own: they share the test classes and three quarters of their training classes, so each rerun counts
once, with the mean over its folds' models ("separated") or with their joined embeddings ("concatenated").

What these tests see is the noise of seeds alone. The data set, its split, the trunk and the one search that chose each
method's hyperparameters are the same in every rerun; a difference that is significant here may be gone after another
search, and one that is not may be real and small.
"""

import itertools
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, style, tables
from dmlrc.report.statistics import half_width
from dmlrc.report.tables import CLASSICS

ALPHA = 0.05
METRIC, SETTING = "map_at_r", "concatenated"


def scores(records: StudyRecords, metric: str = METRIC, setting: str = SETTING) -> pd.DataFrame:
    """The test scores of the trained methods: a row a rerun, a column a method in the paper's order.

    NaN where a rerun of a method diverged or is not finished; methods without any rerun are left out.
    """
    frame = records.scores
    chosen = frame[(frame["metric"] == metric) & (frame["setting"] == setting) & (frame["method"] != PRETRAINED)]
    wide = chosen.pivot(index="rerun", columns="method", values="value").dropna(axis="columns", how="all")
    return wide[[name for name in tables.ordered(wide.columns) if name in wide]]


def pairwise(table: pd.DataFrame) -> pd.DataFrame:
    """Every pair of methods, compared over the reruns that both have. table: `scores`.

    Columns: a, b; difference (mean of a - b, a fraction), low, high (its 95 % interval, Student's t), n (reruns);
    p_t (paired t test), p_wilcoxon (signed ranks, exact where it can be); holm_t, holm_wilcoxon (Holm's correction over
    all pairs of the table); d (Cohen's d of paired differences: mean / standard deviation), g (Hedges' correction).
    NaN where there is nothing to test: fewer than 2 reruns, or the same difference in all.
    """
    rows = [_pair(table, a, b) for a, b in itertools.combinations(table.columns, 2)]
    columns = ["a", "b", "difference", "low", "high", "n", "p_t", "p_wilcoxon", "d", "g"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(holm_t=holm(frame["p_t"]), holm_wilcoxon=holm(frame["p_wilcoxon"]))


def _pair(table: pd.DataFrame, a: str, b: str) -> dict:
    differences = (table[a] - table[b]).dropna().to_numpy()
    row = {"a": a, "b": b, "n": len(differences)}
    if not len(differences):
        return row
    centre, half = float(differences.mean()), half_width(differences)
    row |= {"difference": centre, "low": centre - half, "high": centre + half}
    if len(differences) < 2 or np.ptp(differences) <= 1e-12:
        return row
    d = centre / differences.std(ddof=1)
    return row | {
        "p_t": float(stats.ttest_1samp(differences, 0).pvalue),
        "p_wilcoxon": float(stats.wilcoxon(differences).pvalue),
        "d": float(d),
        "g": float(d * hedges(len(differences))),
    }


def hedges(n: int) -> float:
    """Hedges' correction of the bias of d from n paired differences: 1 - 3 / (4 (n - 1) - 1); NaN for fewer than 3.

    >>> round(hedges(10), 4)
    0.9143
    """
    return 1 - 3 / (4 * (n - 1) - 1) if n > 2 else float("nan")  # of two it would make every effect 0


def holm(p: pd.Series) -> pd.Series:
    """Holm's correction of these p-values for their number; NaN stays NaN and does not count.

    The m p-values in rising order, the i-th times m - i + 1, and never below the one before (Holm 1979). Not taken from
    statsmodels, which collects garbage on every call: a second in a process that has loaded torch.
    """
    rising = p.dropna().sort_values()
    factors = np.arange(len(rising), 0, -1)
    return (rising * factors).cummax().clip(upper=1).reindex(p.index)


def smallest_wilcoxon(n: int, pairs: int) -> float:
    """The smallest p that the signed-rank test can give for n reruns, after Holm's correction over so many pairs.

    >>> smallest_wilcoxon(10, 1), round(smallest_wilcoxon(10, 91), 3)
    (0.001953125, 0.178)
    """
    return min(1.0, pairs * 2 / 2**n)


def not_told_apart(table: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """The best method by its mean, then those whose difference from it is not significant (Holm, paired t)."""
    best = table.mean().idxmax()
    with_best = pairs[(pairs["a"] == best) | (pairs["b"] == best)]
    others = with_best["a"].where(with_best["a"] != best, with_best["b"])
    return [best, *others[~(with_best["holm_t"] < ALPHA)]]


def ranks(blocks: pd.DataFrame) -> pd.Series:
    """The mean rank of each method over the blocks, 1 for the highest score; ties share their ranks.

    blocks: a row a block (a rerun, or a data set), a column a method, without NaN.
    """
    return blocks.rank(axis=1, ascending=False).mean().sort_values()


def friedman(blocks: pd.DataFrame) -> dict[str, float]:
    """Friedman's test that no method ranks higher than another: statistic, p, blocks, methods; NaN for too few.

    It needs 3 methods and 2 blocks.
    """
    count, methods = blocks.shape
    if count < 2 or methods < 3:
        return {"statistic": float("nan"), "p": float("nan"), "blocks": count, "methods": methods}
    test = stats.friedmanchisquare(*blocks.to_numpy().T)
    return {"statistic": float(test.statistic), "p": float(test.pvalue), "blocks": count, "methods": methods}


def critical_difference(blocks: int, methods: int, alpha: float = ALPHA) -> float:
    """How far apart two mean ranks must lie to differ by Nemenyi's test (Demsar 2006, section 3.2.2).

    q / sqrt(2) sqrt(k (k + 1) / (6 N)), q the quantile of the studentised range of k groups.

    >>> round(critical_difference(14, 4), 2)  # the example of the paper
    1.25
    """
    quantile = stats.studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def nemenyi(blocks: pd.DataFrame) -> pd.DataFrame:
    """Nemenyi's p-values of all pairs of methods, as a matrix. blocks: as in `ranks`."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    p = posthoc_nemenyi_friedman(blocks.to_numpy())
    return pd.DataFrame(p.to_numpy(), index=blocks.columns, columns=blocks.columns)


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """The reruns that every method has: ranks need whole blocks."""
    return table.dropna()


def datasets(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The mean over the reruns: a row a study, a column a method that all have."""
    return pd.DataFrame({each.name: scores(each).mean() for each in edition}).T.dropna(axis="columns")


def blocks(edition: Sequence[StudyRecords]) -> dict[str, pd.DataFrame]:
    """What the ranks are taken over: the reruns of every study, and where there are three studies, these themselves.

    Title -> blocks; studies without whole blocks, or with fewer than 3 methods, are left out.
    """
    rerun_blocks = {each.name: complete(scores(each)) for each in edition}
    if len(edition) >= 3:
        rerun_blocks["over the data sets"] = datasets(edition)
    return {name: each for name, each in rerun_blocks.items() if each.shape[0] >= 2 and each.shape[1] >= 3}


def cost_and_accuracy(records: StudyRecords) -> pd.DataFrame:
    """Concatenated MAP@R beside cost, indexed by method: mean, ci95, seconds and steps of a rerun, dominated.

    dominated: another method has a higher mean in fewer steps. Steps and seconds are summed over the folds.
    """
    frame = tables.accuracy(records)
    chosen = frame[(frame["metric"] == METRIC) & (frame["setting"] == SETTING)].set_index("method")[["mean", "ci95"]]
    table = chosen.join(tables.cost(records)[["seconds", "steps"]], how="inner")
    table = table.loc[tables.ordered(table.index)]
    cheaper = table["steps"].to_numpy() < table["steps"].to_numpy()[:, None]  # (this, other)
    better = table["mean"].to_numpy() > table["mean"].to_numpy()[:, None]
    return table.assign(dominated=(cheaper & better).any(axis=1))


def comparable(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The studies with at least two methods and two reruns that both have."""
    return [each for each in edition if min(complete(scores(each)).shape) >= 2]


def baseline(table: pd.DataFrame) -> str:
    """What the others are compared with: the contrastive loss, the oldest; the first method where it is missing."""
    return CLASSICS[0] if CLASSICS[0] in table else table.columns[0]


def effects(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `pairwise` with the `baseline`, turned so that they say how far a method is above it; by method.

    The corrections are those over all pairs of the table.
    """
    name = baseline(table)
    pairs = pairwise(table)
    before, after = pairs[pairs["a"] == name], pairs[pairs["b"] == name]
    signs = {"difference": -before["difference"], "low": -before["high"], "high": -before["low"]}
    turned = before.assign(a=before["b"], b=name, **signs, d=-before["d"], g=-before["g"])
    against_baseline = pd.concat([turned, after]).set_index("a").drop(columns="b").rename_axis("method")
    return against_baseline.loc[tables.ordered(against_baseline.index)]


def same_function(records: StudyRecords) -> float:
    """MAP@R of N. Softmax minus that of ProxyNCA, one function searched twice; NaN where one of them is missing."""
    table = scores(records)
    names = ("normalized_softmax", "proxy_nca")
    return float((table[names[0]] - table[names[1]]).mean()) if set(names) <= set(table) else float("nan")


def differences(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of all pairs: row minus column in points, the best method first; bold if significant.

    Significant: Holm's correction of the paired t tests over all pairs.
    """
    pairs = pairwise(table)
    names = list(table.mean().sort_values(ascending=False).index)
    cells = pd.DataFrame("", index=names, columns=names)
    marks = cells.copy()
    for pair in pairs.itertuples():
        cells.loc[pair.a, pair.b] = labels.signed(pair.difference, 2, "")
        cells.loc[pair.b, pair.a] = labels.signed(-pair.difference, 2, "")
        if pair.holm_t < ALPHA:
            marks.loc[pair.a, pair.b] = marks.loc[pair.b, pair.a] = "best"
    heads = list(map(labels.method_label, names))
    return (
        cells.set_axis(heads).set_axis(heads, axis=1).rename_axis("Row minus column"),
        marks.set_axis(heads).set_axis(heads, axis=1),
    )


def effect_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`effects` of every study as cells: a row a method; points with the interval, g, Holm's p, Wilcoxon's p."""
    parts = {}
    for each in edition:
        effects_of_study = effects(scores(each))
        parts[each.name] = pd.DataFrame(
            {
                "points": [_points(row) for row in effects_of_study.itertuples()],
                "g": effects_of_study["g"].map("{:+.1f}".format).to_numpy(),
                "p (Holm)": effects_of_study["holm_t"].map(_p).to_numpy(),
                "p (Wilcoxon)": effects_of_study["p_wilcoxon"].map(_p).to_numpy(),
            },
            index=effects_of_study.index,
        )
    cells = pd.concat(parts, axis=1)
    cells = cells.loc[tables.ordered(cells.index)].fillna("–").replace("+nan", "–")
    return cells.rename(index=labels.method_label).rename_axis("Method")


def _points(row) -> str:
    return f"{100 * row.difference:+.2f} [{100 * row.low:+.2f}, {100 * row.high:+.2f}]" if row.n else "–"


def _p(value: float) -> str:
    """
    >>> _p(0.0324), _p(1e-7), _p(float("nan"))
    ('0.032', '< 0.001', '–')
    """
    return "–" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def overview(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """How many pairs differ, as cells: a row a study, setting and metric; a column a test, corrected and not."""
    rows = []
    for each in edition:
        for setting, metric in itertools.product(tables.SETTINGS, ("precision_at_1", METRIC)):
            table = scores(each, metric, setting)
            pairs = pairwise(table)
            below = {test: str((pairs[test] < ALPHA).sum()) for test in ("holm_t", "p_t", "p_wilcoxon")}
            rows.append(
                {
                    "Study": each.name,
                    "accuracy": f"{labels.METRIC_LABELS[metric]}, {setting}",
                    "pairs": str(len(pairs)),
                    "differ (t, Holm)": below["holm_t"],
                    "uncorrected t": below["p_t"],
                    "uncorrected Wilcoxon": below["p_wilcoxon"],
                    "best, and not told from it": ", ".join(map(labels.method_label, not_told_apart(table, pairs))),
                }
            )
    return pd.DataFrame(rows).set_index(["Study", "accuracy"])


def differences_sentence(records: StudyRecords) -> str:
    """How many pairs of a study differ, and which methods the best cannot be told from, in a few sentences."""
    table = scores(records)
    reruns = int(table.notna().all(axis=1).sum())
    if table.shape[1] < 2 or reruns < 2:
        return f"`{records.name}`: fewer than two methods with two reruns in common, so nothing can be tested."
    pairs = pairwise(table)
    significant = pairs["holm_t"] < ALPHA
    best, *rest = map(labels.method_label, not_told_apart(table, pairs))
    among = f"cannot be told from {', '.join(rest)}" if rest else "can be told from every other method"
    half = ((pairs["high"] - pairs["low"]) / 2).mean()
    return (
        f"`{records.name}`: {significant.sum()} of {len(pairs)} pairs of methods differ in MAP@R (paired t tests over "
        f"{reruns} reruns, Holm's correction, 5 %). {best} has the highest mean and {among}. The interval of a "
        f"difference is ± {labels.percent(half)} points on average: much smaller ones go unseen."
    )


def caution(records: StudyRecords) -> str:
    """What the tests of a study cannot tell, with its numbers."""
    table = scores(records)
    pairs, reruns = table.shape[1] * (table.shape[1] - 1) // 2, len(complete(table))
    sentences = []
    searched = same_function(records)
    if not np.isnan(searched):
        sentences.append(
            f"In `{records.name}` N. Softmax and ProxyNCA, which are one function searched twice, differ by "
            f"{labels.signed(searched, 2, '')} points: a difference of that size says nothing about losses, "
            "significant or not."
        )
    if reruns >= 2 and smallest_wilcoxon(reruns, pairs) > ALPHA:
        sentences.append(
            f"With {reruns} reruns the signed-rank test cannot fall below p = {smallest_wilcoxon(reruns, pairs):.2f} "
            f"after the correction for {pairs} pairs, so it is shown uncorrected, as a check on the t test."
        )
    return " ".join(sentences)


def friedman_sentence(titled: Mapping[str, pd.DataFrame]) -> str:
    """Friedman's tests of all blocks, and the critical differences, in words. titled: `blocks`."""
    if not titled:
        return "No study has two reruns of three methods: there are no ranks to compare."
    sentences = []
    for name, each in titled.items():
        test = friedman(each)
        p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
        sentences.append(
            f"{name}: Friedman's χ² = {test['statistic']:.1f}, {p}, {each.shape[0]} blocks, {each.shape[1]} methods, "
            f"critical difference {critical_difference(*each.shape):.1f} ranks"
        )
    return "; ".join(sentences) + "."


def critical_difference_figure(titled: Mapping[str, pd.DataFrame]) -> Figure:
    """Mean ranks, best on the left; a bar joins methods that Nemenyi's test cannot tell apart. titled: `blocks`."""
    heights = [0.9 + 0.16 * each.shape[1] for each in titled.values()]
    figure, axes = style.canvas(sum(heights) + 0.2, len(titled), gridspec_kw={"height_ratios": heights})
    for axis, (name, each) in zip(axes.flat, titled.items(), strict=True):
        _draw_ranks(axis, each)
        axis.set_title(name, fontsize=9, pad=14)
    return figure


def _draw_ranks(axis: Axes, each: pd.DataFrame) -> None:
    from scikit_posthocs import critical_difference_diagram

    positions = ranks(each).rename(labels.method_label)
    p = nemenyi(each).rename(index=labels.method_label, columns=labels.method_label)
    colours = {labels.method_label(name): style.method_style(name).colour for name in each.columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns where no bar is to be drawn
        drawn = critical_difference_diagram(
            positions,
            p,
            ax=axis,
            color_palette=colours,
            label_fmt_left="{label} {rank:.1f} ",
            label_fmt_right=" {rank:.1f} {label}",
            label_props={"fontsize": 8},
            crossbar_props={"linewidth": 2.5},
            marker_props={"s": 14},
            elbow_props={"linewidth": 0.8},
            text_h_margin=0.02 * each.shape[1],
        )
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # else in the order of a set, another one in every process
    for text in drawn["labels"]:
        text.set_color("black")  # the paler colours cannot be read as letters
    axis.grid(False)


def effects_figure(edition: Sequence[StudyRecords]) -> Figure:
    """How far every method is above the `baseline`, with 95 % intervals; filled: significant. A panel a study."""
    effects_by_study = {each.name: effects(scores(each)) for each in edition}
    names = tables.ordered(name for frame in effects_by_study.values() for name in frame.index)
    figure, axes = style.canvas(0.9 + 0.24 * len(names), 1, len(effects_by_study), sharey=True)
    for axis, each in zip(axes.flat, edition, strict=True):
        for place, name in enumerate(names):
            if name not in effects_by_study[each.name].index:
                continue
            row, look = effects_by_study[each.name].loc[name], style.method_style(name)
            centre, half = 100 * row["difference"], 100 * np.nan_to_num(row["high"] - row["difference"])
            face = look.colour if row["holm_t"] < ALPHA else "white"
            axis.errorbar(
                centre,
                place,
                xerr=half,
                color=look.colour,
                marker=look.marker,
                markerfacecolor=face,
                markersize=5,
                capsize=2,
            )
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, names)
        axis.set_title(each.name, fontsize=9)
    bases = dict.fromkeys(labels.method_label(baseline(scores(each))) for each in edition)
    figure.supxlabel(f"points of MAP@R above {' and '.join(bases)}", fontsize=10)
    return figure


def cost_figure(edition: Sequence[StudyRecords]) -> Figure:
    """MAP@R against the steps (left) and the seconds (right) of a rerun; a row of panels a study."""
    figure, axes = style.canvas(1.4 + 2.1 * len(edition), len(edition), 2, sharey="row")
    for row, each in zip(axes, edition, strict=True):
        methods_of_study = cost_and_accuracy(each)
        for axis, cost, unit in zip(row, ("steps", "seconds"), ("steps, thousands", "seconds"), strict=True):
            scale = 1000 if cost == "steps" else 1
            for name, values in methods_of_study.iterrows():
                look = style.method_style(name)
                axis.errorbar(
                    values[cost] / scale,
                    100 * values["mean"],
                    yerr=100 * np.nan_to_num(values["ci95"]),
                    color=look.colour,
                    marker=look.marker,
                    markerfacecolor=look.face,
                    markersize=5,
                    linestyle="none",
                    label=labels.method_label(name),
                )
            axis.set_xlabel(f"{unit} a rerun")
        row[0].set_ylabel("MAP@R, %")
        row[0].set_title(each.name, fontsize=9, loc="left")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def pareto_front(records: StudyRecords) -> str:
    """Which methods no other beats with fewer steps and a higher mean, in one sentence."""
    table = cost_and_accuracy(records)
    if table.empty:
        return f"`{records.name}`: no finished rerun."
    names = ", ".join(map(labels.method_label, table.index[~table["dominated"]]))
    return f"`{records.name}`: no other method has a higher mean in fewer steps than {names}."
