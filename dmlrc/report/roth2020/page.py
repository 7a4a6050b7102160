"""The tables of Roth et al. 2020 and what to see in its figures: cells and sentences for the page."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, published, statistics
from dmlrc.report.common import ByStudy
from dmlrc.report.roth2020.numbers import (
    FACTORS,
    METHODS,
    PLAIN,
    REGULARISED,
    SAMPLERS,
    STRUCTURE,
    TABLE,
    agreement,
    agreement_of_metrics,
    carried,
    columns,
    correlation,
    correlations,
    effects,
    gain_of,
    influence,
    loss_spread,
    r1_range,
    regularisation,
    regularisation_panels,
    roth_label,
    sampler_gap,
    structure,
    table2,
    trunk_label,
    trunks,
    value_label,
)
from dmlrc.report.statistics import Estimate

# Table 2


def compare_table2(by_study: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """roth-t2, cells and marks: mean and standard deviation of every method, our columns and then the paper's.

    Bold: the best of the rows without and of those with rho-regularisation, which the paper keeps apart too; italic: it
    cannot be told from that. In brackets, behind ours: the ranks that a row may have among them. The trunk before
    training does not compete; what is below it has a sign.
    """
    cells, marks = {}, {}
    for head, frame in sorted(columns(by_study).items(), key=lambda column: column[0] not in by_study):
        for metric in TABLE:
            part = frame[frame["metric"] == metric].set_index("method").astype({"mean": float, "ci95": float})
            column = (head, common.metric_label(metric))
            texts = pd.Series({name: _cell(part, by_study, head, name) for name in (PRETRAINED, *METHODS)})
            means = part["mean"].reindex(texts.index)
            groups = [part[part.index.isin(group)] for group in (PLAIN, REGULARISED)]
            told = pd.concat(map(statistics.by_luck_of_seeds, groups))
            if head in by_study:
                texts = texts.add(common.brackets(told).reindex(texts.index, fill_value=""))
            cells[column] = labels.against_untrained(texts, means, means[PRETRAINED])
            marks[column] = pd.concat(common.marks(group["mean"], told["among_best"]) for group in groups)
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


def agreement_sentence(by_study: ByStudy) -> str:
    """Whether the methods stand in the paper's order, in a sentence a study."""
    frame = agreement(by_study)
    sentences = []
    for name, part in frame.groupby("study", sort=False):
        texts = [
            f"by {common.metric_label(metric)} " + labels.each(each.set_index("dataset")["rho"], _rho)
            for metric, each in part.groupby("metric", sort=False)
        ]
        sentences.append(f"Rank correlation of our order on `{name}` with the paper's: {'; '.join(texts)}.")
    return labels.bullets(sentences) or "Without a run of ours there is no order to compare with the paper's."


def agreement_in_short(by_study: ByStudy) -> str:
    """Spearman's rank correlations of `agreement` for R@1 alone, in one sentence; "" where there are none."""
    frame = agreement(by_study)
    texts = [
        f"{labels.span(part['rho'], '{:+.2f}'.format)} on `{name}`"
        for name, part in frame[frame["metric"] == "precision_at_1"].dropna().groupby("study", sort=False)
    ]
    return f"Our order by R@1 and the paper's have a rank correlation of {labels.listed(texts)}." if texts else ""


def _rho(rho: float) -> str:
    return "too few methods" if np.isnan(rho) else f"{rho:+.2f}"


def range_sentence(by_study: ByStudy) -> str:
    """The range of R@1 over the rows without regularisation, the paper's and ours."""
    theirs, ours = [], {}
    for head, frame in columns(by_study).items():
        here = r1_range(frame)
        if here["n"] > 1 and head in by_study:
            ours[head] = f"{labels.one_digit(here['range'])}{' (one seed)' * bool(np.isnan(here['std']))}"
        elif here["n"] > 1:
            theirs.append(here["range"])
    told = f"; in our runs {labels.by_study(ours)}" if ours else ""
    return (
        "From the worst to the best method without regularisation, R@1 spans "
        f"{labels.span(theirs, labels.one_digit)} points in the paper's tables{told}."
    )


# Table 1


AS_THEY_ARE = "imagenet"
"""The kind of `trunks` that has no seed."""
KINDS = {"projection": "random linear layer", AS_THEY_ARE: "its features", "random": "random weights, its features"}


