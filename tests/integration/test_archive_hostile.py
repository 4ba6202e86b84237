# SPDX-License-Identifier: Apache-2.0
"""An S3 service that lies, stalls, refuses and redirects: each ends with an error that names the remedy, or is tried again."""
import random
import subprocess
import sys
import time

import pytest

from archive_client import ArchiveClient, sha256
from daemon import ROOT

sys.path.insert(0, str(ROOT / "tests/fleet"))
from s3_hostile import (HostileS3, break_after_half, endless, error, http_date, raw, redirect, refuse_after_half,  # noqa: E402
                        retry_later, stall)

CONTENT = random.Random(7).randbytes(3_000_000)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(name="s3")
def make_s3():
    with HostileS3() as server:
        yield server
        assert server.forged == 0, "a signature or a content hash was wrong"


@pytest.fixture(name="client", params=["blocking", "loop"])
def make_client(s3, tmp_path, request):
    s3.write_credentials(tmp_path / "credentials")
    (tmp_path / "file").write_bytes(CONTENT)
    options = ["--endpoint", s3.endpoint, "--credentials", tmp_path / "credentials", *(["--loop"] if request.param == "loop" else [])]
    return ArchiveClient("s3://bucket/pre=fix", *options)


def store(s3, content=CONTENT, etag='"abc"', hashed=None):
    s3.objects["/bucket/pre%3Dfix/key"] = (content, etag, hashed)


