"""The program: ``fullrank``, or ``python -m fullrank``."""

import sys

from fullrank import interrupt
from fullrank.errors import MissingPackage
from fullrank.extras import need


def main() -> None:
    """Run the program; Ctrl-C is handled from the start."""
    interrupt.install()
    try:
        need("typer")
        need("rich")
        from fullrank.cli.main import main as run

        run()
    except MissingPackage as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        interrupt.leave()


if __name__ == "__main__":
    main()
