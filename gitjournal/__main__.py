"""``python -m gitjournal`` is ``gj``."""

from gitjournal.cli import main

if __name__ == "__main__":
    main()
