"""What all tests need of the process that runs them."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell without job control: children would inherit it and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
