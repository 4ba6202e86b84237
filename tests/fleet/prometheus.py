# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics in the text form, as much of it as engines show: counters, gauges and histograms."""
import bisect


SECONDS_BUCKETS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0]


class Metrics:
    """All metrics of an engine process, which share a prefix and a set of labels, in the order of their making."""

    def __init__(self, prefix, **labels):
        self.prefix = prefix
        self.labels = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        self.rows = []

    def gauge(self, name, text):
        return self._added(Value("gauge", self.prefix + name, text))

    def counter(self, name, text, **labels):
        return self._added(Value("counter", self.prefix + name, text, labels))

    def histogram(self, name, text, bounds=SECONDS_BUCKETS):
        return self._added(Histogram(self.prefix + name, text, bounds))

    def _added(self, metric):
        self.rows.append(metric)
        return metric

    def render(self):
        lines = []
        for metric in self.rows:
            lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}"]
            lines += metric.samples(self.labels)
        return "\n".join(lines) + "\n"


class Value:
    def __init__(self, kind, name, text, labels=None):
        self.kind, self.name, self.text = kind, name, text
        self.labels = "".join(f',{key}="{value}"' for key, value in (labels or {}).items())
        self.value = 0.0

    def add(self, amount):
        self.value += amount

    def samples(self, labels):
        return [f"{self.name}{{{labels}{self.labels}}} {float(self.value)}"]


class Histogram:
    kind = "histogram"

    def __init__(self, name, text, bounds):
        self.name, self.text, self.bounds = name, text, bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value):
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def samples(self, labels):
        lines, reached = [], 0
        for bound, count in zip([*map(float, self.bounds), "+Inf"], self.counts):
            reached += count
            lines.append(f'{self.name}_bucket{{{labels},le="{bound}"}} {float(reached)}')
        return lines + [f"{self.name}_count{{{labels}}} {float(reached)}", f"{self.name}_sum{{{labels}}} {self.total}"]
