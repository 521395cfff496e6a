package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestPipelineTimeoutWhileQueued(t *testing.T) { synctest.Test(t, timeoutWhileQueued) }

func timeoutWhileQueued(t *testing.T) {
	c, peer := newPipelinePeer(t)
	dials := make(chan struct{})
	c.Dial = func(string) (net.Conn, error) {
		<-dials
		return peer.ln.Dial()
	}
	req, resp := new(sluice.Request), new(sluice.Response)
	for i := range 5 {
		req.SetRequestURI(fmt.Sprintf("http://x/lost/%d", i))
		resp.SetBodyString("of another answer")
		resp.SkipBody, resp.StreamBody = i%2 == 0, i%2 == 1
		if err := c.DoTimeout(req, resp, time.Millisecond); err != sluice.ErrTimeout {
			t.Fatalf("error %v", err)
		}
		if len(resp.Body()) > 0 || resp.SkipBody != (i%2 == 0) || resp.StreamBody != (i%2 == 1) {
			t.Errorf("the response after a time-out: %q, %v, %v", resp.Body(), resp.SkipBody, resp.StreamBody)
		}
		if n := c.PendingRequests(); n != 0 {
			t.Fatalf("%d pending requests", n)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	go func() {
		synctest.Wait() // it dials
		cancel(cause)
	}()
	err := c.DoContext(ctx, req, resp)
	if phase := (*sluice.PhaseError)(nil); !errors.As(err, &phase) || phase.Phase != sluice.PhaseDial || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if err := c.DoContext(ctx, req, resp); !errors.Is(err, cause) {
		t.Errorf("error %v of a context that has ended", err)
	}
	if err := c.DoDeadline(req, resp, time.Now().Add(-time.Second)); err != sluice.ErrTimeout {
		t.Errorf("error %v of a deadline that has passed", err)
	}
	call := beginCall(t, c, "GET", "/kept")
	close(dials)
	conn := peer.accept()
	conn.expect("/kept") // and nothing before
	conn.say(answerOK("kept"))
	call.want("kept")
}

func TestPipelineTimeoutOfWhatWasSent(t *testing.T) { synctest.Test(t, timeoutOfWhatWasSent) }

func timeoutOfWhatWasSent(t *testing.T) {
	c, peer := newPipelinePeer(t)
	req, resp := new(sluice.Request), new(sluice.Response)
	req.SetRequestURI("http://x/lost")
	req.SetTimeout(400 * time.Millisecond)
	lost := make(chan error, 1)
	go func() { lost <- c.Do(req, resp) }()
	conn := peer.accept()
	conn.expect("/lost")
	if err := <-lost; err != sluice.ErrTimeout {
		t.Fatalf("error %v", err)
	}
	resp.SetBodyString("poison")
	req.SetBodyString("poison")
	if n := c.PendingRequests(); n != 1 {
		t.Errorf("%d pending requests, want the one without an answer", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	go func() {
		req := new(sluice.Request)
		req.SetRequestURI("http://x/cancelled")
		cancelled <- c.DoContext(ctx, req, nil)
	}()
	conn.expect("/cancelled")
	cancel()
	err := <-cancelled
	if phase := (*sluice.PhaseError)(nil); !errors.As(err, &phase) || phase.Phase != sluice.PhaseRead || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	call := beginCall(t, c, "GET", "/kept")
	conn.expect("/kept")
	conn.say(answerOK("lost"), answerOK("cancelled"), answerOK("kept"))
	call.want("kept")
	if string(resp.Body()) != "poison" || string(req.Body()) != "poison" {
		t.Errorf("after its time-out the response has %q and the request %q", resp.Body(), req.Body())
	}
	if n := c.PendingRequests(); n != 0 {
		t.Errorf("%d pending requests", n)
	}
}

// A call has its time-out although what it uses served an earlier call.
func TestPipelineTimeoutAfterAnAnswer(t *testing.T) { synctest.Test(t, timeoutAfterAnAnswer) }

func timeoutAfterAnAnswer(t *testing.T) {
	c, peer := newPipelinePeer(t)
	call := beginCall(t, c, "GET", "/answered", func(req *sluice.Request, _ *sluice.Response) { req.SetTimeout(time.Second) })
	conn := peer.accept()
	conn.expect("/answered")
	conn.say(answerOK("answered"))
	call.want("answered")
	for range 3 {
		call := beginCall(t, c, "GET", "/lost", func(req *sluice.Request, _ *sluice.Response) { req.SetTimeout(time.Second) })
		if err := call.end(); err != sluice.ErrTimeout {
			t.Errorf("error %v", err)
		}
	}
}

// A time-out within an answer leaves the others alone.
func TestPipelineTimeoutWithinAnAnswer(t *testing.T) { synctest.Test(t, timeoutWithinAnAnswer) }

func timeoutWithinAnAnswer(t *testing.T) {
	c, peer := newPipelinePeer(t)
	answer := answerOK(strings.Repeat("x", 100))
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	req, resp := new(sluice.Request), new(sluice.Response)
	req.SetRequestURI("http://x/lost")
	go func() { lost <- c.DoContext(ctx, req, resp) }()
	conn := peer.accept()
	conn.expect("/lost")
	call := beginCall(t, c, "GET", "/kept")
	conn.expect("/kept")
	conn.say(answer[:60])
	cancel()
	if err := <-lost; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	resp.SetBodyString("poison")
	conn.say(answer[60:], answerOK("kept"))
	call.want("kept")
	if string(resp.Body()) != "poison" {
		t.Errorf("after its end the response has %q", resp.Body())
	}
}

// Few objects that are used again at once, while their time-outs come at any
// moment: the race detector and the answers tell whether somebody still has
// them.
func TestPipelineReuseAfterTimeout(t *testing.T) {
	noNewGoroutines(t)
	dial := inMemory(t, func(ctx *sluice.RequestCtx) {
		if n := rand.IntN(400); n < 2 {
			time.Sleep(time.Duration(n) * time.Millisecond)
		}
		ctx.Write(ctx.PostBody())
	})
	for _, conns := range []int{1, 3} {
		c := &sluice.PipelineClient{Addr: "x:80", Dial: dial, MaxConns: conns}
		t.Cleanup(c.CloseIdleConnections)
		var answered, late atomic.Int32
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() { reusePipelined(t, c, i, &answered, &late) })
		}
		group.Wait()
		t.Logf("%d connections: %d answers, %d time-outs", conns, answered.Load(), late.Load())
		waitUntil(t, "nothing is pending", func() bool { return c.PendingRequests() == 0 })
	}
}

func reusePipelined(t *testing.T, c *sluice.PipelineClient, id int, answered, late *atomic.Int32) {
	req, resp := new(sluice.Request), new(sluice.Response)
	poison := fmt.Sprintf("poison of %d", id)
	for n := range 300 {
		want := strings.Repeat(fmt.Sprintf("%d of %d;", n, id), 1+n%50)
		req.Reset()
		req.SetRequestURI("http://x/")
		req.Header.SetMethod("PUT")
		req.SetBodyString(want)
		var err error
		if timeout := time.Duration(rand.IntN(1000)) * time.Microsecond; n%2 == 0 {
			err = c.DoTimeout(req, resp, timeout)
		} else {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			err = c.DoContext(ctx, req, resp)
			cancel()
		}
		switch {
		case err == nil:
			answered.Add(1)
			if got := string(resp.Body()); got != want {
				t.Errorf("got %.40q, want %.40q", got, want)
				return
			}
		case errors.Is(err, sluice.ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
			late.Add(1)
		default:
			t.Error(err)
			return
		}
		req.SetBodyString(poison)
		resp.Header.Set("X-Poison", poison)
		resp.SetBodyString(poison)
	}
}
