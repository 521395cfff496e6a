"""The tour with Python's ssl.

Usage: python3 client.py HOST PORT [version=1.2] [cert=FILE key=FILE]
"""

import socket
import ssl
import sys

host, port = sys.argv[1], int(sys.argv[2])
options = dict(argument.split("=", 1) for argument in sys.argv[3:])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
if options.get("version") == "1.2":
    context.maximum_version = ssl.TLSVersion.TLSv1_2
if "cert" in options:
    context.load_cert_chain(options["cert"], options["key"])

UPLOAD, DOWNLOAD = 1 << 20, 10 << 20


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def connect(session=None):
    bare = socket.create_connection((host, port), timeout=30)
    return context.wrap_socket(bare, session=session, suppress_ragged_eofs=False)


def ask(c, method, path, body=b"", version="1.1"):
    head = f"{method} {path} HTTP/{version}\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    c.sendall(head.encode() + body)
    data = b""
    while b"\r\n\r\n" not in data:
        more = c.recv(65536)
        if not more:
            raise EOFError("the connection ended")
        data += more
    head, data = data.split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    if lines[0].split()[1] != b"200":
        raise ValueError(head)
    sizes = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
    parts = [data]
    got = len(data)
    while not sizes or got < sizes[0]:
        more = c.recv(65536)
        if not more:
            break
        parts.append(more)
        got += len(more)
    return b"".join(parts)


def who(c, count=1):
    for _ in range(count):
        print("who", ask(c, "GET", "/who").decode())


def transfer(c):
    ask(c, "POST", "/upload", pattern(UPLOAD))
    print("ok upload")
    if ask(c, "GET", "/download") != pattern(DOWNLOAD):
        raise ValueError("the download differs")
    print("ok download")


c = connect()
who(c, 20)
print("pause", flush=True)
sys.stdin.readline()
who(c, 20)
transfer(c)
session = c.session
c.unwrap().close()
print("ok closed")

print("next")
c = connect(session)
who(c)
if ask(c, "GET", "/bye", version="1.0") != b"bye":
    raise ValueError("another answer")
print("ok bye")
print("end")
