"""Records that a peer may and may not send, with tlslite-ng.

Usage: python3 records.py HOST PORT [suite=aes128gcm|aes256gcm|chacha20-poly1305] [pause=SECONDS]

For each case it makes a connection, asks for something, waits for the pause, sends the
case's records, and reads up to the end. It prints the name of the case, a tab, and what
came: "answer" of HTTP, "KeyUpdate", "alert" with its number, and "silence" if the server
neither answers nor ends the connection. A case that is allowed ends with a request.
"""

import itertools
import socket
import sys
import time

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSAbruptCloseError
from tlslite.messages import Message

host, port = sys.argv[1], int(sys.argv[2])
options = dict(argument.split("=", 1) for argument in sys.argv[3:])
SUITE = options.get("suite", "aes128gcm")
PATIENCE = 20  # seconds

ALERT, HANDSHAKE, DATA = b"\x15", b"\x16", b"\x17"
LINE, FIELD, FIELDS = b"GET /who HTTP/1.1\r\n", b"X: y\r\n", b"Host: x\r\nConnection: close\r\n\r\n"
REQUEST = LINE + FIELDS
FIRST = b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n"
LONGEST = 1 << 14


class Held:
    """A socket that sends only its first flight until it is released."""

    def __init__(self, below):
        self.below, self.flights, self.held = below, 0, None

    def __getattr__(self, name):
        return getattr(self.below, name)

    def sendall(self, data):
        self.flights += 1
        if self.held is None or self.flights == 1:
            self.below.sendall(data)
        else:
            self.held += data

    def send(self, data):
        self.sendall(data)
        return len(data)

    def release(self, more=b""):
        held, self.held = self.held or b"", None
        self.below.sendall(held + more)


class Peer:
    """A connection after its handshake."""

    def __init__(self, holds=False, retries=False, extra=b""):
        bare = socket.create_connection((host, port), timeout=PATIENCE)
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = Held(bare)
        self.socket.held = b"" if holds else None
        self.tls = TLSConnection(self.socket)
        self.layer = self.tls._recordLayer
        settings = HandshakeSettings()
        settings.minVersion = settings.maxVersion = (3, 4)
        settings.cipherNames = [SUITE]
        settings.keyShares = [] if retries else ["x25519"]
        if extra:
            self.extend_finished(extra)
        self.tls.handshakeClientCert(settings=settings)
        self.session = self.tls.session
        self.got = []
        self.body = b""

    def extend_finished(self, extra):
        """Puts more messages into the record of Finished."""
        send = self.layer.sendRecord

        def sending(msg):
            data = msg.write()
            if msg.contentType == 22 and data[0] == 20:
                msg = Message(22, data + extra)
            return send(msg)

        self.layer.sendRecord = sending

    def seal(self, inner, version=(3, 3)):
        """Returns a record: inner has content, type and padding."""
        below = self.layer._recordSocket
        kept, below.version = below.version, version
        sealed = self.layer._encryptThenSeal(bytearray(inner), 23)
        below.version = kept
        return bytes([23, *version, len(sealed) >> 8, len(sealed) & 255]) + bytes(sealed)

    def update(self, request=0, inner=None):
        """Returns a KeyUpdate, and changes the keys of what follows."""
        record = self.seal(bytes([24, 0, 0, 1, request]) + HANDSHAKE if inner is None else inner)
        self.next_keys()
        return record

    def next_keys(self):
        s = self.session
        s.cl_app_secret, s.sr_app_secret = self.layer.calcTLS1_3KeyUpdate_reciever(s.cipherSuite, s.cl_app_secret, s.sr_app_secret)

    def send(self, *pieces):
        for piece in pieces:
            try:
                self.socket.sendall(piece)
            except OSError:
                return  # the server has ended the connection

    def read(self, once=False):
        """Reads up to the end, or up to one answer."""
        while True:
            try:
                for result in self.layer.recvRecord():
                    if result not in (0, 1):
                        break
            except (TLSAbruptCloseError, ConnectionError):
                return
            except socket.timeout:
                self.got.append("silence")
                return
            header, parser = result
            content = bytes(parser.bytes)
            if header.type == 22 and content[0] == 24:
                self.got.append("KeyUpdate" if content == b"\x18\0\0\x01\0" else "another KeyUpdate")
                s = self.session
                s.cl_app_secret, s.sr_app_secret = self.layer.calcTLS1_3KeyUpdate_sender(s.cipherSuite, s.cl_app_secret, s.sr_app_secret)
            elif header.type == 21:
                self.got.append("alert %d" % content[1])
            elif header.type == 23:
                self.body += content
                if self.body.startswith(b"HTTP/1.1 200") and self.body.endswith(b"}"):
                    self.body = b""
                    if once:
                        return
                    self.got.append("answer")
            elif header.type != 22:
                self.got.append("type %d" % header.type)

    def finish(self):
        self.read()
        self.socket.close()
        runs = [(what, len(list(run))) for what, run in itertools.groupby(self.got)]
        return ", ".join(what if n == 1 else f"{n} times {what}" for what, n in runs) or "nothing"


