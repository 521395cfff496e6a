package proxies

import (
	"bytes"
	"strconv"

	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// A proxyCase is a load, and what the upstream answers.
type proxyCase struct {
	name     string
	load     load.Load
	answer   peers.Answer
	bodySize int // of requests
}

func allCases() []proxyCase {
	return []proxyCase{
		{name: "64 connections", load: load.Load{Conns: 64}},
		{name: "512 connections", load: load.Load{Conns: 512}},
		{name: "100 KiB response", load: load.Load{Conns: 64}, answer: peers.AnswerLarge},
		{name: "upload of 64 KiB", load: load.Load{Conns: 64}, bodySize: 64 << 10},
		{name: "upload of 1 MiB", load: load.Load{Conns: 16}, bodySize: 1 << 20},
		{name: "TLS", load: load.Load{Conns: 64, TLS: true}},
		{name: "HTTP/2 over TLS, 32 × 10", load: load.Load{Conns: 32, Depth: 10, TLS: true, HTTP2: true}},
		{name: "connection per request", load: load.Load{Conns: 64, Close: true}},
	}
}

// request returns the case's request.
func (c proxyCase) request() []byte {
	method, needed := "GET", ""
	if c.load.Close {
		needed = "Connection: close\r\n"
	}
	if c.bodySize > 0 {
		method, needed = "POST", "Content-Length: "+strconv.Itoa(c.bodySize)+"\r\n"
	}
	head := method + " " + peers.Target + " HTTP/1.1\r\n" + load.TwoFields.Lines(needed) + "\r\n"
	return append([]byte(head), bytes.Repeat([]byte("x"), c.bodySize)...)
}

// body returns what every answer's body has to be.
func (c proxyCase) body() []byte {
	if c.answer == peers.AnswerLarge {
		return peers.Large()
	}
	return []byte(peers.Body)
}
