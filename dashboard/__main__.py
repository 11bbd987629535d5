"""Streamlit's command line for the pages: `clustercep dashboard` starts `python -m dashboard run dashboard/main.py`."""

from __future__ import annotations

from streamlit import net_util
from streamlit.web import cli


def main() -> None:
    """Run it without its way to the internet."""
    # To judge a request of a foreign origin, Streamlit would ask a server outside for this machine's address.
    net_util.get_external_ip = _unknown
    cli.main(prog_name="streamlit")


def _unknown() -> None:
    return None


if __name__ == "__main__":
    main()
