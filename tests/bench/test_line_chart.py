from xml.etree import ElementTree

from fullrank.bench.line_chart import line_chart


def test_points_lie_where_logarithms_put_them():
    lines = {"a & b": [(10.0, 1.0), (1000.0, 100.0)], "c": [(100.0, 10.0)], "d": []}
    drawn = ElementTree.fromstring(line_chart("edges", {"seconds": lines}))
    svg = "{http://www.w3.org/2000/svg}"
    circles = [
        (float(c.get("cx")), float(c.get("cy"))) for c in drawn.iter(f"{svg}circle")
    ]
    (left, bottom), (right, top), middle = circles
    assert left < right
    assert bottom > top
    assert middle == ((left + right) / 2, (top + bottom) / 2)
    texts = {"".join(text.itertext()) for text in drawn.iter(f"{svg}text")}
    assert {"a & b", "c", "d", "edges", "seconds", "102", "0.1"} - texts == {"0.1"}
