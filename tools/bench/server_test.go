package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

const (
	smallRequest = "GET " + peers.Target + " HTTP/1.1\r\n" +
		"Host: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"

	browserRequest = "GET /articles/2026/11/in-memory-benchmarks?page=2&sort=date HTTP/1.1\r\n" +
		"Host: www.example.com\r\n" +
		"Connection: keep-alive\r\n" +
		"Cache-Control: max-age=0\r\n" +
		"sec-ch-ua: \"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\"\r\n" +
		"Upgrade-Insecure-Requests: 1\r\n" +
		"User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n" +
		"Sec-Fetch-Site: same-origin\r\n" +
		"Referer: https://www.example.com/articles/2026/11/\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n" +
		"Cookie: session=2f7d9c1e8a6b4350; theme=dark; consent=all; _ga=GA1.1.1234567890.1700000000\r\n\r\n"
)

func get(perConn, clients int) scenario {
	return scenario{request: smallRequest, perConn: perConn, depth: 1, clients: clients}
}

func getBrowser() scenario {
	return scenario{request: browserRequest, perConn: 10_000, depth: 1}
}

func pipelined16() scenario {
	return scenario{request: smallRequest, perConn: 10_000, depth: 16}
}

func post1KiB() scenario {
	head := strings.Replace(smallRequest, "GET", "POST", 1)
	head = strings.TrimSuffix(head, "\r\n") + "Content-Type: application/octet-stream\r\nContent-Length: 1024\r\n\r\n"
	return scenario{request: head + strings.Repeat("0123456789abcdef", 64), bodySize: 1024, perConn: 10_000, depth: 1}
}

const manyClients = 10_000

// BenchmarkServer has each case with each server.
func BenchmarkServer(b *testing.B) {
	for _, c := range []struct {
		name string
		scenario
	}{
		{"Get1ReqPerConn", get(1, 0)}, {"Get2ReqPerConn", get(2, 0)}, {"Get10ReqPerConn", get(10, 0)}, {"Get10KReqPerConn", get(10_000, 0)},
		{"Get1ReqPerConn10KClients", get(1, manyClients)}, {"Get2ReqPerConn10KClients", get(2, manyClients)},
		{"Get10ReqPerConn10KClients", get(10, manyClients)}, {"Get100ReqPerConn10KClients", get(100, manyClients)},
		{"GetBrowser", getBrowser()}, {"Post1KiB", post1KiB()}, {"Pipelined16", pipelined16()},
	} {
		for _, by := range []struct{ name, kind string }{{"sluice", peers.Sluice}, {"fasthttp", peers.FastHTTP}, {"nethttp", peers.NetHTTP}, {"floor", floorKind}} {
			b.Run(c.name+"/"+by.name, func(b *testing.B) { c.run(b, by.kind) })
		}
	}
}

// The harness refuses servers that answer too little, too much or wrongly.
func TestResponseCounter(t *testing.T) {
	good := "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 13\r\n\r\n" + peers.Body
	for _, c := range []struct {
		output string
		count  int
		fails  bool
	}{
		{"", 0, false},
		{good, 1, false},
		{good + good + good, 3, false},
		{good + good[:20], 1, false},
		{good[:len(good)-1], 0, false},
		{strings.Replace(good, "200 OK", "400 No", 1), 0, true},
		{strings.Replace(good, "13", "12", 1), 0, true},
		{strings.Replace(good, "Content-Length", "Content-Breadth", 1), 0, true},
		{good[:len(good)-1] + "?", 0, true},
		{good + "x" + good, 1, true},
	} {
		for _, step := range []int{len(c.output) + 1, 100, 31} {
			if err := feed(c.output, step, c.count, c.fails); err != nil && !(c.fails && step == 31) {
				t.Errorf("%q by %d: %v", c.output, step, err)
			}
		}
	}
}

// feed gives output to a counter in pieces and compares what it says.
func feed(output string, step, count int, fails bool) error {
	var c responseCounter
	got := 0
	for rest := output; rest != ""; {
		piece := rest[:min(step, len(rest))]
		rest = rest[len(piece):]
		n, err := c.add([]byte(piece))
		got += n
		if err != nil {
			if fails {
				return nil
			}
			return err
		}
	}
	if fails || got != count {
		return fmt.Errorf("counted %d, want %d (fails: %v)", got, count, fails)
	}
	return nil
}
