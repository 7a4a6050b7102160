"""Drawing the small part of SVG that icons are made of: filled paths, circles, ellipses, and copies of them.

Written here, for the same pixels wherever it runs: no library that the project has draws both fill rules. A shape is
brought to polygons, and a point is inside by the number of times that they wind around it. Colours are not read: all
ink is white, on black, and an opacity makes it grey.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from dmlrc.errors import DmlrcError

_SAMPLES = 8  # points of a pixel along each side: 64 a pixel
_CURVE_STEPS = 16  # straight pieces of a Bezier curve
_ARC_STEP = np.pi / 24  # angle of a straight piece of an arc; off the arc by 0.2 % of its radius
_ARGUMENTS = {"m": 2, "l": 2, "h": 1, "v": 1, "c": 6, "s": 4, "q": 4, "t": 2, "a": 7, "z": 0}
_NUMBER = re.compile(r"[\s,]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_FLAG = re.compile(r"[\s,]*([01])")  # of an arc: no space need follow, "0012" may be 0, 0 and 12
_KNOWN = {"id", "d", "cx", "cy", "r", "rx", "ry", "href", "fill", "opacity", "fill-opacity", "fill-rule", "clip-rule"}


@dataclass(frozen=True)
class _Shape:
    """outlines: closed polygons, each complex (P,), x + iy. even_odd: the fill rule, else non-zero."""

    outlines: list[np.ndarray]
    even_odd: bool
    opacity: float


def draw(body: str, view: float, size: int) -> np.ndarray:
    """The elements of an SVG image whose view box is a square from 0 to `view`: (size, size) float64 in 0..1.

    Raises DmlrcError for an element or an attribute that is not drawn here.
    """
    canvas = np.zeros((size * _SAMPLES,) * 2)
    for shape in _shapes(ElementTree.fromstring(f"<svg>{body}</svg>")):
        scaled = [outline * (len(canvas) / view) for outline in shape.outlines]
        inside = _inside(scaled, len(canvas), shape.even_odd)
        canvas[inside] += (1 - canvas[inside]) * shape.opacity
    return canvas.reshape(size, _SAMPLES, size, _SAMPLES).mean(axis=(1, 3))


def _shapes(root: ElementTree.Element) -> Iterator[_Shape]:
    """What is drawn, in that order; definitions only where they are used."""
    named = {each.get("id"): each for each in root.iter() if each.get("id")}
    for element in root:
        if element.tag == "use":
            yield _shape(named[element.get("href").removeprefix("#")], _opacity(element))
        elif element.tag != "defs":
            yield _shape(element, 1.0)


def _opacity(element: ElementTree.Element) -> float:
    return float(element.get("opacity", 1)) * float(element.get("fill-opacity", 1))


def _shape(element: ElementTree.Element, opacity: float) -> _Shape:
    if element.tag not in ("path", "circle", "ellipse") or (set(element.keys()) - _KNOWN):
        raise DmlrcError(f"an SVG element <{element.tag}> with {', '.join(element.keys())} is not drawn here")
    outlines = path(element.get("d")) if element.tag == "path" else [_ellipse(element)]
    return _Shape(outlines, element.get("fill-rule") == "evenodd", opacity * _opacity(element))


def _ellipse(element: ElementTree.Element) -> np.ndarray:
    cx, cy, r = (float(element.get(name, 0)) for name in ("cx", "cy", "r"))
    turn = np.linspace(0, 2 * np.pi, 97)
    return cx + 1j * cy + float(element.get("rx", r)) * np.cos(turn) + 1j * float(element.get("ry", r)) * np.sin(turn)


def path(data: str) -> list[np.ndarray]:
    """The polygons of the path data of SVG 1.1: closed outlines, each complex (P,), x + iy.

    Raises DmlrcError for what cannot be read.
    """
    outlines: list[list[np.ndarray]] = []
    at = start = handle = 0j  # handle: the last control point, which a smooth curve mirrors
    before = ""
    for command, numbers in _commands(data):
        kind = command.lower()
        origin = at if command.islower() else 0j
        if kind == "z":
            at = start
        elif kind == "m":
            at = start = origin + complex(*numbers)
        if kind in "mz":
            outlines.append([np.array([at])])  # after a z a new outline begins where the last one did
        else:
            mirrored = 2 * at - handle if before in {"c": "cs", "s": "cs", "q": "qt", "t": "qt"}.get(kind, "") else at
            points, handle = _PIECES[kind](at, origin, numbers, mirrored)
            outlines[-1].append(points)
            at = points[-1]
        before = kind
    return [np.concatenate(pieces) for pieces in outlines if len(pieces) > 1]


def _commands(data: str) -> Iterator[tuple[str, list[float]]]:
    """Every command with its numbers: a repeated one has its letter again, and after a moveto it is a lineto."""
    place, command = 0, ""
    while place < len(data.rstrip()):
        if letter := re.compile(r"[\s,]*([a-zA-Z])").match(data, place):
            command, place = letter[1], letter.end()
        elif command in "zZ":
            raise DmlrcError(f"SVG path data cannot be read at {data[place : place + 20]!r}")
        numbers = []
        for number in range(_ARGUMENTS.get(command.lower(), -1)):
            found = (_FLAG if command in "aA" and number in (3, 4) else _NUMBER).match(data, place)
            if not found:
                raise DmlrcError(f"SVG path data cannot be read at {data[place : place + 20]!r}")
            numbers.append(float(found[1]))
            place = found.end()
        if command.lower() not in _ARGUMENTS:
            raise DmlrcError(f"SVG path data has no command {command!r}")
        yield command, numbers
        command = {"m": "l", "M": "L"}.get(command, command)


def _line(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    end = origin + complex(*numbers)
    return np.array([end]), end


def _horizontal(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    end = complex(origin.real + numbers[0], at.imag)
    return np.array([end]), end


def _vertical(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    end = complex(at.real, origin.imag + numbers[0])
    return np.array([end]), end


def _curve(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    first, second, end = (origin + complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True))
    return _bezier(at, first, second, end), second


def _smooth(at: complex, origin: complex, numbers: list[float], mirrored: complex) -> tuple[np.ndarray, complex]:
    second, end = origin + complex(*numbers[:2]), origin + complex(*numbers[2:])
    return _bezier(at, mirrored, second, end), second


def _quadratic(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    handle, end = origin + complex(*numbers[:2]), origin + complex(*numbers[2:])
    return _bezier(at, at + 2 / 3 * (handle - at), end + 2 / 3 * (handle - end), end), handle


def _smooth_quadratic(
    at: complex, origin: complex, numbers: list[float], mirrored: complex
) -> tuple[np.ndarray, complex]:
    end = origin + complex(*numbers)
    return _bezier(at, at + 2 / 3 * (mirrored - at), end + 2 / 3 * (mirrored - end), end), mirrored


def _bezier(start: complex, first: complex, second: complex, end: complex) -> np.ndarray:
    """The points of a cubic curve after its start: (_CURVE_STEPS,)."""
    t = np.arange(1, _CURVE_STEPS + 1) / _CURVE_STEPS
    return (1 - t) ** 3 * start + 3 * (1 - t) ** 2 * t * first + 3 * (1 - t) * t**2 * second + t**3 * end


def _arc(at: complex, origin: complex, numbers: list[float], _: complex) -> tuple[np.ndarray, complex]:
    """An elliptic arc, by the conversion of SVG 1.1, F.6.5: its ends are given, its centre is wanted."""
    rx, ry, degrees, large, sweep, *xy = numbers
    end = origin + complex(*xy)
    if at == end or not rx or not ry:
        return np.array([end]), end
    turned = np.exp(1j * np.deg2rad(degrees))

    def squashed(point: complex) -> complex:  # to where the ellipse is the unit circle
        upright = point / turned
        return complex(upright.real / abs(rx), upright.imag / abs(ry))

    a, b = squashed(at), squashed(end)
    half = abs(b - a) / 2
    grown = max(half, 1.0)  # radii that are too small for the ends grow until they reach
    a, b = a / grown, b / grown
    side = 1 if large != sweep else -1
    centre = (a + b) / 2 + side * 1j * (b - a) / abs(b - a) * np.sqrt(max(0.0, 1 - (half / grown) ** 2))
    begin = np.angle(a - centre)
    angle = (np.angle(b - centre) - begin) % (2 * np.pi) - (0 if sweep else 2 * np.pi)
    steps = max(1, int(np.ceil(abs(angle) / _ARC_STEP)))
    around = (centre + np.exp(1j * (begin + angle * np.arange(1, steps + 1) / steps))) * grown
    points = (around.real * abs(rx) + 1j * around.imag * abs(ry)) * turned
    points[-1] = end  # exactly
    return points, end


_PIECES: dict[str, Callable[[complex, complex, list[float], complex], tuple[np.ndarray, complex]]] = {
    "l": _line,
    "h": _horizontal,
    "v": _vertical,
    "c": _curve,
    "s": _smooth,
    "q": _quadratic,
    "t": _smooth_quadratic,
    "a": _arc,
}


def _inside(outlines: list[np.ndarray], side: int, even_odd: bool) -> np.ndarray:
    """Which points of a grid, at the middles of its cells, lie inside: (side, side) bool.

    Every edge adds its direction to all points of a row to its right: the sum is the winding number.
    """
    starts = np.concatenate(outlines)
    ends = np.concatenate([np.roll(outline, -1) for outline in outlines])
    upper, lower = np.minimum(starts.imag, ends.imag), np.maximum(starts.imag, ends.imag)
    first, last = (np.clip(np.ceil(each - 0.5), 0, side).astype(int) for each in (upper, lower))
    counts = last - first  # rows whose middle an edge crosses
    edge = np.repeat(np.arange(len(starts)), counts)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    share = (row + 0.5 - starts.imag[edge]) / (ends.imag - starts.imag)[edge]
    crossing = starts.real[edge] + share * (ends.real - starts.real)[edge]
    column = np.clip(np.ceil(crossing - 0.5), 0, side).astype(int)
    turns = np.zeros((side, side + 1), dtype=np.int32)
    np.add.at(turns, (row, column), np.where(ends.imag > starts.imag, 1, -1)[edge])
    winding = turns.cumsum(axis=1)[:, :-1]
    return winding % 2 == 1 if even_odd else winding != 0
