"""Augmentation against torchvision's transforms, and against maps that can be done by hand."""

import math

import pytest
import torch
from scipy import stats
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as TF

from dmlrc.data import augment
from dmlrc.errors import UsageError

RATIO = (3 / 4, 4 / 3)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def noise(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def torchvision_boxes(count, height, width, scale, ratio):
    torch.manual_seed(2)
    image = torch.empty(1, height, width)
    return torch.tensor([RandomResizedCrop.get_params(image, list(scale), list(ratio)) for _ in range(count)])


def different(ours, theirs):
    """Whether the two-sample Kolmogorov-Smirnov test tells any of top, left, height, width or area apart."""
    ours, theirs = (torch.cat([b, b[:, 2:3] * b[:, 3:4]], dim=1).double().numpy() for b in (ours, theirs))
    return any(stats.ks_2samp(a, b).pvalue < 1e-3 for a, b in zip(ours.T, theirs.T, strict=True))


@pytest.mark.parametrize(
    ("height", "width", "scale"), [(256, 256, (0.16, 1)), (60, 100, (0.08, 1)), (100, 60, (0.5, 1))]
)
def test_crop_boxes_are_distributed_as_torchvisions(generator, height, width, scale):
    ours = augment.crop_boxes(2000, height, width, scale, RATIO, generator)
    assert not different(ours, torchvision_boxes(2000, height, width, scale, RATIO))


def test_aspects_are_log_uniform(generator):
    ours = augment.crop_boxes(2000, 100, 100, (0.01, 0.1), (0.1, 4), generator)
    assert not different(ours, torchvision_boxes(2000, 100, 100, (0.01, 0.1), (0.1, 4)))


def test_a_scale_of_sides_instead_of_areas_is_told_apart(generator):
    sides = augment.crop_boxes(2000, 256, 256, (0.4**2, 1), RATIO, generator)
    wrong = augment.crop_boxes(2000, 256, 256, (0.4, 1), RATIO, generator)
    theirs = torchvision_boxes(2000, 256, 256, (0.16, 1), RATIO)
    assert not different(sides, theirs)
    assert different(wrong, theirs)


def test_scale_016_is_a_side_of_102_pixels_not_40(generator):
    boxes = augment.crop_boxes(20000, 256, 256, (0.16, 1), (1, 1), generator)
    assert boxes[:, 2].min() == 102
    assert boxes[:, 2].max() == 256


@pytest.mark.parametrize(("height", "width"), [(10, 100), (100, 10), (7, 7)])
def test_where_no_attempt_fits_the_central_part_is_torchvisions(generator, height, width):
    ours = augment.crop_boxes(50, height, width, (1.5, 2), RATIO, generator)
    theirs = torchvision_boxes(50, height, width, (1.5, 2), RATIO)
    assert torch.equal(ours, theirs)


def test_boxes_lie_inside(generator):
    top, left, tall, wide = augment.crop_boxes(20000, 9, 13, (0.01, 1), RATIO, generator).T
    assert top.min() == 0
    assert left.min() == 0
    assert tall.min() >= 1
    assert wide.min() >= 1
    assert (top + tall).max() == 9
    assert (left + wide).max() == 13


@pytest.mark.parametrize("size", [9, 16, 40])
def test_resized_crop_is_torchvisions_without_antialias(generator, size):
    images = noise(6, 3, 20, 30)
    boxes = augment.crop_boxes(6, 20, 30, (0.1, 1), RATIO, generator)
    ours = augment.resized_crop(images, boxes, size)
    for image, box, crop in zip(images.float() / 255, boxes.tolist(), ours, strict=True):
        theirs = TF.resized_crop(image, *box, [size, size], InterpolationMode.BILINEAR, antialias=False)
        torch.testing.assert_close(crop, theirs, atol=1e-5, rtol=0)


def test_the_whole_image_at_its_own_size_is_unchanged():
    images = noise(2, 3, 12, 12)
    whole = torch.tensor([[0, 0, 12, 12]] * 2)
    torch.testing.assert_close(augment.resized_crop(images, whole, 12), images.float() / 255, atol=1e-6, rtol=0)


def test_results_are_floats_between_0_and_1_and_the_seed_decides_them():
    images = noise(8, 3, 32, 32)

    def views(seed):
        generator = torch.Generator().manual_seed(seed)
        crops = augment.random_resized_crop(images, 24, (0.2, 1), RATIO, generator)
        return crops, augment.random_flip(images, generator), augment.random_affine(images, generator)

    first, again, other = views(3), views(3), views(4)
    for a, b, c in zip(first, again, other, strict=True):
        assert a.dtype == torch.float32
        assert a.min() >= 0
        assert a.max() <= 1
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert first[0].shape == (8, 3, 24, 24)


def test_floats_are_taken_as_they_are(generator):
    images = noise(4, 1, 8, 8)
    box = augment.crop_boxes(4, 8, 8, (0.3, 1), RATIO, generator)
    torch.testing.assert_close(augment.resized_crop(images, box, 5), augment.resized_crop(images.float() / 255, box, 5))


def test_each_image_is_flipped_on_its_own_half_of_the_time(generator):
    images = torch.tensor([0.0, 1.0]).expand(2000, 1, 1, 2)
    flipped = augment.random_flip(images, generator)[:, 0, 0, 0]
    assert set(flipped.tolist()) == {0.0, 1.0}
    assert flipped.mean().item() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2000))  # 4 standard errors
    assert torch.equal(augment.random_flip(images, generator, p=0.0), images)
    assert torch.equal(augment.random_flip(images, generator, p=1.0), images.flip(-1))


