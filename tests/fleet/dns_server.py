# SPDX-License-Identifier: Apache-2.0
"""A name server on loopback, over UDP and TCP at one port, with settable answers, as real servers and as hostile ones.

    with DnsServer() as dns:
        dns.records["vllm.test", "A"] = ["127.0.0.1", "127.0.0.2"]
        dns.records["_http._tcp.vllm.test", "SRV"] = [(8000, "node1.test")]
        ... dns.address, dns.queries: [("udp", name, type)]

A name without records of that type but with others is an answer without records; any other is NXDOMAIN. A name in `faults`
gets that instead: "silence", "servfail", "garbage" (no DNS at all), "short" (ends within a record), "loop" (a name that points
to itself), "lie" (the answer to another question). An answer of more than 512 bytes over UDP is truncated (TC), so that its
client comes again over TCP. Standard modules only.
"""
import ipaddress
import socket
import struct
import threading

TYPES = {"A": 1, "CNAME": 5, "AAAA": 28, "SRV": 33}
NAMES = {number: name for name, number in TYPES.items()}
UDP_MAX = 512
POLL_S = 0.05


def encode_name(name):
    """Labels separated by dots; bytes of any kind, as a hostile server sends them, by latin-1."""
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".") if label) + b"\0"


def decode_question(message):
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels).lower(), struct.unpack(">H", message[at + 1:at + 3])[0], message[12:at + 5]


def encode_data(kind, record):
    if kind in ("A", "AAAA"):
        return ipaddress.ip_address(record).packed
    if kind == "SRV":
        return struct.pack(">HHH", 10, 5, record[0]) + encode_name(record[1])
    return encode_name(record)


class DnsServer:
    def __init__(self, address="127.0.0.1", port=0):
        self.records, self.faults, self.queries = {}, {}, []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.udp = socket.socket(family, socket.SOCK_DGRAM)
        while True:  # one port of both
            self.tcp = socket.socket(family, socket.SOCK_STREAM)
            self.tcp.bind((address, port))
            try:
                self.udp.bind(self.tcp.getsockname()[:2])
                break
            except OSError:
                self.tcp.close()
        self.tcp.listen()
        self.port = self.udp.getsockname()[1]
        self.address = f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"
        self.over = threading.Event()
        self.threads = [threading.Thread(target=serve, daemon=True) for serve in (self._serve_udp, self._serve_tcp)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        for thread in self.threads:
            thread.join()
        self.udp.close()
        self.tcp.close()

    def _answer(self, transport, message):
        name, number, question = decode_question(message)
        kind = NAMES.get(number, str(number))
        self.queries.append((transport, name, kind))
        fault = self.faults.get(name)
        head = message[:2]
        if fault == "silence":
            return None
        if fault == "garbage":
            return head + b"\xff" * 40
        if fault == "lie":
            question = encode_name("other.test") + question[-4:]
        alias = self.records.get((name, "CNAME"))
        found = self.records.get((alias[0] if alias else name, kind))
        answers = ([("CNAME", alias[0])] if alias else []) + [(kind, record) for record in found or []]
        known = alias or any(owner == name for owner, _ in self.records)
        code = 2 if fault == "servfail" else 0 if known or fault else 3
        body = b""
        for type_, record in answers:
            data = b"\xc0\x0c" if fault == "loop" and type_ != "SRV" else encode_data(type_, record)
            if fault == "loop" and type_ == "SRV":
                # Its target points to itself.
                data = data[:6] + struct.pack(">H", 0xC000 | (12 + len(question) + len(body) + 12 + 6))
            body += b"\xc0\x0c" + struct.pack(">HHIH", TYPES[type_], 1, 60, len(data)) + data
        if fault == "short":
            body = body[:-3]
        reply = head + struct.pack(">HHHHH", 0x8180 | code, 1, len(answers), 0, 0) + question + body
        if transport == "udp" and len(reply) > UDP_MAX:
            return head + struct.pack(">HHHHH", 0x8380 | code, 1, 0, 0, 0) + question
        return reply

    def _serve_udp(self):
        self.udp.settimeout(POLL_S)
        while not self.over.is_set():
            try:
                message, sender = self.udp.recvfrom(4096)
            except TimeoutError:
                continue
            reply = self._answer("udp", message)
            if reply:
                self.udp.sendto(reply, sender)

    def _serve_tcp(self):
        self.tcp.settimeout(POLL_S)
        while not self.over.is_set():
            try:
                connection, _ = self.tcp.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                size = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))[0]
                reply = self._answer("tcp", connection.recv(size, socket.MSG_WAITALL))
                if reply:
                    connection.sendall(struct.pack(">H", len(reply)) + reply)
