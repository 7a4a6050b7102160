"""Hours that the papers' own studies would take on a GPU: calculated, since none has been run."""

from dataclasses import replace

from dmlrc.methods import Method
from dmlrc.protocol import Protocol

_TRAINING_IMAGES = {"cub200": 5_864, "cars196": 8_054, "sop": 59_551, "inshop": 25_882}
_MULTIPLY_ADDS = {  # of one image at the papers' sizes, in 1e9, forward
    "resnet18": 1.8,
    "resnet50": 4.1,
    "bn_inception": 2.0,
    "googlenet": 1.5,
    "inception_v3": 5.7,
}
_FLOPS = 8e12  # what a V100 reaches in float32: 8e12 / (6 x 4.1e9) is 325 images a second with ResNet50


def calculated(dataset: str, protocol: Protocol, methods: tuple[Method, ...], reruns: int) -> str:
    """Calculate how long the training steps of a study take on a V100: a step is three forward passes."""
    protocols = [replace(protocol, **method.changes) for method in methods]
    passes = sum(variant.max_epochs * variant.members * _MULTIPLY_ADDS[variant.trunk] for variant in protocols)
    hours = _TRAINING_IMAGES[dataset] * reruns * passes * 6e9 / _FLOPS / 3600
    about = float(f"{hours:.1g}" if hours < 10 else f"{hours:.2g}")
    return f"about {about:g} GPU hour{'s' * (about != 1)}, calculated for a V100"
