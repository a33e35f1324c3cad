"""A page about a search: its history, what mattered, and the best configuration."""

from pathlib import Path
from typing import TYPE_CHECKING

from fullrank.report.page import (
    Figure,
    Section,
    Table,
    Text,
    render_page,
    software,
)
from fullrank.report.run_page import configuration
from fullrank.train.files import write_text

if TYPE_CHECKING:
    from fullrank.train.tune import Tuned

FEWEST_TRIALS = 4


def write_tune_page(tuned: "Tuned") -> Path:
    """Write ``page.html`` into the folder of a study."""
    from optuna import visualization
    from optuna.trial import TrialState

    study = tuned.study
    trials = study.get_trials(deepcopy=False)
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    pruned = sum(trial.state == TrialState.PRUNED for trial in trials)
    lead = (
        f"{len(complete)} trials to the end, {pruned} stopped early. The best has "
        f"{study.best_value:.4g} on the validation part."
    )
    test = [
        [name, "not defined" if each.mean is None else f"{each.mean:.4g}"]
        for name, each in tuned.summary.test.items()
    ]
    best = [[key, str(value)] for key, value in study.best_params.items()]
    sections = [
        Section("Best", [Table(["key", "value"], best), Table(["test", ""], test)]),
        Section("History", [Figure(visualization.plot_optimization_history(study))]),
    ]
    if len(complete) >= FEWEST_TRIALS:
        importance = visualization.plot_param_importances(study)
        coordinates = visualization.plot_parallel_coordinate(study)
        sections += [
            Section("Importance", [Figure(importance)]),
            Section("Parallel coordinates", [Figure(coordinates)]),
        ]
    else:
        few = f"With fewer than {FEWEST_TRIALS} complete trials nothing can be said."
        sections.append(Section("Importance", [Text(few)]))
    sections.append(Section("Configuration", [configuration(tuned.config)]))
    provenance = {"study": study.study_name, "run": tuned.summary.experiment}
    page = tuned.folder / "page.html"
    title = f"Search for {tuned.summary.dataset}"
    write_text(page, render_page(title, lead, sections, {**provenance, **software()}))
    return page
