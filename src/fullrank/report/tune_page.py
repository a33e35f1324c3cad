"""A page about a search: history, importance of keys, best configuration."""

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
        f"{len(complete)} completed trials, {pruned} stopped early. The best score on "
        f"the validation part is {study.best_value:.4g}."
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
        few = f"This needs at least {FEWEST_TRIALS} completed trials."
        sections.append(Section("Importance", [Text(few)]))
    sections.append(Section("Configuration", [configuration(tuned.config)]))
    provenance = {"study": study.study_name, "run": tuned.summary.experiment}
    page = tuned.folder / "page.html"
    title = f"Search for {tuned.summary.dataset}"
    write_text(page, render_page(title, lead, sections, {**provenance, **software()}))
    return page
