"""Needs of a study that this machine lacks: answered without importing torch."""

from dmlrc import data, models
from dmlrc.models.devices import has_gpu
from dmlrc.protocol import Study


def missing(study: Study) -> tuple[str, ...]:
    """List what a study lacks here: of "data", "weights" and "GPU"."""
    protocol, lacks = study.protocol, []
    if data.state(study.dataset) == "missing":
        lacks.append("data")
    if not models.has_weights(protocol.trunk, protocol.weights):
        lacks.append("weights")
    if protocol.trunk != "conv4" and not protocol.computes_once and not has_gpu():
        lacks.append("GPU")
    return tuple(lacks)
