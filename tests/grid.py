"""A sweep with two workers as a program of its own: python grid.py CONFIG."""

import sys

from fullrank import interrupt


def main(file):
    interrupt.install()
    from fullrank.train import load_config, single_runs
    from fullrank.train.sweep import run_in_processes

    try:
        outcomes = run_in_processes(single_runs(load_config(file)), 2, lambda _: None)
    except interrupt.Interrupted as stop:
        print(stop, file=sys.stderr)
        sys.exit(interrupt.STATUS)
    sys.exit(any(outcome.state != "done" for outcome in outcomes))


if __name__ == "__main__":
    main(sys.argv[1])
