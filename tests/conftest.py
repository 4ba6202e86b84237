# SPDX-License-Identifier: Apache-2.0
"""For every test in Python: deadlines that suit the machine, reports of failures that a person reads, and no skipped test where all
must run (preconditions.py).

A failed test prints a short reason. A log or an answer of hundreds of kilobytes in it is cut, line by line and as a whole;
all of it is in a file whose name the report ends with."""

import re
from pathlib import Path

import patience
import preconditions
import pytest

COLUMNS_MAX = 400  # of a line of a report
LINES_MAX = 60  # of one message, one section
HEAD_LINES = 20  # of those that are cut, the first are kept, and the last


def pytest_configure(config):
    patience.scale_timeouts()


def shorten(text):
    """The text with long lines cut, and of many lines the first and the last."""
    lines = [line if len(line) <= COLUMNS_MAX else f"{line[:COLUMNS_MAX]}... ({len(line) - COLUMNS_MAX} more characters)"
             for line in text.split("\n")]
    if len(lines) > LINES_MAX:
        left_out = len(lines) - LINES_MAX
        lines[HEAD_LINES:HEAD_LINES + left_out] = [f"... ({left_out} more lines)"]
    return "\n".join(lines)


def shorten_traceback(traceback):
    for entry in traceback.reprentries:
        if hasattr(entry, "lines"):
            entry.lines = shorten("\n".join(entry.lines)).split("\n")
        if getattr(entry, "reprfuncargs", None):
            entry.reprfuncargs.args = [(name, shorten(str(value))) for name, value in entry.reprfuncargs.args]
        if getattr(entry, "reprlocals", None):
            entry.reprlocals.lines = shorten("\n".join(entry.reprlocals.lines)).split("\n")


def keep_report(item, report, text):
    """The complete text in a file of the run's temporary directory."""
    directory = item.config._tmp_path_factory.getbasetemp() / "reports"
    directory.mkdir(exist_ok=True)
    path = directory / (re.sub(r"[^A-Za-z0-9._-]+", "_", report.nodeid)[-150:] + f".{report.when}.txt")
    path.write_text(text, errors="replace")
    return path


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        refused = preconditions.refusal(report.longrepr[2].removeprefix("Skipped: "))
        if refused:
            report.outcome, report.longrepr = "failed", refused
    if not report.failed:
        return
    complete = "\n".join([report.longreprtext, *(f"--- {name} ---\n{text}" for name, text in report.sections)])
    if isinstance(report.longrepr, str):
        report.longrepr = shorten(report.longrepr)
    else:
        for traceback, crash, _ in getattr(report.longrepr, "chain", []):
            shorten_traceback(traceback)
            if crash:
                crash.message = shorten(crash.message.split("\n", 1)[0])
    report.sections = [(name, shorten(text)) for name, text in report.sections]
    if len(complete) > sum(len(text) for _, text in report.sections) + len(report.longreprtext) + 100:
        report.sections.append(("complete report", str(Path(keep_report(item, report, complete)))))