def padded(size):
    """Returns a request of a size."""
    head = b"POST /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %05d\r\n\r\n"
    body = size - len(head % 0)
    return head % body + b"x" * body


def handshake(kind, body=b""):
    return bytes([kind]) + len(body).to_bytes(3, "big") + body + HANDSHAKE


def damaged(record, at):
    record = bytearray(record)
    record[at] ^= 1
    return bytes(record)


def plain(kind, content, version=b"\x03\x03"):
    return bytes([kind]) + version + len(content).to_bytes(2, "big") + content


cases = {}


def case(name):
    def add(f):
        cases[name] = f
        return f
    return add


def simple(name, *inners, ends=True):
    """A case of records with these contents, and a request if it is allowed."""
    def run(p):
        p.send(b"".join(p.seal(inner) for inner in inners) + (p.seal(REQUEST + DATA) if ends else b""))
    cases[name] = run


# Data.
simple("a request")
cases["a request, a byte a record"] = lambda p: p.send(*(p.seal(bytes([b]) + DATA) for b in REQUEST))
cases["a request, a byte a segment"] = lambda p: p.send(*(bytes([b]) for b in p.seal(REQUEST + DATA)))
cases["a request, two bytes a record, in one segment"] = lambda p: p.send(
    b"".join(p.seal(REQUEST[i:i + 2] + DATA) for i in range(0, len(REQUEST), 2)))
cases["a byte of padding"] = lambda p: p.send(p.seal(REQUEST + DATA + b"\0"))
cases["1,000 bytes of padding"] = lambda p: p.send(p.seal(REQUEST + DATA + bytes(1000)))
cases["padding up to the longest record"] = lambda p: p.send(p.seal(REQUEST + DATA + bytes(LONGEST - len(REQUEST))))
cases["a byte of padding more than that"] = lambda p: p.send(p.seal(REQUEST + DATA + bytes(LONGEST - len(REQUEST) + 1)))
cases["the longest data"] = lambda p: p.send(p.seal(padded(LONGEST) + DATA))
cases["a byte more than that"] = lambda p: p.send(p.seal(padded(LONGEST + 1) + DATA))
cases["the longest protected content, all data"] = lambda p: p.send(p.seal(padded(LONGEST + 239) + DATA))
cases["a byte more protected content"] = lambda p: p.send(p.seal(padded(LONGEST + 240) + DATA))
cases["a header that says 65,535 bytes"] = lambda p: p.send(b"\x17\x03\x03\xff\xff")
simple("no data", DATA)
simple("no data, padded", DATA + bytes(100))
simple("16 records without data", *[DATA] * 16)
simple("17 records without data", *[DATA] * 17)
simple("40 records without data, each followed by data", LINE + DATA, *[DATA, FIELD + DATA] * 40, FIELDS + DATA, ends=False)
simple("nothing, not even a type", b"")
simple("no type", bytes(1))
simple("no type, 1,000 zeros", bytes(1000))
simple("no type, 2^14 + 1 zeros", bytes(LONGEST + 1))
for kind in (0x14, 0x18, 0x63, 0xff):
    simple("type %d" % kind, b"x" + bytes([kind]))

