# SPDX-License-Identifier: Apache-2.0
"""Upload: files to a bucket of Ceph's radosgw, with its object store in memory, on loopback. Next to `s3cmd` and `rclone` with the same files
and parts of the same size, rclone also with its defaults (four files, and four parts of each, at a time); the limit is `curl`, one
after another on one connection, without hashes: what the service and loopback take.

All hash what they send (s3cmd MD5 and SHA-256, rclone MD5, archive-client SHA-256 before and while it sends) and read it from the
page cache. Peak memory is that of the client."""
import os
import pathlib
import subprocess
import sys

from common import BUILD, ROOT, figure, summary
import contest

sys.path.insert(0, str(ROOT / "tests/fleet"))
from radosgw import Radosgw  # noqa: E402

CLIENT = BUILD / "tests/integration/archive-client"
MIB = 1 << 20
# Files, and bytes of each.
CASES = ((1, 160 * MIB), (1, 48 * MIB), (60, MIB))
ROUNDS = 5
PART_MIB = 16


def commands(s3, files, prefix):
    """{name: command} of one round; each has names of its own in the bucket."""
    client = [CLIENT, "--endpoint", s3.endpoint, "--credentials", s3.credentials]
    pairs = [str(word) for file in files for word in (file.name, file)]
    host = s3.endpoint.removeprefix("http://")
    rclone = ["env", "-u", "AWS_CA_BUNDLE", f"RCLONE_S3_ACCESS_KEY_ID={s3.access_key}", f"RCLONE_S3_SECRET_ACCESS_KEY={s3.secret_key}",
              f"RCLONE_S3_ENDPOINT={s3.endpoint}", "RCLONE_CONFIG=/dev/null", "rclone", "copy", "--s3-provider", "Ceph",
              "--s3-region", "us-east-1", "--s3-no-check-bucket", "--s3-chunk-size", f"{PART_MIB}M", "--s3-upload-cutoff", "64M", "-q"]
    curl = ["curl", "-sS", "-f", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{s3.access_key}:{s3.secret_key}",
            "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    for file in files:
        curl += ["-T", str(file), f"{s3.endpoint}/traces/{prefix}-curl/{file.name}"]
    return {
        "blocking": [*client, "--url", f"s3://traces/{prefix}-blocking", "upload", *pairs],
        "loop": [*client, "--loop", "--url", f"s3://traces/{prefix}-loop", "upload", *pairs],
        "s3cmd": ["s3cmd", "-c", "/dev/null", "-q", "--no-progress", "--no-ssl", f"--host={host}", f"--host-bucket={host}",
                  f"--access_key={s3.access_key}", f"--secret_key={s3.secret_key}", f"--multipart-chunk-size-mb={PART_MIB}",
                  "put", *map(str, files), f"s3://traces/{prefix}-s3cmd/"],
        "rclone": [*rclone, "--transfers", "1", "--s3-upload-concurrency", "1", str(files[0].parent), f":s3:traces/{prefix}-rclone"],
        "rclone, 4 at a time": [*rclone, str(files[0].parent), f":s3:traces/{prefix}-rclone, 4 at a time"],
        "curl": curl,
    }


def remove(s3, files, prefix, name):
    for file in files:
        subprocess.run([CLIENT, "--endpoint", s3.endpoint, "--credentials", s3.credentials, "--url", f"s3://traces/{prefix}-{name}",
                        "delete", file.name], stdout=subprocess.DEVNULL, check=True)


def measure(s3, directory, count, size):
    folder = directory / f"files-{count}-{size}"
    folder.mkdir()
    files = [folder / f"file{number:03}" for number in range(count)]
    for file in files:
        file.write_bytes(os.urandom(size))
    costs = {}
    for number in range(ROUNDS + 1):
        prefix = f"{count}-{size}-{number}"
        for name, command in commands(s3, files, prefix).items():
            cost = contest.run(contest.Contestant(name, [[str(word) for word in command]]), directory)
            if number > 0:
                costs.setdefault(name, []).append(cost)
            remove(s3, files, prefix, name)
    total = count * size / MIB
    for name, of in costs.items():
        yield {"files": count, "MiB each": figure(size / MIB), "client": name, "MiB/s": summary([total / cost.wall_s for cost in of]),
               **contest.row(of),
               **{f"{other} / it": summary([others.wall_s / cost.wall_s for cost, others in zip(of, costs[other])])
                  for other in ("s3cmd", "rclone", "rclone, 4 at a time")},
               "it / curl": summary([cost.wall_s / other.wall_s for cost, other in zip(of, costs["curl"])])}


def run(directory, _options):
    directory = pathlib.Path(directory)
    with Radosgw(directory / "ceph") as s3:
        s3.create_bucket("traces")
        for count, size in CASES:
            yield from measure(s3, directory, count, size)