def compare_trunks(by_study: ByStudy) -> pd.DataFrame:
    """roth-t1, cells: R@1 of every trunk before training, our columns and then the paper's."""
    theirs = published.roth_trunks().replace({"network": {"Inception-BN": "BN-Inception"}})
    cells = {}
    for name, records in by_study.items():
        ours = trunks(records)
        cells[name] = {
            (kind, trunk_label(trunk)): labels.percent(row["mean"], np.nan if kind == AS_THEY_ARE else row["std"])
            for (kind, trunk), row in ours.iterrows()
        }
    cells |= {
        f"the paper, {name}": {("projection", row.network): labels.percent(row.value) for row in part.itertuples()}
        for name, part in theirs.groupby("dataset", sort=False)
    }
    rows = dict.fromkeys(key for column in cells.values() for key in column)
    rows = sorted(rows, key=lambda key: list(KINDS).index(key[0]))  # the paper's kind first
    table = pd.DataFrame({head: [column.get(key, "–") for key in rows] for head, column in cells.items()})
    for name in by_study.keys() - common.present(by_study).keys():
        table[name] = "not run"
    table.index = pd.Index([f"{trunk}, {KINDS[kind]}" for kind, trunk in rows], name="Trunk, embedding used")
    return table


def projection_sentence(by_study: ByStudy) -> str:
    """What a random linear layer costs the features of a trunk, in words."""
    texts = []
    for name, records in common.present(by_study).items():
        means = trunks(records)["mean"]
        for kind, trunk in means.index:
            if kind == "projection" and (AS_THEY_ARE, trunk) in means.index:
                texts.append(
                    f"On `{name}` the features of {trunk_label(trunk)} have an R@1 of "
                    f"{labels.one_digit(means[AS_THEY_ARE, trunk])} %, after a random linear layer "
                    f"{labels.one_digit(means[kind, trunk])} %."
                )
    return labels.bullets(texts) if texts else "No trunk of ours here has ImageNet weights."


# Figure 1: with and without regularisation


def regularisation_cells(by_study: ByStudy) -> pd.DataFrame:
    """The gain of every pair in points, as cells: with an interval, and whether it has the claimed sign."""
    cells = {}
    for head, frame in regularisation_panels(by_study).items():
        if head not in by_study:
            frame = frame.assign(ci95=[_welch(row) for _, row in frame.iterrows()])
        cells[head] = {roth_label(plain): common.judged(gain_of(row)) for plain, row in frame.iterrows()}
    for name in by_study:
        cells.setdefault(name, dict.fromkeys(map(roth_label, REGULARISED.values()), "not run"))
    return pd.DataFrame(cells).rename_axis("Regularised")


def regularisation_sentence(by_study: ByStudy) -> str:
    """How many pairs gain R@1 from the regularisation, the paper's and ours."""
    theirs, ours = [], {}
    for head, frame in regularisation_panels(by_study).items():
        gains = frame["gain"].dropna()
        if len(gains) and head in by_study:
            clear = (gains > frame["ci95"][gains.index]).sum()
            mean = common.points(gains.mean())
            ours[head] = f"{(gains > 0).sum()} of {len(gains)} ({mean}; {clear or 'none'} clearly)"
        elif len(gains):
            theirs += list(gains)
    told = f"; in our runs in {labels.by_study(ours)}" if ours else ""
    return (
        f"With ρ-regularisation R@1 rises in {sum(gain > 0 for gain in theirs)} of {len(theirs)} pairs of the paper "
        f"({common.points(float(np.mean(theirs)))} points on average){told}."
    )


def regularisation_in_short(by_study: ByStudy) -> str:
    """In how many pairs R@1 clearly gains from the regularisation: the paper's, and ours."""
    panels = regularisation_panels(by_study)
    ours = {name: _risen([frame]) for name, frame in panels.items() if name in by_study}
    theirs = _risen([frame for name, frame in panels.items() if name not in by_study])
    told = f", and in our runs in {labels.by_study(ours)}" if ours else ""
    what = "ρ-regularisation clearly raises R@1 (the interval lies above 0, each by itself)"
    return f"{what} in {theirs} of the paper{told}."


def _risen(frames: Sequence[pd.DataFrame]) -> str:
    """In how many pairs R@1 clearly rises, of all, and in how many it falls. frames: `numbers.regularisation`.

    The paper prints means and standard deviations, from which Welch's interval follows.
    """
    pairs = pd.concat(frames).dropna(subset=["gain"])
    half = [_welch(row) if np.isnan(row["ci95"]) else row["ci95"] for _, row in pairs.iterrows()]
    raised, lowered = (int((sign * pairs["gain"] > half).sum()) for sign in (1, -1))
    return f"{raised or 'none'} of {len(pairs)} pairs{f' (and lowers it in {lowered})' if lowered else ''}"


