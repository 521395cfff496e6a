// The checks with node's http2, then requests while the server is replaced.
// Usage: node client.mjs URL UPLOAD COUNT
import http2 from "node:http2"
import fs from "node:fs"

const [base, upload, count] = process.argv.slice(2)
const options = { rejectUnauthorized: false }
let session

function connect() {
  const own = http2.connect(base, options)
  const leave = () => { if (session === own) session = null }
  own.on("error", () => {})
  own.on("goaway", leave)
  own.on("close", leave)
  session = own
}

function ask(path, fields = {}, body) {
  if (!session || session.closed || session.destroyed) connect()
  return new Promise((resolve, reject) => {
    const result = { body: 0, text: "", hints: 0, trailers: {} }
    const stream = session.request({ ":path": path, ...fields }, { endStream: body === undefined })
    stream.on("response", (head) => { result.status = head[":status"]; result.head = head })
    stream.on("headers", (head) => { if (head[":status"] === 103) result.hints++ })
    stream.on("trailers", (t) => { result.trailers = t })
    stream.on("data", (d) => { result.body += d.length; if (result.body < 1000) result.text += d })
    stream.on("error", reject)
    stream.on("close", () => stream.rstCode ? reject(new Error("reset " + stream.rstCode)) : resolve(result))
    if (body !== undefined) stream.end(body)
  })
}

async function check(name, f) {
  try {
    const got = await f()
    console.log(got === true ? "ok " + name : "FAIL " + name + ": " + JSON.stringify(got))
  } catch (e) {
    console.log("FAIL " + name + ": " + e)
  }
}

const large = fs.readFileSync(upload)
await check("get", async () => { const r = await ask("/hello"); return r.status === 200 && r.text === "hello" && r.head["x-protocol"] === "HTTP/2.0" || r })
await check("post of 1 KB", async () => { const r = await ask("/echo", { ":method": "POST" }, large.subarray(0, 1024)); return r.text.startsWith("1024 ") || r })
await check("post of 5 MB", async () => { const r = await ask("/echo", { ":method": "POST" }, large); return r.text.startsWith(large.length + " ") || r })
await check("head", async () => { const r = await ask("/hello", { ":method": "HEAD" }); return r.head["content-length"] === "5" && r.body === 0 || r })
await check("204", async () => { const r = await ask("/204"); return r.status === 204 && r.body === 0 || r })
await check("304", async () => { const r = await ask("/304"); return r.status === 304 && r.body === 0 || r })
await check("large", async () => { const r = await ask("/large"); return r.body === large.length || r.body })
await check("stream", async () => { const r = await ask("/stream"); return r.text.endsWith("line 9\n") || r })
await check("trailers", async () => { const r = await ask("/trailers"); return r.text === "with trailers" && r.trailers["x-sum"] === "42" || r })
await check("hints", async () => { const r = await ask("/hints"); return r.hints === 1 && r.text === "hinted" || r })
await check("reset", () => new Promise((resolve) => {
  const stream = session.request({ ":path": "/slow" })
  stream.on("error", () => {})
  stream.on("close", () => resolve(stream.rstCode === http2.constants.NGHTTP2_CANCEL || stream.rstCode))
  stream.on("response", () => stream.close(http2.constants.NGHTTP2_CANCEL))
}))
await check("parallel", async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => ask("/stream")))
  return all.every((r) => r.text.endsWith("line 9\n"))
})

let next = 0
await Promise.all(Array.from({ length: 20 }, async () => {
  while (next < count) {
    const n = next++
    try {
      const r = await ask("/id?n=" + n)
      if (r.text !== "id") console.log("FAIL load: " + JSON.stringify(r))
    } catch (e) {
      console.log("failed " + n + " " + e)
    }
  }
}))
console.log("end")
if (session) session.destroy()
