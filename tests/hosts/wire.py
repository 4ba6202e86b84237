#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The wire between the hosts of a test: carries IPv4 packets from one TUN device to another, as late and as rarely as it is told.

    wire.py NUMBER:DESCRIPTOR...        devices of hosts 10.77.0.NUMBER, which the parent opened

Commands on stdin, each answered by a line on stdout as soon as it holds: `delay 3 20` (ms added to each round trip of host 3),
`loss 3 0.01` (share of packets), `cut 3 [5]`, `join 3 [5]` (host 3 with host 5, or with all). Ends with stdin. The kernel's netem
is not everywhere, which is why packets pass through a program.
"""
import heapq
import os
import random
import selectors
import sys
import time

PACKET_MAX = 65536
DESTINATION_END = 19  # the last byte of the address that an IPv4 packet goes to


class Wire:
    def __init__(self, devices):
        self.devices = devices
        self.delay_s, self.loss = dict.fromkeys(devices, 0.0), dict.fromkeys(devices, 0.0)
        self.cut, self.in_flight, self.latest, self.count = set(), [], {}, 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)
        for number, device in devices.items():
            os.set_blocking(device, False)
            self.selector.register(device, selectors.EVENT_READ, number)

    def command(self, name, host, *rest):
        host = int(host)
        if name == "delay":
            self.delay_s[host] = float(rest[0]) / 1000
        elif name == "loss":
            self.loss[host] = float(rest[0])
        else:
            pairs = {frozenset((host, other)) for other in map(int, rest or self.devices)}
            self.cut = self.cut | pairs if name == "cut" else self.cut - pairs

    def take(self, device, source):
        try:
            packet = os.read(device, PACKET_MAX)
        except BlockingIOError:
            return
        if len(packet) <= DESTINATION_END or packet[0] >> 4 != 4:
            return
        target = packet[DESTINATION_END]
        if target not in self.devices or frozenset((source, target)) in self.cut or random.random() < self.loss[source] + self.loss[target]:
            return
        # Never before the packet that was sent before.
        at = max(time.monotonic() + (self.delay_s[source] + self.delay_s[target]) / 2, self.latest.get((source, target), 0))
        self.latest[source, target], self.count = at, self.count + 1
        heapq.heappush(self.in_flight, (at, self.count, target, packet))

    def deliver(self):
        while self.in_flight and self.in_flight[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(self.in_flight)
            try:
                os.write(self.devices[target], packet)
            except OSError:
                pass  # a queue that is full loses it, as a switch does

    def run(self):
        commands = b""
        while True:
            until = max(0, self.in_flight[0][0] - time.monotonic()) if self.in_flight else None
            for key, _ in self.selector.select(until):
                if key.data is not None:
                    self.take(key.fd, key.data)
                    continue
                more = os.read(0, 4096)
                if not more:
                    return
                *lines, commands = (commands + more).split(b"\n")
                for line in lines:
                    self.command(*line.decode().split())
                    print("done", flush=True)
            self.deliver()


if __name__ == "__main__":
    Wire({int(number): int(device) for number, _, device in (word.partition(":") for word in sys.argv[1:])}).run()