def _welch(row: pd.Series) -> float:
    """Half width of Welch's interval of a gain, from two standard deviations over as many seeds; NaN where unknown."""
    return statistics.welch_half(row[["std", "r_std"]].to_numpy(float) ** 2 / row["n"], row["n"])


# Figures 2 and 3: what the recipe is worth


EQUAL_STEPS, EQUAL_IMAGES = "images in a batch, equal steps", "images in a batch, equal images seen"
"""The two sweeps of the size of a batch: in as many steps a larger one sees more images."""


def _factor(factor: str, batches: str) -> str:
    """A factor as printed. batches: what its sweep of the size of a batch is called."""
    return batches if factor == "batches" else FACTORS[factor][1]


def effects_cells(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects` as cells: a row a factor, a column a study.

    The mean over the losses, the lowest and the highest, and for how many losses each value is best.
    """
    frame = effects(sweeps)
    names = list(next(iter(sweeps.values())))
    cells = pd.DataFrame("not run", index=list(sweeps), columns=names)
    for (name, factor), part in frame.groupby(["study", "factor"], sort=False):
        best = part["best"].value_counts()
        wins = ", ".join(f"{value_label(value, factor)} ({count})" for value, count in best.items())
        cells.loc[factor, name] = (
            f"{100 * part['effect'].mean():.1f} % ({100 * part['effect'].min():.1f} to "
            f"{100 * part['effect'].max():.1f}); best: {wins}"
        )
    return cells.rename(index=lambda factor: _factor(factor, EQUAL_STEPS)).rename_axis("Varied")


def effects_data(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects`, for the CSV of its cells; where no sweep was run the cells."""
    frame = effects(sweeps)
    return frame.set_index(["study", "factor"]) if len(frame) else effects_cells(sweeps)


def effects_sentence(sweeps: Mapping[str, ByStudy]) -> str:
    """Which factor moves the scores most, in a sentence a study. Of batches: in equal steps."""
    frame = effects(sweeps)
    sentences = []
    for name, part in frame.groupby("study", sort=False):
        means = part.groupby("factor")["effect"].mean().sort_values(ascending=False)
        texts = {labels.aside(_factor(factor, EQUAL_STEPS)): f"{100 * value:.1f} %" for factor, value in means.items()}
        sentences.append(
            f"On `{name}`, moving a factor from its worst value to its best raises a loss's score, in percent of the "
            f"loss's best score, by: {labels.each(texts, str)}."
        )
    return labels.bullets(sentences) or "None of the five sweeps was run here."


def _beside_losses(sweeps: Mapping[str, ByStudy]) -> dict[str, tuple[list[str], list[str]]]:
    """study -> the factors that move a score more than the losses do, and those that move it less; most first.

    Only where Welch's interval of the difference, effects over the losses less `loss_spread` over the values, excludes
    0. Of batches: with equal images seen.
    """
    found = {}
    for name, part in effects(sweeps).groupby("study", sort=False):
        own = {factor: rows["effect"] for factor, rows in part.groupby("factor", sort=False)}
        gaps = {key: statistics.welch(values, loss_spread(sweeps[key][name])) for key, values in own.items()}
        order = sorted(own, key=lambda key: -own[key].mean())
        more = [labels.aside(_factor(key, EQUAL_IMAGES)) for key in order if gaps[key].low > 0]
        less = [labels.aside(_factor(key, EQUAL_IMAGES)) for key in order if gaps[key].high < 0]
        found[name] = more, less
    return found


def effects_beside_losses(sweeps: Mapping[str, ByStudy]) -> str:
    """Which factors are worth more than the losses are, and which less, in a sentence a study."""
    sentences = [
        f"On `{name}` these move it more: {labels.listed(more) or 'none'}; and these less: "
        f"{labels.listed(less) or 'none'}."
        for name, (more, less) in _beside_losses(sweeps).items()
    ]
    if not sentences:
        return "None of the five sweeps was run here."
    return (
        "Some factors clearly move a score more than the choice of the loss does, others clearly less: on average, "
        f"with an interval of the difference that excludes 0. {labels.bullets(sentences)}"
    )


def effects_in_short(sweeps: Mapping[str, ByStudy]) -> str:
    """`effects_beside_losses` in one sentence: what is worth more everywhere, what elsewhere; "" without any sweep."""
    more = {name: factors for name, (factors, _) in _beside_losses(sweeps).items()}
    if not more:
        return ""
    always = [factor for factor in next(iter(more.values())) if all(factor in those for those in more.values())]
    besides: dict[tuple[str, ...], list[str]] = {}
    for name, those in more.items():
        if extra := tuple(factor for factor in those if factor not in always):
            besides.setdefault(extra, []).append(f"`{name}`")
    than = " a score more than the choice of the loss does" + " in every study" * (len(more) > 1)
    than += " (the interval of the difference excludes 0)"
    if not always:
        told = "; ".join(
            f"on {labels.listed(on)} {labels.listed(those)} do{'es' * (len(those) < 2)}"
            for those, on in besides.items()
        )
        return f"No factor moves{than}." + f" {told[:1].upper()}{told[1:]}." * bool(told)
    what = labels.listed(always)
    told = f"{what[0].upper()}{what[1:]} {'moves' if len(always) < 2 else 'move'}{than}"
    extra = "; ".join(
        f"on {labels.listed(on)} {labels.listed(those)} do{'es' * (len(those) < 2)} too"
        for those, on in besides.items()
    )
    return f"{told}; {extra}." if extra else f"{told}."


def sizes_sentence(preprocessing: ByStudy) -> str:
    """That preprocessing is the size of the images alone, for a frozen trunk; "" where it is not."""
    ran = [each for each in common.present(preprocessing).values() if each.meta["protocol"]["frozen_trunk"]]
    levels = {level for each in ran for level in common.levels(each).dropna() if level.endswith("px")}
    sizes = sorted(int(level.removesuffix("px")) for level in levels)
    if not sizes:
        return ""
    return (
        f"The extremes are wide here: a trunk with random weights, and images of {sizes[0]} to {sizes[-1]} pixels, to "
        "which a frozen trunk cannot adapt."
    )


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
        gaps = {key: sampler_gap(records, key, "spc4") for key in SAMPLERS if key in others}
        columns[name, "above SPC-4, points"] = {
            key: common.points(gaps[key].value, gaps[key].half) if key in gaps else missing for key in SAMPLERS
        }
    return pd.DataFrame(columns).rename(index=SAMPLERS).rename_axis("Sampler")


def samplers_sentence(by_study: ByStudy) -> str:
    """Which sampler leads, and whether SPC-2 and FRD beat SPC-4 as the paper finds."""
    sentences = []
    for name, records in common.present(by_study).items():
        means = influence(records).mean(axis=1)
        if len(means) < 2:
            continue
        found = {key: sampler_gap(records, key, "spc4") for key in ("spc2", "frd")}
        gaps = [f"{SAMPLERS[key]} {common.points(gap.value, gap.half)}" for key, gap in found.items() if gap.n]
        above = f" Above SPC-4, in points: {' and '.join(gaps)} (intervals over the losses)." if gaps else ""
        sentences.append(
            f"On `{name}` {SAMPLERS.get(means.idxmax(), means.idxmax())} has the highest mean share, and all lie "
            f"within {100 * (means.max() - means.min()):.1f} points.{above}"
        )
    return labels.bullets(sentences) or "The samplers were not run here."


# Figure 4: which metrics say the same


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
        sentences.append(f"Over {runs:,} runs on `{name}`, {pair} agree least, at {lower.min():.2f}{known}.")
    return labels.bullets(sentences) or "No runs, no correlations."


# Figures 5 and 7: the shape of the embedding space


def structure_data(by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind roth-f5, a row a study and method, for its CSV."""
    frames = {name: structure(records) for name, records in common.present(by_study).items()}
    return pd.concat(frames, names=["study", "method"]) if frames else correlation_cells(by_study)


def correlation_cells(by_study: ByStudy) -> pd.DataFrame:
    """The correlations of roth-f5 as cells, with what the paper says of each."""
    says = {
        "pi_intra": "not consistent over the data sets",
        "pi_inter": "not consistent over the data sets",
        "pi_ratio": "positive on CUB200 and Cars196, noise on SOP",
        "rho": "at most -0.63 on each data set",
    }
    cells = {}
    for name, records in by_study.items():
        frame = None if records is None else structure(records)
        cells[name] = {key: "not run" if frame is None else _correlations(frame, key) for key in says}
    return (
        pd.DataFrame(cells | {"the paper": says})
        .rename(index=dict(zip(STRUCTURE, PLAIN_STRUCTURE, strict=True)))
        .rename_axis("R@1 with")
    )


def _correlations(frame: pd.DataFrame, key: str) -> str:
    return f"{correlation_text(correlation(frame, key))}; by ranks {_interval(correlation(frame, key, ranks=True))}"


def _interval(found: Estimate) -> str:
    return f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]" if found.low == found.low else "unknown"


