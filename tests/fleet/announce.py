# SPDX-License-Identifier: Apache-2.0
"""How a server of the fleet says that it is ready."""
import os


def announce(address, port_file):
    """Says where the server listens: on stdout and, at once and whole, in `port_file`."""
    url = f"http://{address[0]}:{address[1]}"
    print(url, flush=True)
    if port_file:
        with open(port_file + ".part", "w", encoding="ascii") as out:
            out.write(url + "\n")
        os.rename(port_file + ".part", port_file)
