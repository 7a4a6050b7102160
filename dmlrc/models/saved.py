"""A trained model as one file: the weights of all folds, and how to feed them; read back it needs no study.

The file is of safetensors, which holds tensors and text and runs no code. Of a network of which a part trained, that
part alone is in it: the rest are the weights with which training began, and these must be here.
"""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor, nn

from dmlrc import paths
from dmlrc.data import augment
from dmlrc.data.cache import decode_all
from dmlrc.data.decoding import Form, decode, stored
from dmlrc.data.listing import is_image
from dmlrc.data.registry import SOURCES
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.models import partial
from dmlrc.models.embedder import EmbeddingModel, FeatureTrunk, embed, freeze_batch_norm, l2_normalize
from dmlrc.models.files import weights_digest
from dmlrc.models.trunks import fixed_trunk

BATCH = 32
_KEY, _SEAL = "dmlrc", "sha256"
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Configuration:
    """Configuration of a saved model: what it is made of, and was trained for.

    trunk, weights, frozen_trunk, train_from, freeze_batch_norm, embedding_dim, layer_norm, image_size, crop_size: as in
    `dmlrc.protocol.Protocol`. normalize: whether its loss was on embeddings of length 1. side, channels, square: how an
    image is stored before it is cropped, see `dmlrc.data.decoding.Form`. models: how many are joined.
    study, dataset, method, params, commit: where it comes from. digests: of the weights of what did not train, see
    `dmlrc.models.weights_digest`; none in the oldest files.
    """

    trunk: str
    weights: str | None
    frozen_trunk: bool
    train_from: str | None
    freeze_batch_norm: bool
    embedding_dim: int | None
    layer_norm: bool
    image_size: int
    crop_size: int
    normalize: bool
    side: int
    channels: int
    square: str
    models: int
    study: str
    dataset: str
    method: str
    params: dict[str, float | str]
    commit: str
    digests: dict[str, str] = field(default_factory=dict)


class RetrievalModel(nn.Module):
    """The joined models of a rerun: images -> embeddings (B, F * D) of length 1; of a single model its own.

    Parameters
    ----------
    configuration : what it was made of
    weights : of each of the F models, what trained

    Raises
    ------
    DmlrcError
        Where the trunk's own weights are others than those on which it was trained.
    """

    def __init__(self, configuration: Configuration, weights: Sequence[Weights]):
        super().__init__()
        self.configuration = given = configuration
        # where all of it trained, nothing stays of the weights with which it began
        kept = given.weights if given.frozen_trunk or given.train_from else None
        trunk = fixed_trunk(given.trunk, kept)  # as `dmlrc.inputs` makes the part that stays as it is
        if given.digests and weights_digest(given.trunk, given.weights) != given.digests:
            raise DmlrcError(
                f"the weights {given.weights!r} of {given.trunk} are others than those on which this model of study "
                f"{given.study!r} was trained: put them back"
            )
        self.stem = nn.Identity()
        if given.frozen_trunk:
            self.stem, trunk = trunk, FeatureTrunk(trunk.out_features)
        elif given.freeze_batch_norm:
            trunk = freeze_batch_norm(trunk)
        if given.train_from:
            self.stem, trunk = partial.split_trunk(trunk, given.train_from)
        self.models = nn.ModuleList(
            EmbeddingModel(copy.deepcopy(trunk), given.embedding_dim, given.normalize, given.layer_norm)
            for _ in weights
        )
        for model, own in zip(self.models, weights, strict=True):
            model.load_state_dict(own)
        self.eval()

    def forward(self, images: "Tensor | Image.Image | Sequence") -> Tensor:
        """Images (B, 1 or 3, H, W), uint8 or float RGB in [0, 1], of any size -> embeddings (B, F * D).

        What is no tensor is embedded by `embed`, without gradients.

        Raises UsageError for what is no image or batch and, on a CPU, for float images above 1.
        """
        given = self.configuration
        if not isinstance(images, Tensor):
            return torch.from_numpy(self.embed(images)).to(next(self.parameters()).device)
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise UsageError(f"a batch is a tensor (B, 1 or 3, H, W), not {tuple(images.shape)}")
        if images.is_floating_point():
            images = images.float()
            if images.device.type == "cpu" and images.numel() and images.max() > 1:
                raise UsageError(f"float images are in [0, 1], not up to {images.max():.3g}: divide them by 255")
        inputs = self.stem(augment.centre_crop(images, given.image_size, given.crop_size))
        if given.train_from:
            inputs = inputs.half().float()  # as the cached maps are, on which the rest was trained
        embeddings = [model(inputs) for model in self.models]
        return l2_normalize(torch.cat(embeddings, dim=1)) if len(embeddings) > 1 else embeddings[0]

    def embed(self, images: "Tensor | Image.Image | Sequence") -> np.ndarray:
        """The embeddings (N, F * D) float32 of many images, in batches.

        images: a batch as in `forward`; one PIL image or path; or a list or a `torch.utils.data.Dataset` of PIL images,
        paths or tensors (C, H, W) of one size, alone or first in a pair with a label.

        Raises UsageError for none, and for what is no image.
        """
        device = next(self.parameters()).device
        if isinstance(images, Image.Image | str | Path):
            images = [images]
        if not (hasattr(images, "__len__") and hasattr(images, "__getitem__")):
            raise UsageError(f"images are a batch, a list or a Dataset with a length, not {type(images).__name__}")
        return embed(self, _Decoded(images, self.form), lambda batch: batch, BATCH, device)

    @property
    def form(self) -> Form:
        """The form in which images are decoded, that of the images it was trained on."""
        given = self.configuration
        ink = given.dataset in SOURCES and SOURCES[given.dataset].form.ink
        return Form(given.side, given.channels, given.square, ink, upright=given.dataset.startswith("folder:"))