def metric_ranks_sentence(by_study: ByStudy) -> str:
    """Whether NMI and mAP@C rank the methods as R@1 does, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        nmi, precision = (_interval(agreement_of_metrics(records, metric)) for metric in ("nmi", "map_at_c"))
        sentences.append(
            f"On `{name}` the methods without regularisation have a rank correlation by R@1 and by NMI of {nmi}, by "
            f"R@1 and by mAP@C of {precision}."
        )
    return labels.bullets(sentences)


PLAIN_STRUCTURE = ("π intra", "π inter", "π ratio", "ρ")


def correlation_text(found: Estimate) -> str:
    """A correlation with its interval.

    >>> correlation_text(Estimate(-0.634, -0.86, -0.2, 18))
    '-0.63 [-0.86, -0.20], n = 18'
    """
    if np.isnan(found.low):
        return f"too few methods (n = {found.n})"
    return f"{_interval(found)}, n = {found.n}"


def correlation_in_short(by_study: ByStudy) -> str:
    """The rank correlation of R@1 and rho around each study, in one sentence; "" where it was not measured."""
    told = {}
    for name, records in common.present(by_study).items():
        test = correlation(structure(records), "rho", ranks=True)
        if not np.isnan(test.low):
            told[name] = f"{test.value:+.2f}" + " (its interval holds 0)" * bool(test.low <= 0 <= test.high)
    return f"By rank, R@1 and the spectral decay ρ correlate by {labels.by_study(told)}." if told else ""


def correlation_sentence(by_study: ByStudy) -> str:
    """Whether R@1 falls with rho as the paper finds, in words."""
    sentences = []
    for name, records in common.present(by_study).items():
        frame = structure(records)
        test, (left_out, without) = correlation(frame, "rho"), carried(frame, "rho")
        if np.isnan(test.low):
            sentences.append(f"On `{name}` there are too few methods to correlate ρ with R@1.")
            continue
        trend = (
            "falls as ρ rises" if test.high < 0 else "rises with ρ" if test.low > 0 else "shows no clear trend with ρ"
        )
        alone = f" Without {roth_label(left_out)} it is {correlation_text(without)}" if left_out else ""
        hangs = bool(alone) and test.low * test.high > 0 > without.low * without.high
        end = (", so the trend hangs on one method." if hangs else ".") * bool(alone)
        sentences.append(f"On `{name}` R@1 {trend}: r = {correlation_text(test)}.{alone}{end}")
    return labels.bullets(sentences) or "ρ was not measured here."


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
            cells[name, "falls"][plain] = common.judged(gain_of(row), rises=False, scale=1, digits=2)
    return pd.DataFrame(cells).rename(index=roth_label).rename_axis("Regularised")


def _plain_number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def decay_sentence(by_study: ByStudy) -> str:
    """In how many pairs the regularisation lowers rho, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        frame = regularisation(records, "rho", "train").dropna(subset="gain")
        if len(frame):
            fell, clearly = (frame["gain"] < 0).sum(), (frame["gain"] < -frame["ci95"]).sum()
            sentences.append(
                f"On `{name}` ρ falls in {fell} of {len(frame)} pairs, beyond its interval in {clearly}; its mean "
                f"change is {frame['gain'].mean():+.2f}."
            )
    return labels.bullets(sentences) or "Spectra were not recorded here."


def roth_scalars(by_study: ByStudy) -> dict[str, float]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float] = {"published_cells": len(published.roth_results())}
    for name, records in common.present(by_study).items():
        gains = regularisation(records)["gain"]
        named = {
            "range_r1": r1_range(table2(records))["range"],
            "rho_with_r1": correlation(structure(records), "rho").value,
            "mean_gain": float(gains.mean()),
        }
        recorded |= {f"{name}.{key}": value for key, value in named.items() if np.isfinite(value)}
    return recorded
