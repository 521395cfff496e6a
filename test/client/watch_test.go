package client_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestUploadAfterTheAnswer: after an early answer the client goes on writing for as
// long as the server takes something within each refusalTime, and no longer.
func TestUploadAfterTheAnswer(t *testing.T) {
	const pieces = 16 // 256 KiB, the largest write, take half of refusalTime
	for name, reads := range map[string]int{"all is taken, slowly": pieces, "some is taken, then nothing": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := net.Pipe()
			defer server.Close()
			taken := make(chan int, 1)
			go func() {
				br := bufio.NewReaderSize(server, 16)
				for line, err := br.ReadString('\n'); err == nil && line != "\r\n"; {
					line, err = br.ReadString('\n')
				}
				go io.WriteString(server, harness.OKAnswer)
				got := 0
				for piece := make([]byte, uploadSize); got < reads; got++ {
					time.Sleep(refusalTime / 8)
					if _, err := io.ReadFull(br, piece); err != nil {
						break
					}
				}
				taken <- got
			}()
			c := &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return client, nil }}
			req, resp := harness.NewCall("POST", "http://h/")
			req.SetBody(make([]byte, pieces*uploadSize))
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if got := <-taken; got != reads {
				t.Errorf("the server has taken %d pieces, want %d", got, reads)
			}
		})
	}
}

// TestRefusalLimitsWriting: after the head of a redirect, writing gets a deadline, although
// the body has not come.
func TestRefusalLimitsWriting(t *testing.T) {
	var conn atomic.Pointer[hookedConn]
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.SkipHead()
		c.Send("HTTP/1.1 300 Multiple Choices\r\nContent-Length: 2\r\n\r\n")
		for end := time.Now().Add(clientPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, write := conn.Load().deadlines(); !write.IsZero() {
				c.Send("ok")
				break
			}
		}
	})
	c := p.Host()
	hooked(c, func(h *hookedConn) { conn.Store(h) })
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBody(make([]byte, 64<<20)) // more than sockets hold
	within(t, "the upload", func() {
		if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
			t.Errorf("%v, %q", err, resp.Body())
		}
	})
}

// TestInterimAnswersFillTheBuffer: the final answer of an upload comes after more interim
// ones than the buffer holds. One that is too large by itself is an error.
func TestInterimAnswersFillTheBuffer(t *testing.T) {
	interim := "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 300) + ">\r\n\r\n"
	for _, head := range []string{strings.Repeat(interim, 10), "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 1100) + ">\r\n\r\n"} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.SkipHead()
			c.Send(head + harness.OKAnswer)
			c.Gone()
		})
		c := p.Host()
		c.ReadBufferSize = 1000
		req, resp := harness.NewCall("POST", p.URL("/"))
		req.SetBody(make([]byte, uploadSize))
		err := c.Do(req, resp)
		if isWhole := strings.HasPrefix(head, interim); isWhole != (err == nil) || isWhole && string(resp.Body()) != "ok" {
			t.Errorf("%d bytes of interim answers: %v, %q", len(head), err, resp.Body())
		}
	}
}
