"""Draw docs/program.svg: what the program does with a table of molecules.

A table of 2,000 molecules of QM9 is trained by the recipe, with seed 0 and for 15
epochs. The picture shows the test part, and the contribution of each atom to one
prediction. Run it with ``python docs/program.py``; it takes some minutes.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import fullrank
from fullrank.data import load_dataset
from fullrank.train import RunFolder, run_experiment
from fullrank.train.evaluate import load_data
from fullrank.train.recipe import recipe

MOLECULE = "CC(=O)c1ccco1"
EV = 27.2114


def main() -> None:
    qm9 = load_dataset("qm9", targets=["gap"], limit=2000)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "molecules.csv"
        with table.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["smiles", "gap"])
            writer.writerows(
                zip(qm9.texts("smiles"), EV * qm9.labels[:, 0], strict=True)
            )
        changes = {"training": {"epochs": 15}, "runs": Path(folder) / "runs"}
        config = recipe(table, ["gap"], changes=changes).config
        summary = run_experiment(config)
        run = RunFolder(config.runs / summary.runs[0])
        model = fullrank.load(config.runs / summary.experiment)
        dataset, test = load_data(run), np.asarray(run.split.test)
        truth = dataset.labels[test, 0]
        smiles = [dataset.texts("smiles")[i] for i in test]
        found = model.predict(smiles)["predicted_gap"].to_numpy()
        explained = model.explain(MOLECULE)
        drawing = explained._repr_svg_()
    error = np.abs(found - truth).mean()
    low, high = 3.0, 11.0

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + 260 * (x - low) / (high - low), 250 - 220 * (y - low) / (high - low)

    dots = "".join(
        '<circle cx="{:.1f}" cy="{:.1f}" r="2.5"/>'.format(*place(x, y))
        for x, y in zip(truth, found, strict=True)
        if low < x < high and low < y < high
    )
    (x0, y0), (x1, y1) = place(low, low), place(high, high)
    ticks = "".join(
        f'<text x="{place(v, low)[0]:.0f}" y="268" text-anchor="middle">{v}</text>'
        f'<text x="52" y="{place(low, v)[1] + 4:.0f}" text-anchor="end">{v}</text>'
        for v in (4, 6, 8, 10)
    )
    inner = drawing[drawing.index("<svg") :]
    inner = inner.replace("<svg", '<svg x="370" y="40"', 1)
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" '
        'font-family="sans-serif" font-size="13" fill="#333333">'
        '<rect width="720" height="300" rx="8" fill="#fafafa"/>'
        f'<text x="60" y="22">{len(test)} test molecules: '
        f"mean error {error:.2f} eV</text>"
        f'<path d="M{x0} {y0}L{x1} {y1}" stroke="#bbb" stroke-dasharray="4"/>'
        f'<path d="M60 30V250H320" fill="none" stroke="#999"/>{ticks}'
        '<text x="190" y="290" text-anchor="middle">HOMO–LUMO gap in QM9 (eV)</text>'
        '<text transform="translate(18 150) rotate(-90)" text-anchor="middle">'
        "predicted (eV)</text>"
        f'<g fill="#4c78a8" fill-opacity="0.7">{dots}</g>'
        '<text x="380" y="22">Contributions of atoms to a prediction</text>'
        f"{inner}</svg>\n"
    )
    Path(__file__).with_suffix(".svg").write_text(svg, encoding="utf-8")
    print(f"{error:.3f} eV on {len(test)} molecules")


if __name__ == "__main__":
    main()
