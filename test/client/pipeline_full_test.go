package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/test/harness"
)

// newFullPipeline returns a client whose dialing waits for dials, with a bound of
// its queue.
func newFullPipeline(t *testing.T, limit int) (c *sluice.PipelineClient, peer *pipelinePeer, dials chan struct{}) {
	c, peer = newPipelinePeer(t)
	c.MaxPendingRequests = limit
	dials = make(chan struct{})
	c.Dial = func(string) (net.Conn, error) {
		<-dials
		return peer.ln.Dial()
	}
	return c, peer, dials
}

// A request without a bound takes the place of the oldest in a full queue.
func TestPipelineOverflow(t *testing.T) { synctest.Test(t, pipelineOverflow) }

func pipelineOverflow(t *testing.T) {
	c, peer, dials := newFullPipeline(t, 3)
	calls := map[string]*pendingCall{}
	for _, target := range []string{"/a", "/b", "/c"} {
		calls[target] = beginCall(t, c, "GET", target)
	}
	for _, step := range [][2]string{{"/d", "/a"}, {"/e", "/b"}} {
		call := &pendingCall{t: t, req: new(sluice.Request), resp: new(sluice.Response), err: make(chan error, 1)}
		call.req.SetRequestURI("http://x" + step[0])
		go func() { call.err <- c.Do(call.req, call.resp) }()
		calls[step[0]] = call
		if err := calls[step[1]].end(); err != sluice.ErrPipelineOverflow {
			t.Errorf("%s: %v", step[1], err)
		}
		synctest.Wait() // it is queued
		if n := c.PendingRequests(); n != 3 {
			t.Errorf("%d pending requests", n)
		}
	}
	close(dials)
	conn := peer.accept()
	conn.expect("/c", "/d", "/e")
	conn.say(answerOK("c"), answerOK("d"), answerOK("e"))
	for _, target := range []string{"/c", "/d", "/e"} {
		calls[target].want(target[1:])
	}
}

// What is not answered is bounded, too, and the next is sent when an answer comes.
func TestPipelineUnansweredAreBounded(t *testing.T) { synctest.Test(t, pipelineUnansweredAreBounded) }

func pipelineUnansweredAreBounded(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.MaxPendingRequests = 2
	var calls []*pendingCall
	for i := range 4 {
		calls = append(calls, beginCall(t, c, "GET", fmt.Sprint("/", i)))
		synctest.Wait()
	}
	conn := peer.accept()
	conn.expect("/0", "/1")
	synctest.Wait()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	if n, err := conn.br.Read(make([]byte, 1)); n > 0 || !clock.IsTimeout(err) || c.PendingRequests() != 4 {
		t.Errorf("more than two were sent: %v, %d pending", err, c.PendingRequests())
	}
	_ = conn.SetReadDeadline(time.Now().Add(pipelineBound))
	for i, call := range calls {
		conn.say(answerOK(fmt.Sprint(i)))
		call.want(fmt.Sprint(i))
		if i < 2 {
			conn.expect(fmt.Sprint("/", i+2))
		}
	}
}

// A request with a bound waits for room, and takes no place from another.
func TestPipelineBoundedCallsWaitForRoom(t *testing.T) {
	synctest.Test(t, pipelineBoundedCallsWaitForRoom)
}

func pipelineBoundedCallsWaitForRoom(t *testing.T) {
	c, peer, dials := newFullPipeline(t, 1)
	first := beginCall(t, c, "GET", "/first")
	req, resp := new(sluice.Request), new(sluice.Response)
	req.SetRequestURI("http://x/lost")
	if err := c.DoTimeout(req, resp, 5*time.Millisecond); err != sluice.ErrTimeout {
		t.Errorf("DoTimeout: %v", err)
	}
	if err := c.DoDeadline(req, resp, time.Now().Add(5*time.Millisecond)); err != sluice.ErrTimeout {
		t.Errorf("DoDeadline: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	failed := make(chan error, 1)
	go func() { failed <- c.DoContext(ctx, req, resp) }()
	synctest.Wait() // it waits for room
	cancel(mine)
	err := <-failed
	if phase := (*sluice.PhaseError)(nil); !errors.As(err, &phase) || phase.Phase != sluice.PhaseWait || !errors.Is(err, mine) {
		t.Errorf("DoContext: %v", err)
	}
	var waiting sync.WaitGroup
	const others = 20
	for range others {
		waiting.Go(func() {
			req, resp := new(sluice.Request), new(sluice.Response)
			req.SetRequestURI("http://x/other")
			if err := c.DoTimeout(req, resp, pipelineBound); err != nil || string(resp.Body()) != "other" {
				t.Errorf("%v, %q", err, resp.Body())
			}
		})
	}
	synctest.Wait()
	close(dials)
	conn := peer.accept()
	conn.expect("/first")
	conn.say(answerOK("first"))
	first.want("first")
	for range others {
		conn.expect("/other")
		conn.say(answerOK("other"))
	}
	waiting.Wait()
	if n := c.PendingRequests(); n != 0 {
		t.Errorf("%d pending requests", n)
	}
}

// Room that comes to be in any way is given to who waits for it.
func TestPipelineRoomIsOffered(t *testing.T) { synctest.Test(t, pipelineRoomIsOffered) }

func pipelineRoomIsOffered(t *testing.T) {
	refused := errors.New("refused")
	c, _, dials := newFullPipeline(t, 2)
	c.Dial = func(string) (net.Conn, error) { <-dials; return nil, refused }
	begin := func(timeout time.Duration) chan error {
		done := make(chan error, 1)
		go func() {
			req, _ := harness.NewCall("GET", "http://x/")
			done <- c.DoTimeout(req, nil, timeout)
		}()
		return done
	}
	soon := begin(50 * time.Millisecond)
	synctest.Wait()
	later := begin(pipelineBound)
	synctest.Wait()
	third := begin(pipelineBound)
	if err := <-soon; err != sluice.ErrTimeout { // and the third has its place
		t.Error(err)
	}
	synctest.Wait()
	if n := c.PendingRequests(); n != 2 {
		t.Errorf("%d pending requests", n)
	}
	fourth, fifth := begin(pipelineBound), begin(pipelineBound)
	synctest.Wait()
	close(dials)
	for _, call := range []chan error{later, third, fourth, fifth} {
		if err := <-call; !errors.Is(err, refused) {
			t.Error(err)
		}
	}
}