# What is not, or not well, protected.
cases["an empty record"] = lambda p: p.send(plain(23, b""))
cases["a record of 16 bytes"] = lambda p: p.send(plain(23, bytes(16)))
cases["a record of 17 bytes that does not open"] = lambda p: p.send(plain(23, bytes(17)))
cases["data in plain text"] = lambda p: p.send(plain(23, REQUEST))
cases["change_cipher_spec after a request"] = lambda p: p.send(plain(20, b"\x01"))
cases["close_notify in plain text"] = lambda p: p.send(plain(21, b"\x01\0"))
cases["a fatal alert in plain text"] = lambda p: p.send(plain(21, b"\x02\x28"))
cases["a KeyUpdate in plain text"] = lambda p: p.send(plain(22, b"\x18\0\0\x01\0"))
cases["heartbeat in plain text"] = lambda p: p.send(plain(24, b"\x01\0\0"))
cases["HTTP instead of a record"] = lambda p: p.send(REQUEST)
cases["another tag"] = lambda p: p.send(damaged(p.seal(REQUEST + DATA), -1))
cases["another byte"] = lambda p: p.send(damaged(p.seal(REQUEST + DATA), 6))
cases["another length"] = lambda p: p.send(damaged(p.seal(REQUEST + DATA), 4) + bytes(1))
cases["another version in the header"] = lambda p: p.send(damaged(p.seal(REQUEST + DATA), 2))
cases["version 3.1, protected as such"] = lambda p: p.send(p.seal(REQUEST + DATA, (3, 1)))


@case("a record twice")
def _(p):
    record = p.seal(b"\r\n" + DATA)
    p.send(record + record)


@case("two records in the wrong order")
def _(p):
    first, second = p.seal(b"\r\n" + DATA), p.seal(b"\r\n" + DATA)
    p.send(second + first)


@case("a record is missing")
def _(p):
    p.seal(b"\r\n" + DATA)
    p.send(p.seal(REQUEST + DATA))


# Alerts.
for name, content in {
    "close_notify": b"\x01\0", "close_notify as fatal": b"\x02\0", "fatal handshake_failure": b"\x02\x28",
    "handshake_failure as a warning": b"\x01\x28", "an unknown alert": b"\x02\xff", "an unknown alert as a warning": b"\x01\xff",
    "an alert of level 0": b"\0\x28", "no_renegotiation": b"\x01\x64", "user_canceled as fatal": b"\x02\x5a",
    "half an alert": b"\x01", "an alert and a byte": b"\x01\0\0", "two alerts in a record": b"\x01\x5a\x01\0", "an empty alert": b"",
}.items():
    simple(name, content + ALERT)
simple("an empty alert, padded", ALERT + bytes(10))
simple("close_notify, padded", b"\x01\0" + ALERT + bytes(10))
simple("an alert in two records", b"\x01" + ALERT, b"\0" + ALERT)
simple("user_canceled, then data", b"\x01\x5a" + ALERT)
simple("user_canceled, then close_notify", b"\x01\x5a" + ALERT, b"\x01\0" + ALERT)
simple("a request, then close_notify", REQUEST + DATA, b"\x01\0" + ALERT, ends=False)
simple("16 user_canceled", *[b"\x01\x5a" + ALERT] * 16)
simple("17 user_canceled", *[b"\x01\x5a" + ALERT] * 17)

# KeyUpdate.
cases["update"] = lambda p: p.send(p.update(), p.seal(REQUEST + DATA))
cases["update, all in one segment"] = lambda p: p.send(p.update() + p.seal(REQUEST + DATA))
cases["update, padded"] = lambda p: p.send(p.update(inner=b"\x18\0\0\x01\0" + HANDSHAKE + bytes(50)) + p.seal(REQUEST + DATA))
cases["update, requested"] = lambda p: p.send(p.update(1) + p.seal(REQUEST + DATA))
cases["three updates, each requested"] = lambda p: p.send(p.update(1) + p.update(1) + p.update(1) + p.seal(REQUEST + DATA))
cases["16 updates"] = lambda p: p.send(b"".join(p.update() for _ in range(16)) + p.seal(REQUEST + DATA))
cases["17 updates"] = lambda p: p.send(b"".join(p.update() for _ in range(17)) + p.seal(REQUEST + DATA))
cases["100 updates, each followed by data"] = lambda p: p.send(
    p.seal(LINE + DATA) + b"".join(p.update(i % 2) + p.seal(FIELD + DATA) for i in range(100)) + p.seal(FIELDS + DATA))
for request in (2, 255):
    cases["update with request %d" % request] = lambda p, r=request: p.send(p.update(r) + p.seal(REQUEST + DATA))
