"""The checks with aioquic. It has no HEAD: aioquic 1.7 wants the content that content-length tells.

Usage: python3 client_aioquic.py HOST PORT
"""

import asyncio
import ssl
import sys
import zlib

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

host, port = sys.argv[1], int(sys.argv[2])
large = bytes(i * 7 >> 3 & 255 for i in range(1 << 20))


def sum_of(body):
    return f"{len(body)} {zlib.crc32(body):08x}".encode()


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.queues = {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for queue in self.queues.values():
                queue.put_nowait(event)
        elif isinstance(event, StreamReset) and event.stream_id in self.queues:
            self.queues[event.stream_id].put_nowait(event)
        for e in self.http.handle_event(event):
            if isinstance(e, (HeadersReceived, DataReceived)) and e.stream_id in self.queues:
                self.queues[e.stream_id].put_nowait(e)

    def open(self, method, path, more=(), is_last=True):
        stream = self._quic.get_next_available_stream_id()
        self.queues[stream] = asyncio.Queue()
        fields = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path), *more]
        self.http.send_headers(stream, fields, end_stream=is_last)
        self.transmit()
        return stream

    def send(self, stream, data, is_last=False):
        self.http.send_data(stream, data, end_stream=is_last)
        self.transmit()

    async def next(self, stream):
        e = await asyncio.wait_for(self.queues[stream].get(), 20)
        if isinstance(e, (StreamReset, ConnectionTerminated)):
            raise RuntimeError(repr(e))
        return e

    async def answer(self, stream):
        """Returns the interim statuses, the fields, the body and the trailer fields."""
        interim, head, body, trailer = [], None, b"", {}
        while True:
            e = await self.next(stream)
            if isinstance(e, DataReceived):
                body += e.data
            elif head is None:
                fields = dict(e.headers)
                if fields[b":status"] < b"200":
                    interim.append(fields[b":status"])
                else:
                    head = fields
            else:
                trailer = dict(e.headers)
            if e.stream_ended:
                return interim, head, body, trailer

    async def ask(self, method, path, body=None, more=()):
        stream = self.open(method, path, more, body is None)
        if body is not None:
            self.send(stream, body, True)
        return await self.answer(stream)


async def get(c):
    _, head, body, _ = await c.ask(b"GET", b"/hello")
    return head[b":status"] == b"200" and head[b"x-protocol"] == b"HTTP/3.0" and body == b"Hello, World!" or (head, body)


def post(n):
    async def check(c):
        _, _, body, _ = await c.ask(b"POST", b"/echo", large[:n], [(b"content-length", str(n).encode())])
        return body == sum_of(large[:n]) or body

    return check


async def empty(c):
    _, fields, body, _ = await c.ask(b"GET", b"/204")
    return fields[b":status"] == b"204" and body == b"" or fields


async def whole(c):
    _, _, body, _ = await c.ask(b"GET", b"/large")
    return body == large or len(body)


async def stream(c):
    _, _, body, _ = await c.ask(b"GET", b"/stream")
    return body.decode().splitlines() == [f"line {i}" for i in range(10)] or body


async def trailers(c):
    s = c.open(b"POST", b"/trailers", is_last=False)
    c.send(s, b"abc")
    c.http.send_headers(s, [(b"x-sum", b"7")], end_stream=True)
    c.transmit()
    _, _, body, trailer = await c.answer(s)
    return trailer == {b"x-sum": b"7"} and body == b"with trailers" or trailer


async def hints(c):
    interim, _, body, _ = await c.ask(b"GET", b"/hints")
    return interim == [b"103"] and body == b"hinted" or interim


async def reset(c):
    s = c.open(b"GET", b"/slow")
    await c.next(s)
    c._quic.stop_stream(s, ErrorCode.H3_REQUEST_CANCELLED)
    c.transmit()
    return True


async def events(c):
    s = c.open(b"GET", b"/events")
    text = b""
    while text.count(b"data:") < 2:
        e = await c.next(s)
        if isinstance(e, DataReceived):
            text += e.data
    c._quic.stop_stream(s, ErrorCode.H3_REQUEST_CANCELLED)
    c.transmit()
    return True


async def websocket(c):
    s = c.open(b"CONNECT", b"/ws", [(b":protocol", b"websocket"), (b"sec-websocket-version", b"13")], False)
    e = await c.next(s)
    if dict(e.headers)[b":status"] != b"200":
        return e
    got = b""
    for size in (5, 300):
        text = b"x" * size
        length = bytes([0x80 | size]) if size < 126 else bytes([0xFE, size >> 8, size & 255])
        c.send(s, b"\x81" + length + b"\0\0\0\0" + text)
        want = b"\x81" + (bytes([size]) if size < 126 else bytes([0x7E, size >> 8, size & 255])) + text
        while len(got) < len(want):
            got += (await c.next(s)).data
        if got != want:
            return got
        got = b""
    c.send(s, b"\x88\x82\0\0\0\0\x03\xe8")
    e = await c.next(s)
    return e.data == b"\x88\x02\x03\xe8" or e


async def parallel(c):
    return all(r is True for r in await asyncio.gather(*(stream(c) for _ in range(100))))


async def main():
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name="localhost")
    async with connect(host, port, configuration=configuration, create_protocol=Client) as c:
        for name, check in {
            "get": get, "post of 1 KB": post(1024), "post of 1 MiB": post(1 << 20), "204": empty, "large": whole,
            "stream": stream, "trailers": trailers, "hints": hints, "reset": reset, "events": events, "websocket": websocket,
            "parallel": parallel,
        }.items():
            try:
                got = await check(c)
                print("ok " + name if got is True else f"FAIL {name}: {got!r}", flush=True)
            except Exception as e:
                print(f"FAIL {name}: {e!r}", flush=True)
    print("end")


asyncio.run(main())
