"""A page with the contributions of atoms, bonds and descriptors to predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fullrank.report.page import Fragment, Section, Table, Text, render_page, software
from fullrank.train.explain import Explanation
from fullrank.train.files import write_text

_SHOWN = 8
_HOW = (
    "Orange raises the prediction, blue lowers it, in proportion to the colour. "
    "Contributions are integrated gradients, with the graph without features as the "
    "baseline; together with the value of the baseline they add up to the prediction. "
    "They describe what the model computed, not what causes the property."
)


def write_explanations(
    page: Path,
    title: str,
    explained: Sequence[Explanation],
    failed: Mapping[str, str],
    provenance: Mapping[str, str],
) -> None:
    """Write a self-contained page.

    Args:
        page: The HTML file to write.
        title: Title of the page.
        explained: The explanations, one section each.
        failed: Molecules without a prediction, and the reasons.
        provenance: The model and its input.
    """
    sections = [_section(number, one) for number, one in enumerate(explained, start=1)]
    if failed:
        rows = list(failed.items())
        sections.append(Section("Not predicted", [Table(["molecule", "reason"], rows)]))
    text = render_page(title, _HOW, sections, {**provenance, **software()})
    write_text(page, text)


def _section(number: int, one: Explanation) -> Section:
    from markupsafe import Markup

    scale = f" {one.scale}" if one.scale else ""
    missing = abs(one.unexplained)
    words = (
        f"{one.target}: {one.value:.4g}{scale}, of which {one.base:.4g} is the "
        f"baseline, {one.atoms.sum():+.4g} from atoms, {one.bonds.sum():+.4g} from "
        "bonds"
    )
    if one.descriptors:
        words += f" and {sum(one.descriptors.values()):+.4g} from descriptors"
    if missing > 0.01 * max(abs(one.value - one.base), 1e-9):
        words += f"; {missing:.2g} is not explained"
    rows = [[name, f"{value:+.4g}"] for name, value in _largest(one)]
    return Section(
        f"{number}. {one.smiles}",
        [
            Text(f"{words}."),
            Fragment(Markup(one.svg())),
            Table(["largest contributions", one.scale or "contribution"], rows),
        ],
    )


def _largest(one: Explanation) -> list[tuple[str, float]]:
    """The parts with the largest contributions."""
    named = dict(one.descriptors)
    for atom, value in zip(one.mol.GetAtoms(), one.atoms.tolist(), strict=True):
        named[f"atom {atom.GetIdx() + 1} ({atom.GetSymbol()})"] = value
    for bond, value in zip(one.mol.GetBonds(), one.bonds.tolist(), strict=True):
        ends = bond.GetBeginAtomIdx() + 1, bond.GetEndAtomIdx() + 1
        named[f"bond {ends[0]}–{ends[1]}"] = value
    order = sorted(named.items(), key=lambda part: -abs(part[1]))
    return order[:_SHOWN]
