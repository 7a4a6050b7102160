"""Inventory: where studies were run, what of their experiments is recorded, which studies have a name."""

from collections.abc import Iterable, Sequence

import pandas as pd

from dmlrc.protocol import Study
from dmlrc.records import StudyRecords
from dmlrc.report import about, labels, scaling, tables, titles
from dmlrc.report.speed import MEASUREMENTS
from dmlrc.studies import experiments

TOLERANCE = 0.005
"""How far the validation MAP@R of a unit may lie from that of another processor: half a point, see `other_kernels`."""


def provenance(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The origin of each methods table's numbers: one column per study."""
    return pd.DataFrame({records.name: _provenance(records) for records in edition})


def _provenance(records: StudyRecords) -> dict[str, str]:
    meta, where = records.meta, records.meta["environment"]
    reruns = records.runs[records.runs["kind"] == "rerun"]["seconds"].sum()
    return {
        "commit": about.environments(records, "commit"),
        "begun": meta["created"][:10],
        "seed": str(meta["seed"]),
        "trials, all methods": f"{len(records.trials):,}",
        "of which diverged or failed": f"{records.trials['state'].isin(tables.NO_RESULT).sum():,}",
        "training runs": f"{len(records.runs):,}",
        "training steps": f"{records.runs['steps'].sum():,}",
        "core hours of searching": f"{records.trials['seconds'].sum() / 3600:.2f}",
        "core hours of reruns": f"{reruns / 3600:.2f}",
        "device": about.environments(records, "device"),
        "processor": f"{about.environments(records, 'processor')}, {labels.plural(where['cores'], 'core')}",
        "system": where["system"],
        "Python": where["python"],
        **about.packages(records),
    }


def experiments_table(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The recorded part of the experiments around each methods table: one row per experiment of a study."""
    rows = []
    for main in edition:
        for name, study in experiments.experiments_around(main.name).items():
            row = {"Study": main.name, "experiment": titles.experiment(name, study.protocol.paper)}
            row |= {"rows": str(len(study.methods)), "reruns": "not run", "name": study.name}
            if (recorded := experiments.load_experiment(main.name, name)) is not None:
                states = recorded.reruns["state"].value_counts()
                wanted = len(study.methods) * study.repetitions * study.budget.reruns
                lost = [f"{states[state]} {state}" for state in tables.NO_RESULT if state in states]
                row["reruns"] = "; ".join([f"{states.get('complete', 0)} of {wanted}", *lost])
                row["steps"] = f"{recorded.runs['steps'].sum():,}"
                row["core hours"] = f"{recorded.runs['seconds'].sum() / 3600:.2f}"
                row["commit"] = about.environments(recorded, "commit")
            rows.append(row)
    columns = ["Study", "experiment", "rows", "reruns", "steps", "core hours", "commit", "name"]
    return pd.DataFrame(rows, columns=columns, dtype=object).fillna("–").set_index(columns[:2])


def studies_table(studies: Iterable[Study]) -> pd.DataFrame:
    """Studies as `dmlrc study list` shows them, without those around others and those that chose a learning rate."""
    apart = experiments.around()
    rows = {}
    for study in (study for study in studies if study.kind != "rates" and study.name not in apart):
        amount = labels.plural(study.budget.trials, "trial"), labels.plural(study.budget.reruns, "rerun")
        budget = f"{study.budget.name}: {', '.join(amount)}" + f", {study.repetitions} times" * (study.repetitions > 1)
        data = labels.dataset_label(study.dataset)
        rows[study.name] = data, study.protocol.name, budget, study.expected, study.name
    columns = ["data set", "protocol", "budget", "expected", "name"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("Study")


def other_kernels() -> pd.DataFrame:
    """Units run again without AVX-512 (`benchmarks/processors.py`), each the first trial of its study and method.

    Others of its columns: kernels, map_at_r, difference (from native kernels), best_steps (of folds), machine, torch.
    """
    return pd.read_csv(MEASUREMENTS / "processors.csv")


def other_kernels_cells() -> pd.DataFrame:
    """`other_kernels` as cells: a row a trial, validation MAP@R in percent, and the differences in points."""
    kernels = other_kernels()
    cells = []
    for (study, method), part in kernels.groupby(["study", "method"], sort=False):
        native, *others = part.itertuples()
        row = {"study": study, "loss": labels.method_label(method), "MAP@R": labels.number(native.map_at_r, form=".3%")}
        for other in others:
            same = "" if other.best_steps == native.best_steps else ", other checkpoints"
            row[f"with {other.kernels}"] = f"{100 * other.difference:+.4f}{same}"
        cells.append(row)
    return pd.DataFrame(cells).set_index("study").rename_axis("Study")


def other_machines() -> pd.DataFrame:
    """Committed trials that were run again on another processor (`benchmarks/processors.py --committed`).

    Each the first of its study, method and repetition: recorded(_on), again(_on), difference, same_checkpoints.
    """
    return pd.read_csv(MEASUREMENTS / "machines.csv")


def other_machines_cells() -> pd.DataFrame:
    """`other_machines` as cells: a row a trial, validation MAP@R in percent, and the difference in points."""
    cells = []
    for row in other_machines().itertuples():
        cell = {"study": row.study, "loss": labels.method_label(row.method), "repetition": str(row.repetition + 1)}
        scores = {row.recorded_on: row.recorded, row.again_on: row.again}
        cell |= {machine: labels.number(score, form=".3%") for machine, score in scores.items()}
        same = f"{row.same_checkpoints} of {row.folds} folds"
        cells.append(cell | {"difference": f"{100 * row.difference:+.4f}", "same checkpoint": same})
    return pd.DataFrame(cells).fillna("–").set_index("study").rename_axis("Study")


def tried() -> pd.DataFrame:
    """Things that the tests try on purpose: how often, what must come of each, and the file that does it."""
    return pd.read_csv(MEASUREMENTS / "tried.csv", index_col=0)


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text; `other_machines` and `other_kernels` in points.

    machines.same, kernels.same: the share of trials that came out as before. one.most: how many times as fast the
    tables get at most with one trial of each search at a time; eight.least: at least with eight and enough workers.
    lost.fifty_clear: how many numbers of proposals clearly cost something. protocols: how many of the papers' differ.
    """
    moved = other_machines()["difference"].abs()
    kernels = other_kernels()
    without = kernels[kernels["kernels"] != kernels["kernels"].iloc[0]]["difference"].abs()
    most = [scaling.speed_ups(study).max() for study in edition]
    cost = scaling.lost(scaling.played())
    after_fifty = cost.loc[50]
    settings = tables.protocols().loc[["trunk", "embedding_dim", "optimizer", "crop_size"]]
    seconds = sum(study.trials["seconds"].sum() + study.reruns["seconds"].sum() for study in edition)
    return {
        "runs": f"{sum(len(study.runs) for study in edition):,}",
        "core_hours": float(seconds / 3600),
        "machines": len(moved),
        "machines.same": float((moved < 1e-5).mean()),
        "machines.most": float(100 * moved.max()),
        "kernels": len(without),
        "kernels.same": float((without < 1e-6).mean()),
        "tolerance": 100 * TOLERANCE,
        "one.most": float(max(gains[1] for gains in most)),
        "eight.least": float(min(gains[8] for gains in most)),
        "lost.twenty": float(100 * cost.loc[(20, 8), "lost"]),
        "lost.twenty_ci95": float(100 * cost.loc[(20, 8), "ci95"]),
        "lost.fifty_clear": int((after_fifty["lost"] > after_fifty["ci95"]).sum()),
        "protocols": settings.astype(str).T.drop_duplicates().shape[0],
    }