def test_round_trip(s3, client, tmp_path):
    """With a token, encryption and a name full of odd characters, signed as the server computes it."""
    s3.write_credentials(tmp_path / "credentials", token="token/with+odd=characters:")
    key = "a b/ü~(1)*'!&=+;:@$,%.gz"
    answer = client.works("--encryption", "AES256", "--exclusive", "put", key, tmp_path / "file")
    assert answer["object"]["sha256"] == sha256(CONTENT) and answer["attempts"] == 1
    headers = s3.requests[-1][2]
    assert headers["x-amz-server-side-encryption"] == "AES256" and headers["x-amz-security-token"] == "token/with+odd=characters:"
    client.works("get", key, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_what_passes_is_tried_again(s3, client, tmp_path, status):
    s3.fault("PUT", error(status, "Oops"), times=2)
    assert client.works("put", "key", tmp_path / "file")["attempts"] == 3


def test_retry_after(s3, client, tmp_path):
    """Waits as long as the server asks for, and gives up at once if that is after the deadline."""
    s3.fault("PUT", retry_later(503, 2))
    began = time.monotonic()
    assert client.works("put", "key", tmp_path / "file")["attempts"] == 2
    assert time.monotonic() - began >= 2
    s3.fault("PUT", retry_later(503, 3600))
    answer = client.fails("EBUSY", "put", "key", tmp_path / "file")
    assert "overloaded (HTTP 503 SlowDown)" in answer["what"] and answer["attempts"] == 1


def test_broken_upload(s3, client, tmp_path):
    s3.fault("PUT", break_after_half)
    assert client.works("put", "key", tmp_path / "file")["attempts"] == 2
    s3.fault("PUT", refuse_after_half)
    answer = client.fails("EACCES", "put", "key", tmp_path / "file")
    assert "access denied" in answer["what"] and "s3:PutObject" in answer["remedy"] and "AKIAHOSTILE" in answer["remedy"]


def test_broken_download_goes_on(s3, client, tmp_path):
    """Where it broke, if the object is the same."""
    store(s3, hashed=sha256(CONTENT))
    head = OK + b'Content-Length: 3000000\r\nETag: "abc"\r\n\r\n'
    s3.fault("GET", raw(head, CONTENT[:1_000_000]))
    answer = client.works("get", "key", tmp_path / "copy")
    assert answer["attempts"] == 2 and (tmp_path / "copy").read_bytes() == CONTENT
    assert s3.requests[-1][2]["Range"].startswith("bytes=") and s3.requests[-1][2]["If-Match"] == '"abc"'
    s3.fault("GET", raw(head, CONTENT[:1_000_000]))
    store(s3, etag='"other"')
    assert "changed during the download" in client.fails("ESTALE", "get", "key", tmp_path / "copy")["what"]


@pytest.mark.parametrize("head, error_name, words", [
    (OK + b'ETag: "abc"\r\n\r\n', "EPROTO", "no length"),
    (OK + b'ETag: "abc"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n', "EPROTO", ""),
    (b'HTTP/1.1 206 X\r\nETag: "abc"\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\n', "EPROTO", "not the range"),
    (OK + b'ETag: "abc"\r\nContent-Length: 99999999999\r\n\r\n', "EFBIG", "larger"),
    (OK + b"X: " + 40000 * b"a" + b"\r\n\r\n", "EPROTO", "head"),
    (b"SSH-2.0-OpenSSH\r\n", None, ""),
])
def test_lies_about_content(s3, client, tmp_path, head, error_name, words):
    s3.fault("GET", raw(head, b"12345"), times=50)
    answer = client("--size-max", "10M", "--deadline", "2s", "get", "key", tmp_path / "copy")
    assert answer["err"] < 0 and (error_name is None or answer["error"] == error_name) and words in answer["what"], answer


def test_wrong_range(s3, client, tmp_path):
    store(s3)
    for answer in (raw(OK + b'ETag: "a"\r\nContent-Length: 5\r\n\r\n12345'),
                   raw(b'HTTP/1.1 206 X\r\nETag: "a"\r\nContent-Range: bytes 11-15/99\r\nContent-Length: 5\r\n\r\n12345'),
                   raw(b'HTTP/1.1 206 X\r\nETag: "a"\r\nContent-Range: bytes 10-11/99\r\nContent-Length: 2\r\n\r\n12')):
        s3.fault("GET", answer)
        client.fails("EPROTO", "--offset", 10, "--size", 5, "get", "key", tmp_path / "copy")
    client.works("--offset", 10, "--size", 5, "get", "key", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT[10:15]


def test_wrong_content(s3, client, tmp_path):
    """The hash that is stored with the object, or the one that the caller knows, decides."""
    store(s3, hashed=sha256(b"other"))
    answer = client.fails("EBADMSG", "get", "key", tmp_path / "copy")
    assert "SHA-256" in answer["what"] and answer["attempts"] == 3
    store(s3)
    client.fails("EBADMSG", "--sha256", sha256(b"other"), "get", "key", tmp_path / "copy")
    client.works("--sha256", sha256(CONTENT), "get", "key", tmp_path / "copy")


def test_wrong_etag(s3, client, tmp_path):
    for line in (b"", b"ETag: \r\n", b'ETag: "a b"\r\n', b'ETag: "' + 500 * b"a" + b'"\r\n'):
        s3.fault("PUT", raw(OK + line + b"Content-Length: 0\r\n\r\n"))
        assert "entity tag" in client.fails("EPROTO", "put", "key", tmp_path / "file")["what"]


def test_wrong_hash_of_the_caller(s3, client, tmp_path):
    """Nothing is sent of a file that changed."""
    client.fails("ESTALE", "--sha256", sha256(b"before"), "put", "key", tmp_path / "file")
    assert not s3.requests


def test_redirects_are_not_followed(s3, client, tmp_path):
    with HostileS3() as other:
        for status in (301, 302, 307, 308):
            s3.fault("GET", redirect(status, other.endpoint + "/bucket/key"))
            answer = client.fails("EREMCHG", "get", "key", tmp_path / "copy")
            assert other.endpoint in answer["what"] and "endpoint=" in answer["remedy"]
        assert not other.requests
    s3.fault("HEAD", redirect(301, "http://169.254.169.254/", ("x-amz-bucket-region", "eu-west-1")))
    assert client.fails("EREMCHG", "head", "key")["remedy"] == "Set region=eu-west-1 (it is us-east-1)."


@pytest.mark.parametrize("fault, error_name, remedy", [
    (error(403, "AccessDenied"), "EACCES", "Allow s3:ListBucket on bucket bucket"),
    (error(403, "InvalidAccessKeyId"), "EACCES", "aws_access_key_id"),
    (error(403, "ExpiredToken"), "EACCES", "Renew"),
    (error(404, "NoSuchBucket"), "ENODEV", "Create bucket bucket"),
    (error(400, "AuthorizationHeaderMalformed", more="<Region>eu-north-1</Region>"), "EREMCHG", "region=eu-north-1"),
    (error(403, "RequestTimeTooSkewed"), "EACCES", "clock"),
    (error(400, "Evil\x1b[31m"), "EPROTO", "endpoint="),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), "EPROTO", "endpoint="),
    (error(200, "AccessDenied"), "EACCES", "Allow"),
])
def test_errors_name_the_remedy(s3, client, fault, error_name, remedy):
    s3.fault("GET", fault)
    answer = client.fails(error_name, "list")
    assert remedy in answer["remedy"] and "\x1b" not in answer["what"], answer


def test_skewed_clock(s3, client):
    s3.fault("GET", raw(b"HTTP/1.1 403 Forbidden\r\nDate: " + http_date(7200).encode() + b"\r\nContent-Length: 57\r\n\r\n"
                        b"<Error><Code>RequestTimeTooSkewed</Code></Error>          "))
    assert "it is 2h" in client.fails("EACCES", "list")["remedy"]


@pytest.mark.parametrize("document, words", [
    (b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]><ListBucketResult/>", "document type"),
    (b"<ListBucketResult><Contents><Key>pre=fix/a</Key><Key>pre=fix/b</Key></Contents></ListBucketResult>", "twice"),
    (b"<ListBucketResult><Contents><Key>elsewhere</Key></Contents></ListBucketResult>", "not asked for"),
    (b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "is cut"),
    (b"<ListBucketResult><Contents>", ""),
    (b"<ListBucketResult>" + 30 * b"<a>" + 30 * b"</a>" + b"</ListBucketResult>", "nested"),
    (b"<ListBucketResult>" + 1001 * b"<Contents/>" + b"</ListBucketResult>", "more members"),
])
def test_hostile_xml(s3, client, document, words):
    s3.fault("GET", raw(OK + b"Content-Length: %d\r\n\r\n" % len(document) + document))
    assert words in client.fails("EPROTO", "list")["what"]


