package difftest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// A pipeline is a PipelineClient of either library.
type pipeline struct {
	do       func(target string, timeout time.Duration) error // 0: none
	pending  func() int
	overflow error
	timeout  error
}

func newPipelines(addr string, limit int, dial func(addr string) (net.Conn, error)) map[string]pipeline {
	theirs := &fasthttp.PipelineClient{Addr: addr, MaxPendingRequests: limit, Dial: dial}
	ours := &sluice.PipelineClient{Addr: addr, MaxPendingRequests: limit, Dial: dial}
	return map[string]pipeline{
		"fasthttp": {func(target string, timeout time.Duration) error {
			var req fasthttp.Request
			var resp fasthttp.Response
			req.SetRequestURI("http://" + addr + target)
			if timeout > 0 {
				return theirs.DoTimeout(&req, &resp, timeout)
			}
			return theirs.Do(&req, &resp)
		}, theirs.PendingRequests, fasthttp.ErrPipelineOverflow, fasthttp.ErrTimeout},
		"sluice": {func(target string, timeout time.Duration) error {
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI("http://" + addr + target)
			if timeout > 0 {
				return ours.DoTimeout(&req, &resp, timeout)
			}
			return ours.Do(&req, &resp)
		}, ours.PendingRequests, sluice.ErrPipelineOverflow, sluice.ErrTimeout},
	}
}

// describe names an error.
func (p pipeline) describe(err error) string {
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, p.overflow):
		return "overflow"
	case errors.Is(err, p.timeout):
		return "time-out"
	}
	return "error"
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestPipelineFull: a full queue (4.5).
func TestPipelineFull(t *testing.T) {
	run := func(name string) func(string) string {
		return func(last string) string {
			a := newAnswerer(t, func(int) (string, bool) { return okAnswer, false })
			dials := make(chan struct{})
			p := newPipelines(a.Addr().String(), 2, func(addr string) (net.Conn, error) {
				<-dials
				return net.Dial("tcp", addr)
			})[name]
			results := make([]chan error, 3)
			for i := range results {
				results[i] = make(chan error, 1)
			}
			for i := range 2 {
				result := results[i]
				go func() { result <- p.do(fmt.Sprint("/", i), 0) }()
				for p.pending() <= i {
					time.Sleep(time.Millisecond)
				}
			}
			var outcome []string
			third := results[2]
			switch last {
			case "time-out":
				third <- p.do("/2", 20*time.Millisecond)
			case "displaces":
				go func() { third <- p.do("/2", 0) }()
				outcome = append(outcome, p.describe(<-results[0]))
				results = results[1:]
			default:
				go func() { third <- p.do("/2", time.Minute) }()
			}
			close(dials)
			for _, result := range results {
				outcome = append(outcome, p.describe(<-result))
			}
			return fmt.Sprint(outcome, a.requests.Load())
		}
	}
	compare(t, []string{"time-out", "displaces", "waits"}, nil, run("fasthttp"), run("sluice"))
}

// TestPipelineClosed: a connection that the server closes without an answer is
// reported immediately (4.5). What fasthttp makes of requests that follow soon is chance, and so is
// whether it has connected again by then.
func TestPipelineClosed(t *testing.T) {
	run := func(name string) func(string) string {
		return func(string) string {
			a := newAnswerer(t, func(int) (string, bool) { return "", true })
			err := newPipelines(a.Addr().String(), 2, nil)[name].do("/", 0)
			if n := a.conns.Load(); name == "sluice" && n != 1 {
				t.Errorf("%d connections", n)
			}
			return fmt.Sprint(err != nil, a.requests.Load())
		}
	}
	compare(t, []string{"GET"}, nil, run("fasthttp"), run("sluice"))
}

// TestPipelineEnds: a connection that was used ends without an answer to the next
// request. Sluice repeats it where that is safe, and names the end.
func TestPipelineEnds(t *testing.T) {
	run := func(name string) func(string) string {
		return func(input string) string {
			a := newAnswerer(t, func(number int) (string, bool) {
				if number == 1 && input == "after an answer" || number == 3 {
					return okAnswer, false
				}
				return "", true
			})
			p := newPipelines(a.Addr().String(), 2, nil)[name]
			var outcome []any
			if input == "after an answer" {
				outcome = append(outcome, p.do("/1", 0))
			}
			err := p.do("/2", 0)
			return fmt.Sprint(append(outcome, err == nil, errors.Is(err, io.EOF), err == io.EOF, errors.Is(err, sluice.ErrConnectionClosed), a.requests.Load())...)
		}
	}
	compare(t, []string{"at once", "after an answer"}, differences{"at once": "L34", "after an answer": "L34"}, run("fasthttp"), run("sluice"))
}
