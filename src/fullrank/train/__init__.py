"""Train, evaluate and predict: one run is one folder."""

from fullrank.train.config import Config, ConfigError, load_config, parse, ready_configs
from fullrank.train.interrupt import Interrupted
from fullrank.train.predict import Predictor, load
from fullrank.train.protocols import run_experiment, runs_of, summarize
from fullrank.train.run import RunError, finished, run_one

__all__ = [
    "Config",
    "ConfigError",
    "Interrupted",
    "Predictor",
    "RunError",
    "finished",
    "load",
    "load_config",
    "parse",
    "ready_configs",
    "run_experiment",
    "run_one",
    "runs_of",
    "summarize",
]
