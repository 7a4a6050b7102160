"""The benchmark for other tools: HPO-B's JSON, Parquet files with a data card, and their description for Croissant.

HPO-B: Pineda Arango et al. (2021), arXiv 2106.06257; Croissant: Akhtar et al. (2024), arXiv 2403.19546.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np
import pandas as pd

from dmlrc import bench, paths, records
from dmlrc.errors import DmlrcError
from dmlrc.methods import Int
from dmlrc.records import provenance

TEXT, NUMBER, WHOLE, YES = "sc:Text", "sc:Float", "sc:Integer", "sc:Boolean"
_PROBLEM = {"study": (TEXT, "the study"), "method": (TEXT, "the method, a loss with its batches")}
_OF_TRIAL = {
    **_PROBLEM,
    "repetition": (WHOLE, "the search, from 0, each with a seed of its own"),
    "trial": (WHOLE, "the trial of the search, from 0"),
}
TABLES: dict[str, dict[str, tuple[str, str]]] = {
    "spaces": {
        **_PROBLEM,
        "name": (TEXT, "a hyperparameter"),
        "low": (NUMBER, "the least value searched"),
        "high": (NUMBER, "the greatest value searched"),
        "log": (YES, "whether it is searched in logarithms"),
        "whole": (YES, "whether it is a whole number"),
    },
    "trials": {
        **_OF_TRIAL,
        "params": (TEXT, "the hyperparameters, as JSON"),
        "value": (NUMBER, "validation MAP@R, a fraction, the mean over the folds: what the search maximises"),
        "steps": (WHOLE, "training steps of all folds"),
    },
    "curves": {
        **_OF_TRIAL,
        "step": (WHOLE, "training steps of a fold"),
        "value": (NUMBER, "the best validation MAP@R up to there, a fraction, the mean over the folds"),
        "cost": (WHOLE, "training steps of all folds up to there"),
    },
    "test_scores": {
        **_OF_TRIAL,
        "validation": (NUMBER, "validation MAP@R of the best trial of the search, a fraction"),
        "rerun": (WHOLE, "a training with its hyperparameters from another seed"),
        "map_at_r": (NUMBER, "MAP@R on unseen classes, a fraction, the mean over the models of the folds"),
        "r_precision": (NUMBER, "R-precision, likewise"),
        "precision_at_1": (NUMBER, "precision at 1, likewise"),
    },
}
"""Of each file its columns: what they hold, for Croissant, and in words."""
_OF_CROISSANT = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet", "format"),
    *("includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
"""Words of its vocabulary, as the context of its files names them."""
STARTS, SEEDS = 5, 5
"""Trials that a search of HPO-B begins with, and how often it begins."""
Problems = Sequence[tuple[str, str]]


def export_bench(folder: Path) -> Path:
    """Write the benchmark of `dmlrc.bench.studies` into a new folder.

    Raises UsageError for a folder that is not empty, DmlrcError where it cannot be written, or no search is published.
    """
    paths.check_new(folder)
    problems = [(study, method) for study in bench.studies() for method in bench.methods(study)]
    if not problems:
        raise DmlrcError(f"no search is published in {paths.home()}: go into a clone of the project, which has some")
    tables = _tables(problems)
    with paths.new_target(folder) as new:
        (new / "hpo-b").mkdir(parents=True)
        for name, content in _hpo_b(problems).items():
            (new / "hpo-b" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        for name, table in tables.items():
            table.to_parquet(new / f"{name}.parquet", index=False)
        (new / "README.md").write_text(_card(tables, problems), encoding="utf-8")
        (new / "croissant.json").write_text(json.dumps(_croissant(new), indent=1), encoding="utf-8")
    return folder


def _tables(problems: Problems) -> dict[str, pd.DataFrame]:
    """The content of each Parquet file, by its name."""
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    for study, method in problems:
        tried = bench.trials(study, method)
        tables = {
            "spaces": pd.DataFrame(_ranges(bench.search_space(study, method))),
            "trials": tried.assign(params=tried["params"].map(json.dumps)),
            "curves": bench.curves(study, method),
            "test_scores": bench.test_scores(study, method),
        }
        for name, table in tables.items():
            parts[name].append(table.assign(study=study, method=method)[list(TABLES[name])])
    return {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}


def _ranges(space: bench.SearchSpace) -> Iterator[dict]:
    for name, of in space.items():
        whole = isinstance(of, Int)
        yield {"name": name, "low": float(of.low), "high": float(of.high), "log": of.log, "whole": whole}


def _hpo_b(problems: Problems) -> dict[str, dict]:
    """The files of HPO-B by their names: search space -> data set -> X and y; where searches begin; the ranges."""
    spaces: dict[str, bench.SearchSpace] = {}
    tables, starts, descriptors = {}, {}, {}
    for study, method in problems:
        space, tried = bench.search_space(study, method), bench.trials(study, method)
        name, number = method, 2
        while spaces.setdefault(name, space) != space:
            name, number = f"{method}-{number}", number + 1
        points = bench.unit_cube(space, tried["params"]).tolist()
        tables.setdefault(name, {})[study] = {"X": points, "y": tried["value"].to_numpy()[:, None].tolist()}
        rng = np.random.default_rng(0)
        chosen = [rng.choice(len(tried), min(STARTS, len(tried)), replace=False).tolist() for _ in range(SEEDS)]
        starts.setdefault(name, {})[study] = {f"test{seed}": indices for seed, indices in enumerate(chosen)}
        descriptors[name] = _descriptor(space)
    return {"meta-test-dataset": tables, "bo-initializations": starts, "meta-dataset-descriptors": descriptors}


def _descriptor(space: bench.SearchSpace) -> dict:
    variables, logs = {}, [dimension["name"] for dimension in _ranges(space) if dimension["log"]]
    for dimension in _ranges(space):
        low, high = dimension["low"], dimension["high"]
        least, most = np.log([low, high]).tolist() if dimension["log"] else (low, high)
        variables[dimension["name"]] = {"min": least, "max": most, "min_before_tf": low, "max_before_tf": high}
    return {"variables": variables, "variables_to_apply_log": logs, "variables_order": list(space)}


def _card(tables: Mapping[str, pd.DataFrame], problems: Problems) -> str:
    """The data card: what this is, its licence, how it was made, and what every column holds."""
    studies = {study for study, _ in problems}
    recorded = sum(len(records.load(study).trials) for study in studies)
    length = tables["trials"].groupby(["study", "method", "repetition"]).size()
    facts = {
        "trials": f"{len(tables['trials']):,}",
        "searches": len(length),
        "studies": len(studies),
        "least": length.min(),
        "most": length.max(),
        "lost": recorded - len(tables["trials"]),
        "version": version("dmlrc"),
        "commit": provenance.commit(),
    }
    lines = [Template((files("dmlrc.bench") / "card.md").read_text(encoding="utf-8")).substitute(facts)]
    for name, columns in TABLES.items():
        lines += [f"\n### `{name}.parquet`: {len(tables[name]):,} rows\n", "| column | content |", "|---|---|"]
        lines += [f"| `{column}` | {words} |" for column, (_, words) in columns.items()]
    return "\n".join(lines) + "\n"


def _croissant(folder: Path) -> dict:
    """The description of the Parquet files in a folder."""
    context = {"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/"}
    context |= {"cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/"}
    context |= {"rai": "http://mlcommons.org/croissant/RAI/", "conformsTo": "dct:conformsTo"}
    context |= {word: f"cr:{word}" for word in _OF_CROISSANT} | {"dataType": {"@id": "cr:dataType", "@type": "@vocab"}}
    context |= {word: {"@id": f"cr:{word}", "@type": "@json"} for word in ("data", "examples")}
    return {
        "@context": context,
        "@type": "sc:Dataset",
        "name": "DML-Bench",
        "description": "Recorded searches for hyperparameters of deep metric learning: trials, curves, test scores.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": "https://spdx.org/licenses/MIT.html",
        "creator": {"@type": "sc:Organization", "name": "The dmlrc authors"},
        "citeAs": f"The dmlrc authors. DML-Bench: recorded searches of deep metric learning. {provenance.commit()}",
        "version": version("dmlrc"),
        "datePublished": provenance.now()[:10],
        "distribution": [_file(folder / f"{name}.parquet") for name in TABLES],
        "recordSet": [_record_set(name, columns) for name, columns in TABLES.items()],
    }


def _file(path: Path) -> dict:
    names = {"@id": path.name, "name": path.name, "contentUrl": path.name}
    return {
        "@type": "cr:FileObject",
        **names,
        "encodingFormat": "application/x-parquet",
        "sha256": records.sha256(path),
    }


def _record_set(name: str, columns: Mapping[str, tuple[str, str]]) -> dict:
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "description": words,
            "dataType": kind,
            "source": {"fileObject": {"@id": f"{name}.parquet"}, "extract": {"column": column}},
        }
        for column, (kind, words) in columns.items()
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}
