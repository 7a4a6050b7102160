"""Building the loss of a method: its name, function, class or module, with the hyperparameters of one run."""

import copy
import inspect
from collections.abc import Callable, Mapping

from torch import Tensor, nn

from dmlrc import losses
from dmlrc.errors import UsageError
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR, Method


class FunctionLoss(nn.Module):
    """A plain function `f(embeddings, labels, **hyperparameters)` as a loss."""

    def __init__(self, function: Callable[..., Tensor], params: Mapping[str, float]):
        super().__init__()
        self.function, self.params = function, dict(params)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.function(embeddings, labels, **self.params)


def build_loss(method: Method, params: Mapping[str, float], num_classes: int, embedding_dim: int) -> nn.Module:
    """The loss of one run: the method's fixed settings and these hyperparameters, for these classes.

    A class is constructed with those of num_classes, embedding_dim and embedding_size (the name in
    pytorch-metric-learning) that its constructor knows. A ready module is copied, so that runs share no weights.
    What is not a module afterwards is wrapped in one.
    """
    params = {**method.settings, **params}
    for rate in (LEARNING_RATE, LOSS_WEIGHTS_LR):
        params.pop(rate, None)
    loss = method.loss
    if isinstance(loss, str):
        return losses.create(loss, num_classes=num_classes, embedding_dim=embedding_dim, **params)
    if isinstance(loss, nn.Module):
        if params:
            raise UsageError(
                f"method {method.name!r} has hyperparameters ({', '.join(params)}) but its loss is a ready module: "
                "give the class instead, so that each trial can construct it"
            )
        return copy.deepcopy(loss)
    if inspect.isclass(loss):
        sizes = {"num_classes": num_classes, "embedding_dim": embedding_dim, "embedding_size": embedding_dim}
        known = inspect.signature(loss).parameters
        made = loss(**{name: size for name, size in sizes.items() if name in known}, **params)
        return made if isinstance(made, nn.Module) else FunctionLoss(made, {})
    if callable(loss):
        _check_function(method.name, loss, params)
        return FunctionLoss(loss, params)
    raise UsageError(f"the loss of method {method.name!r} must be a name, a function, a class or a module")


def normalized(method: Method) -> bool:
    """Whether the embeddings of a method are L2-normalised, in training and in evaluation; unless it says so, yes."""
    loss = (
        losses.REGISTRY[method.loss] if isinstance(method.loss, str) and method.loss in losses.REGISTRY else method.loss
    )
    return getattr(loss, "normalized", True)


def _check_function(name: str, function: Callable[..., Tensor], params: Mapping[str, float]) -> None:
    try:
        inspect.signature(function).bind(None, None, **params)
    except TypeError as error:
        raise UsageError(f"the loss function of method {name!r} cannot be called: {error}") from None
