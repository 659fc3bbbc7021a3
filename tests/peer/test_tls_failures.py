"""What is written to standard error while a peer runs: gRPC's handshakes are counted, the rest passes."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("outside")

HEAD = "I1115 22:13:46.413174   27787 ssl_transport.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
EXPIRED = "error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired"
PLAIN = "error:1000009c:SSL routines:OPENSSL_internal:HTTP_REQUEST: Invalid certificate verification context"


def run(code: str) -> subprocess.CompletedProcess[str]:
    """In a process whose standard error can be taken away."""
    head = "import os, sys; from coterie.peer.observability.tls_failures import tap_stderr; told = []\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, timeout=60)


def test_failed_handshakes_are_told_and_the_rest_passes() -> None:
    ended = run(f"""
with tap_stderr() as heard:
    heard.read(told.append)  # there is nothing yet
    os.write(2, b"{HEAD}{EXPIRED}\\nfrom elsewhere\\nW1115 22:13:46.378295   1 log.cc:102] Log le")
    heard.read(told.append)
    os.write(2, b"vel INFO is not suitable\\n{HEAD}{PLAIN}\\n")
    heard.read(told.append)
    print("from Python", file=sys.stderr)
    os.write(2, b"a last word\\n")
os.write(2, b"as before\\n")
for one in told:
    print(one.reason, one)
""")
    assert ended.stderr == (
        "a TLS handshake failed: certificate verify failed: certificate has expired\n"
        "from elsewhere\n"
        "a TLS handshake failed: http request\n"
        "from Python\n"
        "a last word\n"
        "as before\n"
    )
    assert ended.stdout == (
        "handshake a TLS handshake failed: certificate verify failed: certificate has expired\n"
        "handshake a TLS handshake failed: http request\n"
    )
    assert ended.returncode == 0


def test_whoever_writes_never_waits_for_the_reader() -> None:
    ended = run("""
with tap_stderr():
    for _ in range(10_000):
        try:
            os.write(2, bytes(1000))
        except BlockingIOError:
            print("full", file=sys.stderr)
            break
""")
    assert (ended.stderr, ended.returncode) == ("full\n", 0)


def test_a_crash_leaves_its_stack() -> None:
    ended = run("""
with tap_stderr():
    os.abort()
""")
    assert "Fatal Python error: Aborted" in ended.stderr
    assert ended.returncode < 0
