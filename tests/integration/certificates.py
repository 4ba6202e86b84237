# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by openssl(1): an authority, and what it signs. All are valid for a day."""

import subprocess


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


class Authority:
    """`Authority(directory).issue("server", "DNS:localhost,IP:127.0.0.1")` gives the paths (certificate, key)."""

    def __init__(self, directory, name="ca"):
        self.directory, self.file, self.key = directory, directory / f"{name}.pem", directory / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 1, "-subj", f"/CN={name}",
                "-keyout", self.key, "-out", self.file)

    def issue(self, name, alternatives="DNS:localhost,IP:127.0.0.1"):
        certificate, key, request = (self.directory / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", 1, "-extfile", extensions,
                "-out", certificate)
        return certificate, key
