"""Train, evaluate and predict: one run is one folder."""

from fullrank.extras import need

need("lightning")

from fullrank.interrupt import Interrupted
from fullrank.train.config import Config, load_config, parse
from fullrank.train.evaluate import evaluate_run
from fullrank.train.experiment import run_experiment, single_runs, summarize
from fullrank.train.model import Model, ModelSpec
from fullrank.train.predict import Predictor, load_predictor
from fullrank.train.run import run_one
from fullrank.train.run_folder import Result, RunFolder, Summary

__all__ = [
    "Config",
    "Interrupted",
    "Model",
    "ModelSpec",
    "Predictor",
    "Result",
    "RunFolder",
    "Summary",
    "evaluate_run",
    "load_config",
    "load_predictor",
    "parse",
    "run_experiment",
    "run_one",
    "single_runs",
    "summarize",
]
