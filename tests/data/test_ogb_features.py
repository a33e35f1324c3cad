import subprocess
import sys

CODE = """
import sys, threading
from fullrank.data.ogb_features import ogb_features

assert len(ogb_features().get_atom_feature_dims()) == 9
assert threading.active_count() == 1, threading.enumerate()
import outdated
"""


def test_the_import_asks_no_server_for_a_newer_version():
    subprocess.run([sys.executable, "-c", CODE], check=True)
