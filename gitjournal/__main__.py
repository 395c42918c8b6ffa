"""``python -m gitjournal`` is ``gj``."""

from gitjournal.entry import main

if __name__ == "__main__":
    main()
