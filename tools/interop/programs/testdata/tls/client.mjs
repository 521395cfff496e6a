// The tour with node's tls.
// Usage: node client.mjs HOST PORT [version=1.2] [suite=NAME] [cert=FILE key=FILE]
import fs from "node:fs"
import tls from "node:tls"
import readline from "node:readline"

const [host, port, ...rest] = process.argv.slice(2)
const given = Object.fromEntries(rest.map((argument) => argument.split("=")))
const options = { host, port: Number(port), rejectUnauthorized: false }
if (given.version === "1.2") options.maxVersion = "TLSv1.2"
if (given.suite) options.ciphers = given.suite
if (given.cert) {
  options.cert = fs.readFileSync(given.cert)
  options.key = fs.readFileSync(given.key)
}

const UPLOAD = 1 << 20
const DOWNLOAD = 10 << 20
const pattern = (size) => Buffer.from(Array.from({ length: size }, (_, i) => i % 251))

function connect(session) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ ...options, session }, () => resolve(c))
    const c = { socket, received: [], wake: () => {}, ended: false, session: undefined }
    socket.on("session", (s) => { c.session = s })
    socket.on("data", (d) => { c.received.push(d); c.wake() })
    socket.on("end", () => { c.ended = true; c.wake() })
    socket.on("error", (e) => { c.failure = e; c.ended = true; c.wake(); reject(e) })
  })
}

// more waits for data; false: the connection has ended.
async function more(c) {
  const before = c.received.length
  while (c.received.length === before && !c.ended) await new Promise((resolve) => { c.wake = resolve })
  if (c.failure) throw c.failure
  return c.received.length > before
}

async function ask(c, method, path, body = Buffer.alloc(0), version = "1.1") {
  c.received = []
  c.socket.write(`${method} ${path} HTTP/${version}\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`)
  c.socket.write(body)
  let size, begin
  for (;;) {
    if (begin === undefined) {
      const data = Buffer.concat(c.received)
      const end = data.indexOf("\r\n\r\n")
      if (end >= 0) {
        begin = end + 4
        const head = data.subarray(0, end).toString()
        if (head.split(" ")[1] !== "200") throw new Error(head)
        const length = /content-length: (\d+)/i.exec(head)
        size = length ? Number(length[1]) : Infinity
      }
    }
    const got = c.received.reduce((sum, d) => sum + d.length, 0)
    if (begin !== undefined && got >= begin + size) break
    if (!await more(c)) {
      if (size === Infinity) break
      throw new Error("the connection ended")
    }
  }
  return Buffer.concat(c.received).subarray(begin)
}

async function who(c, count = 1) {
  for (let i = 0; i < count; i++) console.log("who " + await ask(c, "GET", "/who"))
}

let c = await connect()
await who(c, 20)
console.log("pause")
const lines = readline.createInterface({ input: process.stdin })
await new Promise((resolve) => lines.once("line", resolve))
lines.close()
await who(c, 20)
await ask(c, "POST", "/upload", pattern(UPLOAD))
console.log("ok upload")
if (!pattern(DOWNLOAD).equals(await ask(c, "GET", "/download"))) throw new Error("the download differs")
console.log("ok download")
const session = c.session
c.socket.end()

console.log("next")
c = await connect(session)
await who(c)
if ((await ask(c, "GET", "/bye", undefined, "1.0")).toString() !== "bye") throw new Error("another answer")
console.log("ok bye")
console.log("end")
process.exit(0)
