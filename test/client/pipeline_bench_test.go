package client_test

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// dialEcho connects to a server that costs next to nothing: it counts the heads
// and answers as many times, all at once.
func dialEcho(string) (net.Conn, error) {
	pipes := fasthttputil.NewPipeConns()
	go answerHeads(pipes.Conn2())
	return pipes.Conn1(), nil
}

func answerHeads(conn net.Conn) {
	const most = 512
	answer := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nDate: Sun, 22 Nov 2026 04:28:58 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\nhello")
	answers := bytes.Repeat(answer, most)
	end := []byte("\r\n\r\n")
	in := make([]byte, 64<<10)
	for kept := 0; ; {
		n, err := conn.Read(in[kept:])
		if err != nil {
			_ = conn.Close()
			return
		}
		got := in[:kept+n]
		heads := bytes.Count(got, end)
		if heads == 0 {
			kept = len(got)
			continue
		}
		kept = copy(in, got[bytes.LastIndex(got, end)+len(end):])
		for ; heads > 0; heads -= min(heads, most) {
			if _, err := conn.Write(answers[:min(heads, most)*len(answer)]); err != nil {
				return
			}
		}
	}
}

func BenchmarkPipelineClient(b *testing.B) {
	for _, clients := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			c := &sluice.PipelineClient{Addr: "x:80", Dial: dialEcho}
			b.ReportAllocs()
			shareOut(b, clients, func() func() error {
				req, resp := new(sluice.Request), new(sluice.Response)
				req.SetRequestURI("http://x/path?query=1")
				return func() error { return c.DoTimeout(req, resp, time.Minute) }
			})
			c.CloseIdleConnections()
		})
	}
}

// shareOut lets as many goroutines as there are clients do b.N requests.
func shareOut(b *testing.B, clients int, client func() func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	for range clients {
		do := client()
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