simple("update without a body", handshake(24))
simple("update with two bytes", handshake(24, b"\0\0"))
simple("update that says 2^24 - 1 bytes", b"\x18\xff\xff\xff\0" + HANDSHAKE)
simple("old keys after an update", b"\x18\0\0\x01\0" + HANDSHAKE)
simple("two updates in a record", b"\x18\0\0\x01\0" * 2 + HANDSHAKE)
simple("update, and a byte in its record", b"\x18\0\0\x01\0\x18" + HANDSHAKE)
simple("data in an update", b"\x18\0\0" + HANDSHAKE)
simple("no data in an update", b"\x18\0\0" + HANDSHAKE, DATA)
simple("close_notify in an update", b"\x18\0\0" + HANDSHAKE, b"\x01\0" + ALERT)
simple("an empty record in an update", b"\x18\0\0" + HANDSHAKE, HANDSHAKE)
cases["update in two records"] = lambda p: p.send(p.seal(b"\x18\0\0" + HANDSHAKE) + p.update(inner=b"\x01\0" + HANDSHAKE) + p.seal(REQUEST + DATA))
cases["update, a byte a record"] = lambda p: p.send(
    b"".join(p.seal(b + HANDSHAKE) for b in (b"\x18", b"\0", b"\0", b"\x01")) + p.update(inner=b"\x01" + HANDSHAKE) + p.seal(REQUEST + DATA))


@case("new keys without an update")
def _(p):
    p.next_keys()
    p.send(p.seal(REQUEST + DATA))


@case("requests between requested updates")
def _(p):
    for _ in range(3):
        p.send(p.update(1) + p.seal(FIRST + DATA))
        p.read(once=True)
    p.send(p.seal(REQUEST + DATA))


# Messages of a handshake.
for kind, name in {0: "HelloRequest", 1: "ClientHello", 2: "ServerHello", 4: "NewSessionTicket", 5: "EndOfEarlyData", 8: "EncryptedExtensions",
                   11: "Certificate", 13: "CertificateRequest", 15: "CertificateVerify", 20: "Finished", 99: "message 99", 254: "message_hash"}.items():
    simple(name, handshake(kind, bytes(32)))
simple("an empty handshake record", HANDSHAKE)
simple("an empty handshake record, padded", HANDSHAKE + bytes(10))
simple("a message of 2^24 - 1 bytes", b"\x04\xff\xff\xff" + HANDSHAKE)

# Ends.
cases["FIN"] = lambda p: p.socket.shutdown(socket.SHUT_WR)


@case("FIN after a request")
def _(p):
    p.send(p.seal(REQUEST + DATA))
    p.socket.shutdown(socket.SHUT_WR)


@case("FIN within a record")
def _(p):
    p.send(p.seal(REQUEST + DATA)[:-1])
    p.socket.shutdown(socket.SHUT_WR)


# What comes with the client's last flight.
opened = {}


def flight(name, **how):
    def add(f):
        opened[name] = how
        cases[name] = f
        return f
    return add


@flight("the handshake and a request in one segment", holds=True)
def _(p):
    p.socket.release(p.seal(REQUEST + DATA))


@flight("the handshake, a requested update and a request in one segment", holds=True)
def _(p):
    p.socket.release(p.update(1) + p.seal(REQUEST + DATA))


@flight("the handshake and half a record in one segment", holds=True)
def _(p):
    record = p.seal(REQUEST + DATA)
    p.socket.release(record[:20])
    time.sleep(0.2)
    p.send(record[20:])


@flight("the handshake and close_notify in one segment", holds=True)
def _(p):
    p.socket.release(p.seal(b"\x01\0" + ALERT))


@flight("the handshake, and change_cipher_spec after it", holds=True)
def _(p):
    p.socket.release(plain(20, b"\x01") + p.seal(REQUEST + DATA))


@flight("the handshake, and a record that does not open", holds=True)
def _(p):
    p.socket.release(damaged(p.seal(REQUEST + DATA), -1))


@flight("an update in the record of Finished", extra=b"\x18\0\0\x01\0")
def _(p):
    p.send(p.seal(REQUEST + DATA))


@flight("a HelloRetryRequest before", retries=True)
def _(p):
    p.send(p.seal(REQUEST + DATA))


wanted = options.get("only")
peers = {}
for name in cases:
    if wanted in (None, name):
        peers[name] = Peer(**opened.get(name, {}))
        if name not in opened:
            peers[name].send(peers[name].seal(FIRST + DATA))
            peers[name].read(once=True)
time.sleep(float(options.get("pause", "0")))
for name, peer in peers.items():
    cases[name](peer)
    print(f"{name}\t{peer.finish()}", flush=True)
