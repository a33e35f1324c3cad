"""The web page and HTTP interface of ``fullrank serve``."""
