"""Where the ``edgepipe`` command begins.

Nothing is imported here before an interrupt is expected: Ctrl-C in the first milliseconds, while
the command itself is loaded, ends like any other.
"""

INTERRUPTED = "\nedgepipe: interrupted; no partly written output is left behind"


def main() -> int:
    """Run the program's command line; return the exit code, 130 if it is interrupted."""
    try:
        from edgepipe.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        import sys

        print(INTERRUPTED, file=sys.stderr)
        return 130
