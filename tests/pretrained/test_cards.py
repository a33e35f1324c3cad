import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from fullrank.paper.published import published
from fullrank.pretrained import names
from fullrank.pretrained.cards import (
    Card,
    Score,
    as_markdown,
    card,
    configuration,
    overview,
    read_card,
)

PAGE = Path(__file__).parents[2] / "docs" / "pretrained.md"


@pytest.mark.parametrize("name", names())
def test_a_card_is_complete(name):
    found = card(name)
    texts = (found.title, found.data, found.licence, found.split, found.applicability)
    assert all(len(text) > 3 for text in (*texts, found.settings, *found.commands))
    measured = found.measured
    assert re.fullmatch("[0-9a-f]{40}", measured.commit)  # a clean commit
    assert {"torch", "torch_geometric", "rdkit", "Python"} <= measured.versions.keys()
    for score in measured.scores.values():
        assert score.low <= score.value <= score.high
    assert f"fullrank train {name}.yaml" in found.commands
    text = as_markdown(name)
    for part in (*texts, measured.commit, measured.run):
        assert part in text
    assert configuration(name).count("data:") == 1


def test_published_scores_are_those_of_the_paper():
    shown, truth = card("qm9").published, published("baselines-qm9")
    for label, scores in shown.scores.items():
        model = label.removesuffix(" (paper)")
        for target, value in scores.items():
            assert value == truth[model, f"qm9/{target}"].mean
    assert "not comparable" in shown.note
    assert "distances" in shown.note
    shown, truth = card("hiv").published, published("baselines-ogb-tu")
    for label, scores in shown.scores.items():
        percent = truth[label.removesuffix(" (paper)"), "ogbg-molhiv"].mean
        assert 100 * scores["HIV_active"] == pytest.approx(percent)


def test_the_network_of_qm9_is_better_than_the_linear_fit():
    measured = card("qm9").measured
    for output in measured.outputs:
        key = f"mae/{output.name}"
        assert measured.scores[key].high < measured.linear[key]


def test_the_page_has_the_table_of_all_models():
    table = overview()
    assert all(f"| `{name}` | {card(name).title}" in table for name in names())
    assert table in PAGE.read_text()


def test_the_page_has_the_errors_of_qm9():
    lines = as_markdown("qm9").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| target"))
    assert "\n".join(lines[start : start + 14]) in PAGE.read_text()


def test_a_card_that_is_not_one_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"title": "x"}')
    with pytest.raises(ValidationError):
        read_card(tmp_path / "x.json")
    assert str(Score(value=0.12345, low=0.1, high=0.2)) == "0.123 (0.1 to 0.2)"
    assert Card.model_fields.keys() >= {"licence", "applicability", "commands"}
