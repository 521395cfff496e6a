package wire

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A sample is one server's turn in one round.
type sample struct {
	load.Result
	usage    process.Usage // of the server with its processes
	resident int64         // bytes of its memory, afterwards
}

// A wireCase is a load, what the servers are to reach under it, and what was
// measured.
type wireCase struct {
	name   string
	load   load.Load
	head   load.Head
	fields string // of the request's head that the load needs, in place of a browser's
	target string // "": peers.Target
	peer   peers.Options
	file   []byte // of peers.AnswerFile; nil: peers.Text
	idle   int    // connections that do nothing, besides the load's
	shared bool   // nothing is pinned: servers have all CPUs, and share them with the client
	apart  bool   // servers have as many Ps, or processes, as there are CPUs, on a CPU of their own
	half   bool   // an open loop, at half of the rate that the baseline reaches in a closed one
	extra  bool   // not with --quick
	spread bool   // with --full, this case is repeated with as many Ps as there are CPUs

	goal goal // of Sluice on the engine epoll

	samples map[string][]sample // by kind, round by round
	perIdle map[string]float64  // bytes of memory for each idle connection, by kind
	absent  map[string]string   // why a kind is not there
	sizes   map[string]int      // bytes of a response, by kind
}

// A goal is the most that CPU time per request may be; 0: there is none.
type goal struct {
	cpu   float64 // ÷ the baseline's
	user  float64 // user time ÷ the baseline's
	floor float64 // ÷ the floor's
	nginx float64 // ÷ nginx's
}

// fileName is the file of the case of static files.
const fileName = "file.html"

// allCases returns the cases with the project's goals.
func allCases() []*wireCase {
	return []*wireCase{
		{name: "64 connections", load: load.Load{Conns: 64}, spread: true, goal: goal{user: .50, floor: 1.12}},
		{name: "512 connections", load: load.Load{Conns: 512}, spread: true, goal: goal{user: .50, floor: 1.12}},
		{name: "pipeline of 16", load: load.Load{Conns: 64, Depth: 16}, spread: true, goal: goal{user: .55, floor: 1.6}},
		{name: "connection per request", load: load.Load{Conns: 64, Close: true}, goal: goal{floor: 1.15}},
		{name: "connection per request, half load", load: load.Load{Conns: 64, Close: true}, half: true, extra: true},
		{name: "10,000 idle and 64 active", load: load.Load{Conns: 64}, idle: 10_000, goal: goal{floor: 1.12}},
		{name: "POST 1 KiB", load: load.Load{Conns: 64}, peer: peers.Options{BodySize: 1 << 10}, goal: goal{cpu: .85}},
		{name: "100 KiB response", load: load.Load{Conns: 64}, peer: peers.Options{Answer: peers.AnswerLarge}, goal: goal{cpu: .85}},
		{name: "static file of 10 KiB", load: load.Load{Conns: 64}, target: "/" + fileName, peer: peers.Options{Answer: peers.AnswerFile}},
		{name: "JSON", load: load.Load{Conns: 64}, peer: peers.Options{Answer: peers.AnswerJSON}, goal: goal{cpu: .85}},
		{name: "gzip of 10 KiB", load: load.Load{Conns: 64}, fields: "Accept-Encoding: gzip\r\n", peer: peers.Options{Answer: peers.AnswerGzip}},
		{name: "TLS", load: load.Load{Conns: 64, TLS: true}, peer: peers.Options{TLS: true}, goal: goal{cpu: .85}},
		{name: "sleeps 1 ms, 64 connections", load: load.Load{Conns: 64}, peer: peers.Options{Handler: peers.Handler{Sleep: time.Millisecond}}, extra: true},
		{name: "sleeps 1 ms, 512 connections", load: load.Load{Conns: 512}, peer: peers.Options{Handler: peers.Handler{Sleep: time.Millisecond}}, extra: true},
	}
}

// label names the case with its head.
func (c *wireCase) label() string { return c.name + ", " + c.head.String() }

// begin makes room for what is measured.
func (c *wireCase) begin() *wireCase {
	c.samples, c.perIdle, c.absent = make(map[string][]sample), make(map[string]float64), make(map[string]string)
	c.sizes = make(map[string]int)
	return c
}

// request returns the case's request.
func (c *wireCase) request() []byte {
	target, method, needed := c.target, "GET", c.fields
	if target == "" {
		target = peers.Target
	}
	if c.load.Close {
		needed += "Connection: close\r\n"
	}
	body := make([]byte, c.peer.BodySize)
	if len(body) > 0 {
		method = "POST"
		needed += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
		for i := range body {
			body[i] = 'x'
		}
	}
	return append([]byte(method+" "+target+" HTTP/1.1\r\n"+c.head.Lines(needed)+"\r\n"), body...)
}

// body returns what every answer's body has to be.
func (c *wireCase) body() []byte {
	switch c.peer.Answer {
	case peers.AnswerLarge:
		return peers.Large()
	case peers.AnswerJSON:
		return peers.JSONBody()
	case peers.AnswerFile:
		if c.file != nil {
			return c.file
		}
		return peers.Text()
	case peers.AnswerGzip:
		return peers.Text()
	}
	return []byte(peers.Body)
}

// writeBody writes the body into a file of a folder of its own, and returns the file.
func (c *wireCase) writeBody(folder string) (file string, err error) {
	folder = filepath.Join(folder, "files", c.word())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	file = filepath.Join(folder, fileName)
	return file, os.WriteFile(file, c.body(), 0o600)
}

// word is what programs of --program get for {case}.
func (c *wireCase) word() string {
	switch {
	case c.peer.TLS:
		return "tls"
	case c.peer.Handler.Sleep > 0:
		return "sleep"
	case c.peer.Answer == peers.AnswerHello:
		return "text"
	}
	return strings.ToLower(string(c.peer.Answer))
}

// needs says what a program of --program has to be told for the case: which body to answer
// with, and what else it is to do.
func (c *wireCase) needs() (body, word bool) {
	a := c.peer.Answer
	return a != peers.AnswerHello, a == peers.AnswerGzip || a == peers.AnswerFile || c.peer.TLS || c.peer.Handler.Sleep > 0
}
