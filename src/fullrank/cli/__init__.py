"""The command line: one file per command, assembled in :mod:`fullrank.cli.main`."""
