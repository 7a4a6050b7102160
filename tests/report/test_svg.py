"""A figure on a page: letters are letters, colours are the page's, marks say what they are, ids clash with none."""

import re
import xml.etree.ElementTree as ET

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

from dmlrc.report import style, svg


@pytest.fixture
def figure():
    figure, axes = style.canvas(2)
    points = axes[0, 0].scatter([1, 2], [3, 4])
    svg.tips(points, ["A & B, 2019", "C"])
    (line,) = axes[0, 0].plot([1.5], [3.5], "s")
    svg.tips(line, "a < b")
    axes[0, 0].set_title("A title")
    yield figure
    plt.close(figure)


def test_each_mark_has_the_tip_it_was_given(figure):
    drawn = svg.to_svg(figure, "x")
    titles = [each.text for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["A & B, 2019", "C", "a < b"]
    assert "<a " not in drawn
    assert ">A title</text>" in drawn


def test_on_a_page_it_takes_the_colours_of_the_page(figure):
    page = svg.inline(svg.to_svg(figure, "x"))
    assert page.startswith('<svg aria-hidden="true"')
    assert "currentColor" in page
    assert not re.search(r"(fill|stroke): #(ffffff|262626|000000)", page)
    assert "font-family" not in page


def test_dots_that_look_alike_say_so_once_and_keep_their_places_and_tips():
    figure, axes = style.canvas(1)
    for colour in ("C0", "C1"):
        points = axes[0, 0].scatter(range(50), range(50), color=colour)
        svg.tips(points, [f"{colour}, {place}" for place in range(50)])
    drawn = svg.to_svg(figure, "x")
    page = svg.inline(drawn)
    assert len(page) < 0.6 * len(drawn)

    name = "{http://www.w3.org/2000/svg}"

    def found(text):
        root = ET.fromstring(text[text.index("<svg") :])
        marks = [mark for mark in root.iter(f"{name}g") if mark.get("class") == "dml-tip"]
        uses = [next(mark.iter(f"{name}use")) for mark in marks]
        return [mark.find(f"{name}title").text for mark in marks], [float(use.get(key)) for use in uses for key in "xy"]

    (titles, places), (drawn_titles, drawn_places) = found(page), found(drawn)
    assert titles == drawn_titles
    assert len(titles) == 100
    assert places == pytest.approx(drawn_places, abs=0.01)
    looks = re.findall(r'<g clip-path="[^"]*" (style="[^"]*")>', page)
    assert looks == list(dict.fromkeys(re.findall(r'<use [^>]*(style="[^"]*")', drawn)))
    plt.close(figure)


def test_what_is_filled_with_black_takes_the_ink_of_the_page(figure):
    figure.axes[0].plot([1.2], [3.2], "o", color="black", markerfacecolor="black")
    drawn = svg.to_svg(figure, "x")
    assert "fill: #000000" not in drawn  # black is what a file without a colour is filled with
    assert 'style="fill: currentColor; ' in svg.inline(drawn)


def test_two_figures_on_a_page_share_no_id(figure):
    ids = [set(re.findall(r' id="([^"]+)"', svg.inline(svg.to_svg(figure, salt)))) for salt in ("one", "other")]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_numbers_on_coloured_cells_keep_their_colour():
    figure, axes = style.canvas(2)
    axes[0, 0].pcolormesh([[0, 1]])
    axes[0, 0].text(0.5, 0.5, "dark", color="black")
    axes[0, 0].text(1.5, 0.5, "light", color="white")
    page = svg.inline(svg.to_svg(figure, "x"))
    plt.close(figure)
    assert re.search(r'fill: #252525"[^>]*>dark', page)
    assert re.search(r'fill: #fefefe"[^>]*>light', page)


def test_no_figure_is_higher_on_a_page_than_a_screen():
    for height in (2, 9):
        figure, _ = style.canvas(height)
        page = svg.inline(svg.to_svg(figure, "x"))
        plt.close(figure)
        widest = float(re.search(r"max-width: (\d+)px", page)[1])
        _, _, width, length = map(float, re.search(r'viewBox="([^"]+)"', page)[1].split())
        assert widest * length / width <= svg.HIGHEST + 2
        assert widest <= 2 * width + 1


def test_small_ticks_stay_where_they_are_labelled_alone():
    """Of a logarithmic axis: between powers of ten, where less than one is in sight."""
    ticks = {}
    for high in (5, 5000):
        figure, axes = style.canvas(2, subplot_kw={"xscale": "log"})
        axes[0, 0].set_xlim(2, high)
        drawn = svg.to_svg(figure, "x")
        ticks[high] = len(axes[0, 0].xaxis.get_minorticklocs()), len(re.findall(r'id="text_', drawn))
        plt.close(figure)
    assert ticks[5][0] > 0
    assert ticks[5][1] > 3
    assert ticks[5000][0] == 0
    assert ticks[5000][1] >= 3
