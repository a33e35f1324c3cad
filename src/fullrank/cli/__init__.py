"""The command line: one file a verb, assembled in :mod:`fullrank.cli.main`."""
