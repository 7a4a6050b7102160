"""Augmentation of whole batches on their device: first a plan is drawn from a generator, then it is applied.

Images are (B, C, H, W), uint8 or float in [0, 1]; results are float32 in [0, 1]. Every function that draws takes a
`torch.Generator` (on any device; numbers are drawn on the generator's). Plans (`crop_boxes`, `affine_matrices`) and
their application (`resized_crop`, `warp`) are separate, so that one can be inspected or repeated without the other.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dmlrc.errors import UsageError

_ATTEMPTS = 10  # torchvision's RandomResizedCrop gives up after as many


def random_resized_crop(
    images: Tensor, size: int, scale: tuple[float, float], ratio: tuple[float, float], generator: torch.Generator
) -> Tensor:
    """Resize a random part of each image: (B, C, H, W) -> (B, C, size, size).

    The training crop of Musgrave et al., Roth et al. and Oi et al.; that of the other two papers is `random_place`.

    scale: bounds of the part's share of the image AREA. Musgrave et al. crop "between 40 and 256 pixels" of 256; their
        setting is scale=(0.16, 1), which is a side of 0.4 x 256 = 102 to 256 pixels, not of 40. Roth et al. take
        torchvision's default (0.08, 1), Oi et al. (0.125, 1).
    ratio: bounds of width / height, 3/4 to 4/3 in these papers.

    The distribution is that of torchvision's `RandomResizedCrop`. Interpolation is bilinear without anti-aliasing,
    which torchvision has since 0.17: they differ where the part is larger than `size` (256 to 227: at most 1.13).
    """
    boxes = crop_boxes(len(images), *images.shape[-2:], scale, ratio, generator)
    return resized_crop(images, boxes, size)


def random_place(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Cut a (size, size) part out of each image at a random place, not resized: (B, C, H, W) -> (B, C, size, size).

    The training crop of Fehervari et al. and of Zhai and Wu: 224 of 256 pixels. Raises UsageError if it does not fit.
    """
    height, width = images.shape[-2:]
    if size > min(height, width):
        raise UsageError(f"a crop of {size} pixels does not fit an image of {height} x {width}")
    room = torch.tensor([height - size, width - size], device=generator.device) + 1
    draws = torch.rand((len(images), 2), generator=generator, device=generator.device)
    corners = (draws * room).long().minimum(room - 1)  # rounding may reach `room`
    return resized_crop(images, torch.cat([corners, torch.full_like(corners, size)], dim=1), size)