@dataclass(frozen=True)
class _Decoded:
    """Images as `embed` takes them: a slice is an array (B, C, H, W)."""

    images: Tensor | Sequence
    form: Form

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, some: slice) -> np.ndarray:
        pixels = [self._pixels(self.images[place]) for place in range(*some.indices(len(self)))]
        if len(sizes := {one.shape for one in pixels}) > 1:
            raise UsageError(f"the images of a batch are of one size, not {sorted(sizes)}: resize the tensors")
        return np.stack(pixels)

    def _pixels(self, image: object) -> np.ndarray:
        image = image[0] if isinstance(image, tuple) else image
        if isinstance(image, str | Path):
            return decode(Path(image), self.form)
        if isinstance(image, Image.Image):
            return stored(image, self.form)
        if isinstance(image, Tensor) and image.ndim == 3:
            return (image.float() if image.is_floating_point() else image).cpu().numpy()
        raise UsageError(f"an image is a PIL image, a path or a tensor (C, H, W), not {type(image).__name__}")


def pack(configuration: Configuration, weights: Sequence[Weights]) -> bytes:
    """The content of a file of this model."""
    tensors = {
        f"{number}.{name}": tensor.contiguous() for number, own in enumerate(weights) for name, tensor in own.items()
    }
    text = json.dumps(asdict(configuration))
    return safetensors.torch.save(tensors, {_KEY: text, _SEAL: _checksum(text, tensors)})


def _checksum(configuration: str, tensors: Weights) -> str:
    """The checksum of all that a model's file holds."""
    digest = hashlib.sha256(configuration.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def load(path: str | Path) -> RetrievalModel:
    """Read the model that `dmlrc study run --save-models` wrote, ready to embed.

    Parameters
    ----------
    path : of the file

    Returns
    -------
    RetrievalModel, in evaluation mode on the CPU: called with images (B, 1 or 3, H, W), PIL images or a Dataset it
    gives embeddings (B, F * D)

    Raises
    ------
    MissingDataError
        Where the file or the trunk's own weights are missing.
    DmlrcError
        For another kind of file, for other weights of the trunk, and for a trunk that other versions of its library
        make.
    """
    if not Path(path).is_file():
        raise MissingDataError(f"there is no model {path}: `dmlrc study run NAME --save-models` writes them")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata, tensors = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if metadata.get(_SEAL, seal := _checksum(metadata[_KEY], tensors)) != seal:  # the oldest files have none
            raise DmlrcError(
                f"{path} is not what was written there, its checksum says: remove it, and `dmlrc study run NAME "
                "--save-models` makes it again"
            )
        configuration = Configuration(**json.loads(metadata[_KEY]))
        weights = [{} for _ in range(configuration.models)]
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            weights[int(number)][name] = tensor
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DmlrcError(
            f"{path} is no model of dmlrc ({type(error).__name__}: {error}): name a file that `dmlrc study run "
            "--save-models` wrote"
        ) from None
    try:
        return RetrievalModel(configuration, weights)
    except RuntimeError as error:  # of `load_state_dict`
        raise DmlrcError(
            f"{path} does not fit {configuration.trunk} as it is made here: take the torchvision and timm that "
            f"it was made with, or remove it: `dmlrc study run {configuration.study} --save-models` makes it again"
        ) from error


def embed_folder(model: Path, folder: Path, output: Path) -> tuple[int, int, int]:
    """Write "embeddings" (N, D) and "paths" (N,) of all images in a folder; return N, D and how many models it joins.

    Raises MissingDataError for a folder without images, UsageError for an output that is there, DmlrcError that names
    all images that cannot be read, or where the file cannot be written.
    """
    images = sorted(path for path in folder.rglob("*") if is_image(path))
    if not images:
        raise MissingDataError(f"there are no images in {folder}: name a folder of photographs")
    paths.check_new(output)
    loaded = load(model)
    chunks = decode_all(folder.name, images, loaded.form)
    embeddings = np.concatenate([loaded.embed(torch.from_numpy(chunk)) for chunk in chunks])
    with paths.new_target(output) as new, new.open("wb") as stream:  # as it is named: NumPy would add .npz
        np.savez(stream, embeddings=embeddings, paths=np.array([str(path) for path in images]))
    return *embeddings.shape, loaded.configuration.models
