"""The checks with libcurl, over curl_cffi.

Usage: python3 client_curl.py HOST PORT
"""

import asyncio
import sys
import zlib

from curl_cffi import CurlHttpVersion
from curl_cffi.requests import AsyncSession
from curl_cffi.requests.exceptions import Timeout

base = f"https://{sys.argv[1]}:{sys.argv[2]}"
large = bytes(i * 7 >> 3 & 255 for i in range(1 << 20))


async def main():
    async with AsyncSession(verify=False, http_version=CurlHttpVersion.V3ONLY, timeout=20) as c:

        async def get():
            r = await c.get(base + "/hello")
            return r.http_version == CurlHttpVersion.V3 and r.headers["x-protocol"] == "HTTP/3.0" and r.text == "Hello, World!" or r.text

        async def post(n):
            r = await c.post(base + "/echo", data=large[:n])
            return r.text == f"{n} {zlib.crc32(large[:n]):08x}" or r.text

        async def head():
            r = await c.head(base + "/hello")
            return r.headers["content-length"] == "13" and not r.content or r

        async def empty():
            r = await c.get(base + "/204")
            return r.status_code == 204 and not r.content or r

        async def whole():
            r = await c.get(base + "/large")
            return r.content == large or len(r.content)

        async def stream():
            r = await c.get(base + "/stream")
            return r.text.splitlines() == [f"line {i}" for i in range(10)] or r.text

        async def text(path, want):
            r = await c.get(base + path)
            return r.text == want or r.text

        async def cut(path):
            """Returns what has arrived of an answer that does not end, after a second."""
            got = bytearray()
            try:
                await c.get(base + path, content_callback=got.extend, timeout=1)
            except Timeout:
                return bytes(got)

        async def reset():
            return await cut("/slow") == b"begun"

        async def events():
            return (await cut("/events")).count(b"data:") >= 2

        async def parallel():
            return all(r is True for r in await asyncio.gather(*(stream() for _ in range(50))))

        for name, check in {
            "get": get, "post of 1 KB": lambda: post(1024), "post of 1 MiB": lambda: post(1 << 20), "head": head, "204": empty,
            "large": whole, "stream": stream, "trailers": lambda: text("/trailers", "with trailers"), "hints": lambda: text("/hints", "hinted"),
            "events": events, "reset": reset, "parallel": parallel,
        }.items():
            try:
                got = await check()
                print("ok " + name if got is True else f"FAIL {name}: {got!r}", flush=True)
            except Exception as e:
                print(f"FAIL {name}: {e!r}", flush=True)
    print("end", flush=True)


asyncio.run(main())
