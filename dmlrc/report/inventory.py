"""What there is: where studies were run, what of their experiments is recorded, which studies have a name."""

from collections.abc import Iterable, Sequence
from importlib.resources import files

import pandas as pd

from dmlrc.protocol import Study
from dmlrc.records import StudyRecords
from dmlrc.report import about, labels, tables, titles
from dmlrc.studies import experiments


def provenance(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Where each methods table's numbers were made: a column a study."""
    return pd.DataFrame({records.name: _provenance(records) for records in edition})


def _provenance(records: StudyRecords) -> dict[str, str]:
    meta, where = records.meta, records.meta["environment"]
    reruns = records.runs[records.runs["kind"] == "rerun"]["seconds"].sum()
    return {
        "commit": about.made(records, "commit"),
        "begun": meta["created"][:10],
        "seed": str(meta["seed"]),
        "trials, all methods": f"{len(records.trials):,}",
        "of which diverged or failed": f"{records.trials['state'].isin(tables.NO_RESULT).sum():,}",
        "training runs": f"{len(records.runs):,}",
        "training steps": f"{records.runs['steps'].sum():,}",
        "core hours of searching": f"{records.trials['seconds'].sum() / 3600:.2f}",
        "core hours of reruns": f"{reruns / 3600:.2f}",
        "device": about.made(records, "device"),
        "processor": f"{about.made(records, 'processor')}, {where['cores']} cores",
        "system": where["system"],
        "Python": where["python"],
        **about.packages(records),
    }


def experiments_table(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """What is recorded of the experiments around each methods table: a row an experiment of a study."""
    rows = []
    for main in edition:
        for name, study in experiments.of(main.name).items():
            recorded = experiments.load(main.name, name)
            title = titles.experiment(name, study.protocol.paper)
            row = {"Study": main.name, "experiment": title, "rows": str(len(study.methods))}
            if recorded is None:
                rows.append(
                    row | {"reruns": "not run", "steps": "–", "core hours": "–", "commit": "–", "name": study.name}
                )
                continue
            states = recorded.reruns["state"].value_counts()
            wanted = len(study.methods) * study.repetitions * study.budget.reruns
            lost = [f"{states[state]} {state}" for state in tables.NO_RESULT if state in states]
            row["reruns"] = "; ".join([f"{states.get('complete', 0)} of {wanted}", *lost])
            row["steps"] = f"{recorded.runs['steps'].sum():,}"
            row["core hours"] = f"{recorded.runs['seconds'].sum() / 3600:.2f}"
            rows.append(row | {"commit": about.made(recorded, "commit"), "name": study.name})
    columns = ["Study", "experiment", "rows", "reruns", "steps", "core hours", "commit", "name"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:2])


def studies_table(studies: Iterable[Study]) -> pd.DataFrame:
    """Studies as `dmlrc study list` shows them, without those around others and those that chose a learning rate."""
    apart = experiments.around()
    rows = {
        study.name: {
            "data set": labels.dataset_label(study.dataset),
            "protocol": study.protocol.name,
            "budget": f"{study.budget.name}: {study.budget.trials} trials, {study.budget.reruns} reruns"
            + (f", {study.repetitions} times" if study.repetitions > 1 else ""),
            "expected": study.expected,
            "name": study.name,
        }
        for study in studies
        if study.kind != "rates" and study.name not in apart
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


TOLERANCE = 0.005
"""How far the validation MAP@R of a unit may lie from that of another processor: half a point, see `other_kernels`."""


def other_kernels() -> pd.DataFrame:
    """Units that were run again without AVX-512, as `benchmarks/processors.py` measured them.

    Columns: study and method, of which it is the first trial, kernels, map_at_r, difference (from the native kernels),
    best_steps (of each fold's best checkpoint), machine, torch, date, commit.
    """
    return pd.read_csv(files("dmlrc.report") / "measurements" / "processors.csv")


def other_kernels_cells() -> pd.DataFrame:
    """`other_kernels` as cells: a row a trial, validation MAP@R in percent, and the differences in points."""
    found = other_kernels()
    cells = []
    for (study, method), part in found.groupby(["study", "method"], sort=False):
        native, *others = part.itertuples()
        row = {"study": study, "loss": labels.method_label(method), "MAP@R": labels.percent(native.map_at_r, digits=3)}
        for other in others:
            same = "" if other.best_steps == native.best_steps else ", other checkpoints"
            row[f"with {other.kernels}"] = f"{100 * other.difference:+.4f}{same}"
        cells.append(row)
    return pd.DataFrame(cells).set_index("study").rename_axis("Study")


def other_machines() -> pd.DataFrame:
    """Committed trials that were run again on another processor: `benchmarks/processors.py --committed` measured them.

    Columns: study, method and repetition, of which it is the first trial, recorded, recorded_on, again, again_on,
    difference, same_checkpoints, folds, torch, date, commit.
    """
    return pd.read_csv(files("dmlrc.report") / "measurements" / "machines.csv")


def other_machines_cells() -> pd.DataFrame:
    """`other_machines` as cells: a row a trial, validation MAP@R in percent, and the difference in points."""
    cells = [
        {
            "study": row.study,
            "loss": labels.method_label(row.method),
            "repetition": str(row.repetition + 1),
            row.recorded_on: labels.percent(row.recorded, digits=3),
            row.again_on: labels.percent(row.again, digits=3),
            "difference": f"{100 * row.difference:+.4f}",
            "same checkpoint": f"{row.same_checkpoints} of {row.folds} folds",
        }
        for row in other_machines().itertuples()
    ]
    return pd.DataFrame(cells).fillna("–").set_index("study").rename_axis("Study")


def other_machines_sentence() -> str:
    """How far another processor moved recorded trials, in a sentence or two."""
    found = other_machines()
    moved = found["difference"].abs()
    worst = found.loc[moved.idxmax()]
    other = worst["folds"] - worst["same_checkpoints"]
    folds = f"all {other}" if other == worst["folds"] else f"{other} of its {worst['folds']}"
    return (
        f"{labels.counted(len(found), 'trial')} recorded on {labels.listed(dict.fromkeys(found['recorded_on']))}, run "
        f"again on {labels.listed(dict.fromkeys(found['again_on']))}: {(moved < 1e-5).sum()} give the same number to a "
        f"thousandth of a point. {labels.method_label(worst['method'])} moves most, by "
        f"{labels.percent(moved.max())} points; {folds} folds keep another checkpoint."
    )


def other_kernels_sentence() -> str:
    """How far other kernels moved the numbers, in two sentences."""
    found = other_kernels()
    other = found[found["kernels"] != found["kernels"].iloc[0]]
    moved = other["difference"].abs()
    same = (moved < 1e-6).sum()
    return (
        f"{same} of {len(other)} trials give the same number to a millionth; the largest difference is "
        f"{labels.percent(moved.max())} points, since the rounding of a sum is enough for a fold to keep another "
        "checkpoint. These are few trials, so we leave a margin: a trial counts as reproduced on another processor if "
        f"its validation MAP@R lies within {labels.percent(TOLERANCE, digits=1)} points. A test holds the trials above "
        "to that."
    )
