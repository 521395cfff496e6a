package sluice

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
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
				go io.WriteString(server, okAnswer)
				got := 0
				for piece := make([]byte, watchedBody); got < reads; got++ {
					time.Sleep(refusalTime / 8)
					if _, err := io.ReadFull(br, piece); err != nil {
						break
					}
				}
				taken <- got
			}()
			c := &HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return client, nil }}
			req, resp := newCall("POST", "http://h/")
			req.SetBody(make([]byte, pieces*watchedBody))
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if got := <-taken; got != reads {
				t.Errorf("the server has taken %d pieces, want %d", got, reads)
			}
		})
	}
}

// signalling tells when it is closed.
type signalling struct{ closed chan struct{} }

func (s *signalling) Close() error { close(s.closed); return nil }

// TestJoin: what join returns, and when it interrupts the writing.
func TestJoin(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		err     error // of the writing
		isLate  bool  // it ends after it was interrupted
		ctx     context.Context
		isCut   bool
		pending bool // it ends while join waits
	}{
		{"ended", nil, false, nil, false, false},
		{"failed", errStub, false, nil, false, false},
		{"ends", nil, false, nil, false, true},
		{"fails", errStub, false, nil, false, true},
		{"ends at the interruption", nil, true, nil, false, false},
		{"interrupted", errStub, true, nil, true, false},
		{"context ended", errStub, true, ended, true, false},
	} {
		stub := &stubConn{}
		x := &exchange{cc: newClientConn(stub, "h:80"), call: &clientCall{Bounds: clock.Bounds{Context: tc.ctx}}}
		source := &signalling{make(chan struct{})}
		w := &watch{source: source}
		written := make(chan error, 1)
		patience := time.Hour
		switch {
		case tc.isLate:
			if tc.ctx == nil {
				patience = 0
			}
			go func() { <-source.closed; written <- tc.err }()
		case tc.pending:
			go func() {
				eventually(t, "join waits", func() bool { return stackShows("(*watch).join", "[select") })
				written <- tc.err
			}()
		default:
			written <- tc.err
		}
		within(t, tc.name, func() {
			if err, isCut := w.join(x, written, patience); err != tc.err || isCut != tc.isCut {
				t.Errorf("%s: %v, cut %v", tc.name, err, isCut)
			}
		})
		if want := map[bool]string{true: "[write past]", false: "[]"}[tc.isLate]; fmt.Sprint(stub.told) != want {
			t.Errorf("%s: %q, want %s", tc.name, stub.told, want)
		}
	}
}

// TestRefusalLimitsWriting: after the head of a redirect, writing gets a deadline, although
// the body has not come.
func TestRefusalLimitsWriting(t *testing.T) {
	var conn atomic.Pointer[hookedConn]
	p := newClientPeer(t, func(c *peerConn) {
		c.skipHead()
		c.send("HTTP/1.1 300 Multiple Choices\r\nContent-Length: 2\r\n\r\n")
		for end := time.Now().Add(clientPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, write := conn.Load().deadlines(); !write.IsZero() {
				c.send("ok")
				break
			}
		}
	})
	c := p.host()
	hooked(c, func(h *hookedConn) { conn.Store(h) })
	req, resp := newCall("POST", p.url("/"))
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
		p := newClientPeer(t, func(c *peerConn) {
			c.skipHead()
			c.send(head + okAnswer)
			c.gone()
		})
		c := p.host()
		c.ReadBufferSize = 1000
		req, resp := newCall("POST", p.url("/"))
		req.SetBody(make([]byte, watchedBody))
		err := c.Do(req, resp)
		if isWhole := strings.HasPrefix(head, interim); isWhole != (err == nil) || isWhole && string(resp.Body()) != "ok" {
			t.Errorf("%d bytes of interim answers: %v, %q", len(head), err, resp.Body())
		}
	}
}

// TestWriteAside: how long the answer is waited for after the writing has ended.
func TestWriteAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name  string
			stub  stubConn
			body  io.Reader
			read  time.Duration
			isOld bool // the answer has come before
			err   error
			want  string
		}{
			{"written", stubConn{}, strings.NewReader("body"), time.Minute, false, nil, "[read 1m0s]"},
			{"written, no limit", stubConn{}, strings.NewReader("body"), 0, false, nil, "[]"},
			{"written, answered", stubConn{}, strings.NewReader("body"), time.Minute, true, nil, "[]"},
			{"the connection fails", stubConn{failAt: 1}, strings.NewReader("body"), 0, false, errStub, "[read 1s]"},
			{"the body fails", stubConn{}, iotest.ErrReader(errSick), 0, false, errSick, "[read -1ns]"},
		} {
			cc := newClientConn(&tc.stub, "h:80")
			req, _ := newCall("POST", "http://h/")
			req.SetBodyStream(tc.body, -1)
			x := &exchange{c: &HostClient{ReadTimeout: tc.read}, cc: cc, req: req, call: &req.call}
			if err := x.writeAside(acquireClientWriter(cc, 4096), &watch{isAnswered: tc.isOld}); !errors.Is(err, tc.err) || fmt.Sprint(tc.stub.told) != tc.want {
				t.Errorf("%s: %v, %q, want %s", tc.name, err, tc.stub.told, tc.want)
			}
		}
	})
}

// TestUnanswered: what has come of an answer counts, even one byte, unless the writing has
// failed.
func TestUnanswered(t *testing.T) {
	for _, tc := range []struct {
		name, came string
		err        error // of waiting
		written    error
		want       error
	}{
		{"nothing came", "", errStub, nil, errStub},
		{"nothing came, the end", "", io.EOF, nil, io.EOF},
		{"writing has failed", "H", errStub, errSick, errSick},
		{"one byte came", "H", errStub, nil, io.ErrUnexpectedEOF},
	} {
		var traced error
		call := &clientCall{trace: &ClientTrace{WroteRequest: func(err error) { traced = err }}}
		x := &exchange{c: &HostClient{}, br: acquireClientInput(strings.NewReader(tc.came), 64), call: call, resp: new(Response), req: new(Request)}
		_, _ = x.br.Peek(1)
		if err := x.unanswered(tc.err, tc.written); !errors.Is(err, tc.want) || traced != tc.written {
			t.Errorf("%s: %v, want %v; traced %v", tc.name, err, tc.want, traced)
		}
	}
}
