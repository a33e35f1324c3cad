"""The program: ``fullrank``, or ``python -m fullrank``."""

from fullrank import interrupt


def main() -> None:
    """Run the program; Ctrl-C is answered from the first moment on."""
    interrupt.install()
    try:
        from fullrank.cli.main import main as run

        run()
    finally:
        interrupt.leave()


if __name__ == "__main__":
    main()