def test_warp_by_known_matrices():
    images = torch.zeros(1, 1, 5, 5)
    images[0, 0, 2, 4] = 1  # right of the centre
    identity = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    torch.testing.assert_close(augment.warp(images, identity), images, atol=1e-6, rtol=0)
    shifted = torch.tensor([[[1.0, 0, 2 * 2 / 5], [0, 1, 0]]])  # reads 2 pixels to the right
    assert augment.warp(images, shifted)[0, 0, 2].round().tolist() == [0, 0, 1, 0, 0]
    quarter = torch.tensor([[[0.0, -1, 0], [1, 0, 0]]])  # output (x, y) reads input (-y, x): the point goes to the top
    assert augment.warp(images, quarter)[0, 0, :, 2].round().tolist() == [1, 0, 0, 0, 0]


def test_affine_matrices_stay_within_their_bounds(generator):
    matrices = augment.affine_matrices(5000, 10.0, 0.1, 0.07, generator)
    scale = 1 / matrices[:, :, :2].det().sqrt()
    angle = torch.rad2deg(torch.atan2(matrices[:, 1, 0], matrices[:, 0, 0]))
    for values, bound in (
        (scale - 1, 0.1),
        (angle, 10.0),
        (matrices[:, 0, 2] / 2, 0.07),
        (matrices[:, 1, 2] / 2, 0.07),
    ):
        assert values.abs().max() <= bound * 1.001
        assert values.abs().max() > bound * 0.99
        assert values.mean().abs() < bound * 0.05


def test_no_affine_change_is_the_identity(generator):
    images = noise(3, 1, 28, 28)
    same = augment.random_affine(images, generator, degrees=0, zoom=0, shift=0)
    torch.testing.assert_close(same, images.float() / 255, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("height", "width", "resize", "crop"), [(40, 40, 20, 20), (40, 61, 20, 17), (75, 40, 33, 28), (12, 17, 33, 28)]
)
def test_centre_crop_is_torchvisions(height, width, resize, crop):
    images = noise(2, 3, height, width)
    theirs = TF.center_crop(TF.resize(images.float() / 255, resize, antialias=True), crop)
    torch.testing.assert_close(augment.centre_crop(images, resize, crop), theirs, atol=1e-5, rtol=0)


def test_centre_crop_larger_than_the_image():
    with pytest.raises(UsageError, match="crop of 30 pixels does not fit an image resized to 28"):
        augment.centre_crop(noise(1, 1, 28, 28), 28, 30)


def test_random_place_cuts_whole_pixels_anywhere():
    image = torch.arange(36, dtype=torch.float32).view(1, 1, 6, 6) / 36
    generator = torch.Generator().manual_seed(0)
    parts = augment.random_place(image.expand(500, 1, 6, 6), 4, generator)
    assert parts.shape == (500, 1, 4, 4)
    corners = (parts[:, 0, 0, 0] * 36).round().long()
    for part, corner in zip(parts, corners, strict=True):
        top, left = divmod(int(corner), 6)
        assert torch.allclose(part[0], image[0, 0, top : top + 4, left : left + 4], atol=1e-6)
    places, counts = corners.unique(return_counts=True)
    assert places.tolist() == [6 * top + left for top in range(3) for left in range(3)]
    assert counts.min() > 500 / 9 - 4 * (500 / 9) ** 0.5
    with pytest.raises(UsageError, match="does not fit"):
        augment.random_place(image, 7, generator)
