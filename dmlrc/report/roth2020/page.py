"""The tables of Roth et al. 2020: cells for the page, and the numbers of its text."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, starts, statistics
from dmlrc.report.common import ByStudy
from dmlrc.report.roth2020 import toy
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
    printed_table2,
    published_regularisation,
    r1_range,
    regularisation,
    regularisation_panels,
    roth_label,
    sampler_gap,
    scores,
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


def _welch(row: pd.Series) -> float:
    """Half width of Welch's interval of a gain, from two standard deviations over as many seeds; NaN where unknown."""
    return statistics.welch_half(row[["std", "r_std"]].to_numpy(float) ** 2 / row["n"], row["n"])


# Figures 2 and 3: what the recipe is worth


def effects_cells(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects` as cells: a row a factor, a column a study.

    The mean over the losses, the lowest and the highest, and for how many losses each value is best.
    """
    frame = effects(sweeps)
    cells = pd.DataFrame("not run", index=list(sweeps), columns=list(next(iter(sweeps.values()))))
    for (name, factor), part in frame.groupby(["study", "factor"], sort=False):
        best = part["best"].value_counts()
        wins = ", ".join(f"{value_label(value, factor)} ({count})" for value, count in best.items())
        cells.loc[factor, name] = (
            f"{100 * part['effect'].mean():.1f} % ({100 * part['effect'].min():.1f} to "
            f"{100 * part['effect'].max():.1f}); best: {wins}"
        )
    names = {factor: text for factor, (_, text) in FACTORS.items()} | {"batches": "images in a batch, equal steps"}
    return cells.rename(index=names).rename_axis("Varied")


def effects_data(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """`effects`, for the CSV of its cells; where no sweep was run the cells."""
    frame = effects(sweeps)
    return frame.set_index(["study", "factor"]) if len(frame) else effects_cells(sweeps)


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


PLAIN_STRUCTURE = ("π intra", "π inter", "π ratio", "ρ")


def correlation_text(found: Estimate) -> str:
    """A correlation with its interval.

    >>> correlation_text(Estimate(-0.634, -0.86, -0.2, 18))
    '-0.63 [-0.86, -0.20], n = 18'
    """
    if np.isnan(found.low):
        return f"too few methods (n = {found.n})"
    return f"{_interval(found)}, n = {found.n}"


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


# The numbers of the text


def numbers(edition: Sequence[StudyRecords], toys: pd.DataFrame | None = None) -> dict[str, float | str]:
    """What the text of the page rests on, a study by its data set; differences in points of R@1.

    Verdicts stand under the ids of their claims; "more" or "less", than the losses move a score, under a factor's name.
    toys: default its records.
    """
    judged = claims.judged(edition, "roth")
    exploratory = {claim.id for claim in claims.of_section("roth") if claim.exploratory}
    settled = [each for main in edition for each in judged[main.name].items() if each[1].settled]
    found: dict[str, float | str] = {
        "settled": len(settled),
        "reproduced": sum(each.verdict == claims.REPRODUCED for _, each in settled),
        "exploratory": sum(name in exploratory for name, _ in settled),
        "withdrawn": ", ".join(judged[claims.WITHOUT_RECORDS]),
        **_of_paper(),
        **_of_toy(toy.recorded(10) if toys is None else toys),
    }
    for each in edition:
        own = judged[each.name].values()
        counts = {
            "claims": len(own),
            "settled": sum(one.settled for one in own),
            "low": sum(one.from_low_rows for one in own),
        }
        own = counts | _of_study(each.name) | {name: one.verdict for name, one in judged[each.name].items()}
        found |= {f"{each.meta['dataset']}.{name}": value for name, value in own.items()}
    for name in ("agreement", "nmi_rank", "least_metrics"):
        values = [
            value for key, value in found.items() if key.partition(".")[2] in (name, f"{name}_low", f"{name}_high")
        ]
        found |= {f"{name}_low": min(values), f"{name}_high": max(values)}
    return found


def _of_paper() -> dict[str, float | str]:
    """The numbers of the paper's own tables; "best": the methods with the highest R@1 on a data set."""
    pairs = pd.concat(map(published_regularisation, published.DATASETS))
    half = [_welch(row) for _, row in pairs.iterrows()]
    tables = map(printed_table2, published.DATASETS)
    plain = [frame[frame["metric"].eq(TABLE[0]) & frame["method"].isin(PLAIN)].set_index("method") for frame in tables]
    return {
        "paper.pairs": len(pairs),
        "paper.raised": int((pairs["gain"] > half).sum()),
        "paper.best": ", ".join(sorted({frame["mean"].idxmax() for frame in plain})),
    }


def _of_toy(toys: pd.DataFrame) -> dict[str, float]:
    """Shares of the second singular value in percent, and what switching does to the P@1 of the test lines."""
    shares = {f"toy.{name}": 100 * value for name, value in toys.groupby("variant")["spectrum"].mean().items()}
    changes = [toy.change(toys, name, "test_p1") for name in ("regularised", "regularised_cub200")]
    return shares | {"toy.low": min(each.low for each in changes), "toy.high": max(each.high for each in changes)}


def _of_study(main: str) -> dict[str, float | str]:
    """The numbers around one study."""
    suffixes = {"batches": "batches-equal"} | {factor: factor for factor in FACTORS if factor != "batches"}
    sweeps = {name: editions.experiment_of(main, f"roth2020-{suffix}") for name, suffix in suffixes.items()}
    steps = editions.experiment_of(main, "roth2020-batches")
    samplers, table = editions.experiment_of(main, "roth2020-samplers"), editions.experiment_of(main, "roth2020")
    matrix, _ = correlations([table, samplers, steps, *(sweeps[name] for name in FACTORS if name != "batches")])
    untrained = starts.by_dimension(main)
    gaps = [sampler_gap(samplers, name, "spc4") for name in SAMPLERS if name != "spc4"]
    shares = influence(samplers).mean(axis=1)
    random = effects({"trunks": {main: sweeps["trunks"]}})["effect"]
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
    """Whether each factor moves a score "more" or "less" than the losses do; "" where the difference is unclear.

    By Welch's interval of the difference, effects over the losses less `loss_spread` over the values.
    """
    found = {}
    for factor, records in sweeps.items():
        gap = statistics.welch(effects({factor: {"": records}})["effect"], loss_spread(records))
        found[factor] = "more" if gap.low > 0 else "less" if gap.high < 0 else ""
    return found


def _of_table(records: StudyRecords) -> dict[str, float | str]:
    """The numbers of Table 2 and of Figs. 1, 5 and 7."""
    frame = table2(records)
    r1 = frame[frame["metric"] == TABLE[0]].set_index("method").astype({"mean": float, "ci95": float})
    tied = statistics.by_luck_of_seeds(r1[r1.index.isin(PLAIN)])["among_best"]
    trained = r1["mean"].drop(PRETRAINED)
    gains, decay = regularisation(records), regularisation(records, "rho", "train")
    scored = scores(records)
    scored = scored[scored["metric"] == TABLE[0]]
    mined = [common.difference(scored, "triplet_distance", name) for name in MINED]
    order = agreement({"": records})
    order = order[order["metric"] == TABLE[0]]["rho"]
    shape = structure(records)
    rank, whole, (_, without) = correlation(shape, "rho", ranks=True), correlation(shape, "rho"), carried(shape, "rho")
    return {
        "among_best": ", ".join(sorted(tied.index[tied])),
        **{"rows": len(trained), "below": int((trained < r1["mean"][PRETRAINED]).sum())},
        **{"agreement_low": float(order.min()), "agreement_high": float(order.max())},
        **{"mined_low": min(each.low for each in mined)},
        **{"raised": int((gains["gain"] > gains["ci95"]).sum()), "pairs": int(gains["gain"].notna().sum())},
        "lowered": ", ".join(gains.index[gains["gain"] < -gains["ci95"]]),
        "flatter": int((decay["gain"] < -decay["ci95"]).sum()),
        **{"rho": rank.value, "rho_low": rank.low, "rho_high": rank.high},
        **{"pearson_high": whole.high, "without_high": without.high},
        "nmi_rank": agreement_of_metrics(records, "nmi").value,
    }


MINED = ("triplet_random", "triplet_semihard", "triplet_softhard")
"""Triplet loss with the other minings than by distance."""


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