def test_endless_answers(s3, client, tmp_path):
    for head in (OK, b"HTTP/1.1 403 Forbidden\r\n"):
        s3.fault("GET", endless(head + b"\r\n<ListBucketResult>", 4096 * b"<Contents></Contents>"))
        assert "bytes" in client.fails("EPROTO", "list")["what"]
    s3.fault("GET", endless(OK + b"X: 1", b"\r\nX: 1"))
    assert client("list")["err"] < 0
    s3.fault("GET", endless(OK + b'ETag: "a"\r\nContent-Length: 10\r\n\r\n', 4096 * b"x"))
    client.works("get", "key", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == 10 * b"x"


def test_stalls(s3, client, tmp_path):
    """A stalled transfer is broken, and tried again; the deadline ends what stalls always."""
    store(s3)
    s3.fault("GET", stall())
    assert client.works("--stall", "1s", "get", "key", tmp_path / "copy")["attempts"] == 2
    s3.fault("GET", stall(OK + b'ETag: "abc"\r\nContent-Length: 3000000\r\n\r\n123'), times=100)
    answer = client.fails("ETIMEDOUT", "--stall", "1s", "--deadline", "3s", "get", "key", tmp_path / "copy")
    assert "s3://bucket/pre=fix/key" in answer["what"]


def test_credentials_are_read_anew(s3, client, tmp_path):
    """Also between the attempts of one request: what the server calls expired is renewed in time."""
    store(s3)

    def renew(handler, body):
        s3.write_credentials(tmp_path / "credentials", token="new")
        error(403, "ExpiredToken")(handler, body)
    s3.fault("HEAD", renew)
    assert client.works("head", "key")["attempts"] == 2
    assert s3.requests[-1][2]["x-amz-security-token"] == "new"
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = secretword\nnonsense\n")
    answer = client.fails("EACCES", "head", "key")
    assert "line 3" in answer["what"] and "secretword" not in str(answer)
    (tmp_path / "credentials").unlink()
    assert "No such file" in client.fails("EACCES", "head", "key")["what"]


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254", "http://169.254.1.1:80", "http://[fe80::1]", "http://[fd00:ec2::254]",
                                      "http://[::ffff:169.254.169.254]", "http://[64:ff9b::a9fe:a9fe]", "http://[2002:a9fe:a9fe::1]"])
def test_metadata_addresses(s3, client, endpoint):
    answer = client.fails("EPERM", "--endpoint", endpoint, "head", "key")
    assert "address" in answer["what"] and "endpoint=" in answer["remedy"]
    # Given literally and permitted, it is called; nobody is there.
    answer = client("--endpoint", endpoint, "--allow-link-local", "--deadline", "1s", "head", "key")
    assert answer["err"] < 0 and answer["error"] != "EPERM"


def test_metadata_address_behind_a_name(tmp_path, s3, client):
    """The permission is for a literal address: a name never leads there."""
    hosts = tmp_path / "hosts"
    hosts.write_text("169.254.169.254 s3.example\n127.0.0.1 localhost\n")
    script = f"mount --bind {hosts} /etc/hosts && exec \"$@\""
    command = ["unshare", "--mount", "sh", "-c", script, "sh",
               *client.command("--endpoint", "http://s3.example", "--allow-link-local", "--deadline", "5s", "head", "key")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace: {done.stderr.strip()}")
    assert '"EPERM"' in done.stdout and "hands out credentials" in done.stdout


def test_rate(s3, client, tmp_path):
    began = time.monotonic()
    client.works("--rate", "2M", "put", "key", tmp_path / "file")
    assert time.monotonic() - began > 0.8


def test_encryption_by_a_key(s3, client, tmp_path):
    """Over TLS only; what the service says of the key is named."""
    assert "https://" in client.fails("EINVAL", "--encryption", "aws:kms", "put", "key", tmp_path / "file")["what"]
    for words, part in ((["--kms-key", "a"], "needs sse=aws:kms"), (["--encryption", "AES256", "--kms-key", "a"], "needs sse=aws:kms"),
                        (["--encryption", "aws:kms", "--kms-key", "a b"], "no id, alias or ARN")):
        assert part in client.fails("EINVAL", *words, "put", "key", tmp_path / "file")["what"]
    assert not s3.requests
    s3.fault("PUT", error(400, "KMS.DisabledException"))
    answer = client.fails("EKEYREJECTED", "put", "key", tmp_path / "file")
    assert "disabled" in answer["what"] and "sse_kms_key_id=" in answer["remedy"]


def test_settings(tmp_path):
    for words in (["--url", "s3://B/x"], ["--url", "s3://bucket/../x"], ["--url", "http://bucket"], ["--url", "file://relative"],
                  ["--endpoint", "ftp://host"], ["--endpoint", "http://user@host"], ["--endpoint", "http://host/path"],
                  ["--region", "eu west"], ["--encryption", "rot13"]):
        answer = ArchiveClient("s3://bucket", "--credentials", tmp_path, *words).fails("EINVAL", "head", "key")
        assert f"{words[0][2:].replace('encryption', 'sse')}=" in answer["what"]
