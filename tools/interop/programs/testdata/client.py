"""The checks with httpx.

Usage: python3 client.py URL UPLOAD
"""

import asyncio
import sys

import httpx

base, upload = sys.argv[1:3]
with open(upload, "rb") as f:
    large = f.read()


async def check(name, f):
    try:
        got = await f()
        print("ok " + name if got is True else f"FAIL {name}: {got!r}", flush=True)
    except Exception as e:
        print(f"FAIL {name}: {e!r}", flush=True)


async def main():
    async with httpx.AsyncClient(base_url=base, http1=False, http2=True, verify=False, timeout=30) as c:

        async def get():
            r = await c.get("/hello")
            return r.http_version == "HTTP/2" and r.text == "hello" or r

        async def post(n):
            r = await c.post("/echo", content=large[:n])
            return r.text.startswith(f"{n} ") or r.text

        async def head():
            r = await c.head("/hello")
            return r.headers["content-length"] == "5" and not r.content or r

        async def empty(status):
            r = await c.get(f"/{status}")
            return r.status_code == status and not r.content or r

        async def whole():
            r = await c.get("/large")
            return len(r.content) == len(large) or len(r.content)

        async def stream():
            async with c.stream("GET", "/stream") as r:
                lines = [line async for line in r.aiter_lines()]
            return lines == [f"line {i}" for i in range(10)] or lines

        async def text(path, want):
            r = await c.get(path)
            return r.text == want or r.text

        async def reset():
            async with c.stream("GET", "/slow") as r:
                return r.status_code == 200

        async def parallel():
            return all(await asyncio.gather(*(stream() for _ in range(100))))

        await check("get", get)
        await check("post of 1 KB", lambda: post(1024))
        await check("post of 5 MB", lambda: post(len(large)))
        await check("head", head)
        await check("204", lambda: empty(204))
        await check("304", lambda: empty(304))
        await check("large", whole)
        await check("stream", stream)
        await check("trailers", lambda: text("/trailers", "with trailers"))
        await check("hints", lambda: text("/hints", "hinted"))
        await check("reset", reset)
        await check("parallel", parallel)
    print("end")


asyncio.run(main())
