"""Do other kernels, and other machines, give the same numbers? Units of a study, run again.

`python -m benchmarks.processors --write FILE.csv [STUDY:METHOD ...]`. The first trial of each method is run in fresh
processes, one of which is told to use no more than AVX2, as many processors do: sums are then added in another order.
Same code, same packages, same seed. It says something on a processor with AVX-512 only.

`python -m benchmarks.processors --committed [--write FILE.csv] [STUDY:METHOD ...]`: the first trial of each repetition
whose record was made on another processor, run again here. Code and packages are those of today.
"""

import argparse
import json
import operator
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.scaling import written
from benchmarks.timing import circumstances

Unit = tuple[str, str]  # of a study the first trial of a method
UNITS = tuple(("grocery-quick", method) for method in ("contrastive", "normalized_softmax", "fast_ap"))
COMMITTED = tuple(
    ("cars196crops-frozen", method)
    for method in ("contrastive", "triplet", "normalized_softmax", "fast_ap", "soft_triple", "multi_similarity")
)
KERNELS = {
    "native": {},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}
"""What PyTorch and MKL are allowed to use: environment variables of each."""


def first_trial(name: str, method: str, repetition: int = 0) -> dict:
    """Validation MAP@R of the first trial of a study's method, and the step of each fold's best checkpoint."""
    from dmlrc import plan, studies
    from dmlrc.unit import run_unit

    study = studies.get(name)
    unit, *_ = plan.next_units(study, plan.Chain(study.method(method), repetition))
    record = run_unit(unit)
    return {"value": record["value"], "best_steps": [run["best_step"] for run in record["runs"]]}


def measured(unit: Unit, variables: dict[str, str]) -> dict:
    """`first_trial` in a process of its own with these environment variables."""
    code = f"import json; from benchmarks.processors import first_trial; print(json.dumps(first_trial(*{unit!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rows(units: Sequence[Unit]) -> Iterator[dict]:
    """A row a unit and set of kernels: map_at_r, best_steps, and how far it is from that of the native kernels."""
    facts = circumstances(torch.device("cpu"))
    for study, method in units:
        native = None
        for kernels, variables in KERNELS.items():
            told = measured((study, method), variables)
            native = native or told
            yield {
                "study": study,
                "method": method,
                "kernels": kernels,
                "map_at_r": repr(told["value"]),
                "difference": repr(told["value"] - native["value"]),
                "best_steps": " ".join(map(str, told["best_steps"])),
                **facts,
            }


def again(units: Sequence[Unit]) -> Iterator[dict]:
    """A row for the first trial of each repetition of a study's method that was recorded on another processor.

    Columns: study, method, repetition, recorded, recorded_on, again, again_on, difference (again less recorded),
    same_checkpoints (in how many folds the best checkpoint is the same), folds, and those of `circumstances`. Raises
    SystemExit where all of them were recorded on this processor.
    """
    from dmlrc import records

    facts = circumstances(torch.device("cpu"))
    here = facts.pop("machine")
    for study, method in units:
        found = records.load(study)
        trials = found.trials[(found.trials["method"] == method) & (found.trials["trial"] == 0)]
        elsewhere = trials[trials["processor"] != here]
        if elsewhere.empty:
            raise SystemExit(
                f"all first trials of {study}:{method} were recorded on {here} too: run this on another machine"
            )
        runs = found.runs[
            (found.runs["method"] == method) & (found.runs["kind"] == "trial") & (found.runs["number"] == 0)
        ]
        for trial in elsewhere.itertuples():
            steps = runs[runs["repetition"] == trial.repetition].sort_values("fold")["best_step"]
            told = first_trial(study, method, trial.repetition)
            yield {
                "study": study,
                "method": method,
                "repetition": trial.repetition,
                "recorded": repr(float(trial.value)),
                "recorded_on": trial.processor,
                "again": repr(float(told["value"])),
                "again_on": here,
                "difference": repr(float(told["value"] - trial.value)),
                "same_checkpoints": sum(map(operator.eq, steps, told["best_steps"])),
                "folds": len(steps),
                **facts,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    named = {"type": lambda given: tuple(given.split(":")), "help": "STUDY:METHOD, whose first trial is run"}
    parser.add_argument("units", nargs="*", **named)
    parser.add_argument("--write", type=Path, help="a CSV file for the rows")
    parser.add_argument("--committed", action="store_true", help="compare with records of another processor")
    arguments = parser.parse_args()
    if arguments.committed:
        for row in written(again(arguments.units or COMMITTED), arguments.write):
            _say(row, row["recorded_on"], row["recorded"])
        return
    for row in written(rows(arguments.units or UNITS), arguments.write):
        _say(row, row["kernels"], row["map_at_r"])


def _say(row: dict, on: str, value: str) -> None:
    print(f"{row['study']:24} {row['method']:20} {on:24} {float(value):.6f} {float(row['difference']):+.1e}")


if __name__ == "__main__":
    main()
