"""The tour with libcurl.

Usage: python3 curl.py HOST PORT [version=1.2] [cert=FILE key=FILE]
"""

import io
import sys

import pycurl

base = f"https://{sys.argv[1]}:{sys.argv[2]}"
options = dict(argument.split("=", 1) for argument in sys.argv[3:])
c = pycurl.Curl()

UPLOAD, DOWNLOAD = 1 << 20, 10 << 20


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def ask(path, body=None, version=pycurl.CURL_HTTP_VERSION_1_1, fresh=False):
    got = io.BytesIO()
    c.reset()  # connections and sessions stay
    c.setopt(pycurl.URL, base + path)
    c.setopt(pycurl.SSL_VERIFYPEER, 0)
    c.setopt(pycurl.SSL_VERIFYHOST, 0)
    c.setopt(pycurl.TIMEOUT, 30)
    c.setopt(pycurl.FAILONERROR, 1)
    c.setopt(pycurl.HTTP_VERSION, version)
    c.setopt(pycurl.SSL_ENABLE_ALPN, version != pycurl.CURL_HTTP_VERSION_1_0)  # no server takes "http/1.0"
    c.setopt(pycurl.WRITEDATA, got)
    c.setopt(pycurl.FRESH_CONNECT, fresh)
    if options.get("version") == "1.2":
        c.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_MAX_TLSv1_2)
    if "cert" in options:
        c.setopt(pycurl.SSLCERT, options["cert"])
        c.setopt(pycurl.SSLKEY, options["key"])
    if body is not None:
        c.setopt(pycurl.POSTFIELDS, body)
    c.perform()
    return got.getvalue()


def who(count=1, fresh=False):
    for _ in range(count):
        print("who", ask("/who", fresh=fresh).decode())


who(20)
print("pause", flush=True)
sys.stdin.readline()
who(20)
ask("/upload", pattern(UPLOAD))
print("ok upload")
if ask("/download") != pattern(DOWNLOAD):
    raise ValueError("the download differs")
print("ok download")
print("next")
who(fresh=True)
if ask("/bye", version=pycurl.CURL_HTTP_VERSION_1_0, fresh=True) != b"bye":
    raise ValueError("another answer")
print("ok bye")
c.close()
print("end")