def crop_boxes(
    batch: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Draw random parts of images: (B, 4) int64 rows of top, left, height, width, on the generator's device.

    Area scale * height * width with scale uniform, width / height log-uniform, both sides rounded; drawn again, up to
    10 times, where the part does not fit, then the largest central part within the bounds of ratio. The place is
    uniform over all whole pixels.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)

    area = height * width * uniform(*scale, _ATTEMPTS, batch)
    aspect = uniform(math.log(ratio[0]), math.log(ratio[1]), _ATTEMPTS, batch).exp()
    sides = torch.stack([(area / aspect).sqrt(), (area * aspect).sqrt()]).round().long()  # (2, attempts, B)
    limits = torch.tensor([height, width], device=generator.device)
    fits = ((sides > 0) & (sides <= limits[:, None, None])).all(dim=0)  # (attempts, B)
    first = fits.int().argmax(dim=0)  # the first attempt that fits, 0 where none does
    chosen = sides[:, first, torch.arange(batch, device=generator.device)]  # (2, B)
    whole = torch.tensor(_central_part(height, width, ratio), device=generator.device)
    fallback = ~fits.any(dim=0)
    sides = torch.where(fallback, whole[:, None], chosen)  # (2, B)
    room = limits[:, None] - sides
    corner = (uniform(0, 1, 2, batch) * (room + 1)).long().minimum(room)  # rounding may reach room + 1
    return torch.cat([torch.where(fallback, room // 2, corner), sides]).T


def _central_part(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int]:
    """The largest (height, width) inside an image whose width / height is within the bounds."""
    if width < ratio[0] * height:
        return round(width / ratio[0]), width
    if width > ratio[1] * height:
        return height, round(height * ratio[1])
    return height, width


def resized_crop(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Resize the box of each image to (size, size), bilinear: (B, C, H, W), (B, 4) -> (B, C, size, size).

    boxes: rows of top, left, height, width in pixels. Nothing outside its box enters an image.
    """
    images = _as_float(images)
    height, width = images.shape[-2:]
    top, left, tall, wide = boxes.to(images.device, images.dtype).T.unsqueeze(-1)  # (B, 1) each
    steps = (torch.arange(size, device=images.device) + 0.5) / size  # centres of the output pixels, in 0..1
    x = _within(left, wide, steps) * 2 / width - 1  # (B, size), in -1..1 from edge to edge as grid_sample wants
    y = _within(top, tall, steps) * 2 / height - 1
    grid = torch.stack([x[:, None, :].expand(-1, size, -1), y[:, :, None].expand(-1, -1, size)], dim=-1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _within(start: Tensor, length: Tensor, steps: Tensor) -> Tensor:
    """Source coordinates start + length * steps, kept between the centres of the box's first and last pixel."""
    return (start + length * steps).clamp(start + 0.5, start + length - 0.5)


def random_flip(images: Tensor, generator: torch.Generator, p: float = 0.5) -> Tensor:
    """Mirror each image left to right with probability p: (B, C, H, W) -> the same.

    All five papers mirror; the default is the probability of those that give it.
    """
    images = _as_float(images)
    mirrored = torch.rand(len(images), generator=generator, device=generator.device) < p
    return torch.where(mirrored.to(images.device)[:, None, None, None], images.flip(-1), images)


def random_affine(
    images: Tensor, generator: torch.Generator, degrees: float = 10.0, zoom: float = 0.1, shift: float = 0.07
) -> Tensor:
    """Small affine changes for characters, which must not be mirrored: (B, C, S, S) -> the same, dark outside.

    Rotation within +-degrees, scale within 1 +- zoom, shift within +-shift of the side, all uniform. The defaults are
    ours: what a pen or another typeface does to a character (a shift of 2 pixels of 28).
    """
    return warp(images, affine_matrices(len(images), degrees, zoom, shift, generator))


def affine_matrices(batch: int, degrees: float, zoom: float, shift: float, generator: torch.Generator) -> Tensor:
    """Draw (B, 2, 3) random maps from output to input coordinates, both in -1..1, for square images."""
    draws = 2 * torch.rand((4, batch), generator=generator, device=generator.device) - 1  # in -1..1
    angle = math.radians(degrees) * draws[0]
    scale = 1 / (1 + zoom * draws[1])  # the map goes from output to input: a larger letter reads from a smaller part
    cos, sin = scale * angle.cos(), scale * angle.sin()
    x, y = 2 * shift * draws[2:]  # the side is 2 long
    return torch.stack([torch.stack([cos, -sin, x], dim=-1), torch.stack([sin, cos, y], dim=-1)], dim=1)


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Bilinear affine change; what comes from outside the image is 0: (B, C, S, S), (B, 2, 3) -> (B, C, S, S)."""
    images = _as_float(images)
    grid = F.affine_grid(matrices.to(images.device, images.dtype), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def centre_crop(images: Tensor, resize: int, crop: int) -> Tensor:
    """The evaluation view: shorter side resized to `resize`, then the centre: (B, C, H, W) -> (B, C, crop, crop).

    Bilinear, anti-aliased where it shrinks, as torchvision's `Resize` and `CenterCrop`. Musgrave et al.: 256 and 227,
    Roth et al.: 256 and 224. Raises UsageError if the crop is larger than the resized image.
    """
    if crop > resize:
        raise UsageError(f"a centre crop of {crop} pixels does not fit an image resized to {resize}")
    images = _as_float(images)
    height, width = images.shape[-2:]
    short = min(height, width)
    if short != resize:
        height, width = resize * height // short, resize * width // short
        images = F.interpolate(images, (height, width), mode="bilinear", align_corners=False, antialias=True)
    top, left = round((height - crop) / 2), round((width - crop) / 2)
    return images[..., top : top + crop, left : left + crop]


def _as_float(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images
