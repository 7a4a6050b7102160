"""Records of an experiment with scores that a test chooses; nothing of it reaches the book."""

from dataclasses import asdict, replace

from fake_records import unit
from made_records import run_chapter

from dmlrc import records, studies
from dmlrc.claims import judging

LOSSES = (3.0, 2.0, 1.0)


def made(name, score, reruns=3, diverged=(), missing=(), data=None):
    """StudyRecords of a study of the registry; the untrained trunk has 0.2 of everything.

    score: (method, setting, metric, rerun) -> a fraction, or None for no number. diverged: pairs of method and rerun.
    missing: methods without anything. data: its facts, classes among them.
    """
    study = studies.STUDIES[name]
    meta = study.configuration() | {
        "budget": asdict(replace(study.budget, reruns=reruns)),
        "data": {"name": study.dataset, "images": 1200, "classes": 180, "shape": [1, 28, 28]} | (data or {}),
        "environment": {},
        "settings": {},
        "changes": {method.name: dict(method.changes) for method in study.methods if method.changes},
        "commit": "0000000000",
        "created": "2025-01-01T00:00:00+00:00",
    }
    methods = [method for method in study.methods if method.name not in missing]
    units = [
        unit("pretrained", "pretrained", 0, [], scores={"separated": dict.fromkeys(study.protocol.test_metrics, 0.2)})
    ]
    units += [_unit(study, method, rerun, score, diverged) for method in methods for rerun in range(reruns)]
    return records.from_units(units, meta)


def _unit(study, method, rerun, score, diverged):
    failed = (method.name, rerun) in diverged
    run = {
        "fold": 0,
        "seed": rerun,
        "state": "diverged" if failed else "complete",
        "stopped": "diverged" if failed else "limit",
        "best_step": 30,
        "steps": 30,
        "seconds": 1.0,
        "val": {"map_at_r": 0.1, "precision_at_1": 0.2},
        "curve": [
            {"step": 10 * (place + 1), "loss": loss + rerun, "precision_at_1": 0.1 * place}
            for place, loss in enumerate(LOSSES)
        ],
    }
    protocol = study.protocol_of(method)
    names = ["separated", *["separated_binary"] * protocol.binary, *["concatenated"] * (protocol.members > 1)]
    scores = {
        setting: {metric: score(method.name, setting, metric, rerun) for metric in protocol.test_metrics}
        for setting in names
    }
    if protocol.binary:
        scores["separated_binary"].pop("nmi", None)  # bits are not clustered
    return unit(method.name, "rerun", rerun, [run], scores=None if failed else scores, failed=failed)


def run_notebook(name, main, paper, load, folder, monkeypatch):
    """`run_chapter` around one main study.

    paper: whose claims are judged; those of the others take seconds, since some train.
    """
    monkeypatch.setattr(judging, "CLAIMS", tuple(each for each in judging.CLAIMS if each.paper == paper))
    return run_chapter(name, main, load, folder, monkeypatch)
