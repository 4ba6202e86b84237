# SPDX-License-Identifier: Apache-2.0
"""How long tests wait before they give up: one factor for all deadlines.

A deadline in a test is there so that a hang ends, never to measure. Each is written for an idle machine and passes through
patience(), which multiplies it by $PROFD_TEST_TIME_FACTOR or, where that is not set, by how many processes compete for each
core at that moment. Unit tests have the same in C (tests/unit/patience.h).

Timeouts of child processes and sockets that are at least LONG_S are such deadlines too, and are multiplied wherever a test
sets them (scale_timeouts()). Shorter ones are a part of what is tested.
"""

import os
import socket
import subprocess

VARIABLE = "PROFD_TEST_TIME_FACTOR"
FACTOR_MAX = 20  # of a derived factor: a hang still ends
LONG_S = 5


def factor():
    """At least 1."""
    given = os.environ.get(VARIABLE)
    if given:
        return max(1.0, float(given))
    return min(max(1.0, 2 * os.getloadavg()[0] / len(os.sched_getaffinity(0))), FACTOR_MAX)


def patience(seconds):
    """Seconds to wait for what takes at most so many on an idle machine. None stays None."""
    return seconds if seconds is None else seconds * factor()


def _scaled(seconds):
    return patience(seconds) if seconds is not None and seconds >= LONG_S else seconds


def scale_timeouts():
    """From now on, in this process. Done once, by tests/conftest.py."""
    wait, communicate, settimeout = subprocess.Popen.wait, subprocess.Popen.communicate, socket.socket.settimeout

    def patient_wait(self, timeout=None):
        return wait(self, _scaled(timeout))

    def patient_communicate(self, input=None, timeout=None):  # noqa: A002
        return communicate(self, input, _scaled(timeout))

    def patient_settimeout(self, value):
        settimeout(self, _scaled(value))

    subprocess.Popen.wait, subprocess.Popen.communicate = patient_wait, patient_communicate
    socket.socket.settimeout = patient_settimeout
