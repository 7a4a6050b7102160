"""A study that scores with metrics of the reader's own too."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from dmlrc import metrics
from dmlrc.errors import UsageError
from dmlrc.evaluation import own_score
from dmlrc.protocol import OwnMetric, Study, own_metric
from dmlrc.records import fingerprint
from dmlrc.records.schema import FRACTIONS


def with_metrics(study: Study, name: str, *own: Callable[..., float]) -> Study:
    """The study of this name, which is as another one but scores the test classes by these metrics too.

    A metric is a function, or another thing that can be called, of embeddings (N, D) and labels (N,), and of
    query=(embeddings, labels) where the data set has queries of its own; it returns a number. Scores carry the name of
    the function or of the thing's class. Its code is a part of the study: after an edit that needs another name.

    Raises UsageError for one whose name cannot be that of a metric, that fails on random embeddings, or gives no
    number.
    """
    known, own_metrics = {*metrics.names(), *(own_metric(name) or name for name in study.protocol.test_metrics)}, []
    for metric in own:
        called = getattr(metric, "__name__", type(metric).__name__) if callable(metric) else repr(metric)
        if not callable(metric) or not called.isidentifier():
            raise UsageError(f"a metric is a function that is defined with a name, not {called}: write `def my_metric`")
        if called in known or called.startswith(FRACTIONS):
            raise UsageError(f"a metric of one's own cannot be called {called!r}, as another one: rename it")
        known.add(called)
        own_metrics.append(OwnMetric(f"{called}@{fingerprint.code(metric)}", metric))
        points = torch.nn.functional.normalize(torch.randn(12, 4, generator=torch.Generator().manual_seed(0)))
        own_score(own_metrics[-1], points, np.arange(12) % 3)
    protocol = replace(study.protocol, test_metrics=(*study.protocol.test_metrics, *own_metrics))
    return replace(study, name=name, protocol=protocol)
