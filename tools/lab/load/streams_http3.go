package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

// codeRejected is H3_REQUEST_REJECTED.
const codeRejected = 0x10b

// A http3Thread is a thread of a run over HTTP/3: a client for each connection, and a goroutine for
// each of its streams.
type http3Thread struct {
	*streams
	clients []*sluice.HostClient
}

// readRequest reads the request of HTTP/1.1 that is sent over HTTP/3.
func readRequest(c *Config) (*sluice.Request, error) {
	req := &sluice.Request{}
	err := req.Read(bufio.NewReader(bytes.NewReader(c.Request)))
	if err != nil {
		return nil, fmt.Errorf("the request cannot be sent over HTTP/3: %w", err)
	}
	req.UseHostHeader = true
	req.URI().SetScheme("https")
	if c.OncePerConn {
		req.SetConnectionClose()
	}
	return req, nil
}

func newHTTP3Thread(r *run, i int) *http3Thread {
	t := &http3Thread{streams: &streams{run: r, rec: r.recorders[i], count: r.share(i)}}
	if r.Rate > 0 {
		t.schedule = newSchedule(r.Rate, i, r.Threads)
		t.due = make(chan int64)
	}
	trace := &sluice.ClientTrace{GotConn: t.gotConn}
	for range t.count {
		t.clients = append(t.clients, &sluice.HostClient{
			Addr: r.Address, IsTLS: true, TLSConfig: r.TLS, DialDualStack: true,
			Transport: &http3.Transport{Mode: http3.Only}, MaxHTTP2Conns: 1, MaxConnWaitTimeout: r.Timeout,
			MaxIdemponentCallAttempts: 1, NoDefaultUserAgentHeader: true, Trace: trace,
		})
	}
	return t
}

// gotConn counts a new connection.
func (t *http3Thread) gotConn(info sluice.GotConnInfo) {
	if info.IsReused {
		return
	}
	t.met()
	t.rec.mu.Lock()
	defer t.rec.mu.Unlock()
	t.rec.Connections++
}

// close implements thread.
func (t *http3Thread) close() {
	for _, c := range t.clients {
		c.CloseIdleConnections()
	}
}

// each runs f for each stream of each connection, and waits for all.
func (t *http3Thread) each(f func(c *sluice.HostClient)) {
	var group sync.WaitGroup
	for _, c := range t.clients {
		for range t.Depth {
			group.Go(func() { f(c) })
		}
	}
	group.Wait()
}

// warm implements thread.
func (t *http3Thread) warm() {
	t.each(func(c *sluice.HostClient) {
		s := t.newStream(c)
		for range warmUps {
			if !s.exchange(t.now()) {
				return
			}
		}
	})
}

// work implements thread.
func (t *http3Thread) work() (unanswered, unsent int64) {
	var pacing sync.WaitGroup
	ended := make(chan struct{})
	if t.schedule != nil {
		pacing.Go(func() { unsent = t.pace(ended) })
	}
	t.each(func(c *sluice.HostClient) {
		s := t.newStream(c)
		for failures := 0; t.ctx.Err() == nil; {
			due, ok := t.nextDue()
			switch {
			case !ok:
				return
			case s.exchange(due):
				failures = 0
			case s.isLost:
				failures++
				t.missed()
				t.idle(time.Duration(pause(failures)))
			}
		}
	})
	close(ended)
	pacing.Wait()
	return t.owed.Load(), unsent
}

// nextDue returns when the next request is or was due.
func (t *http3Thread) nextDue() (due int64, ok bool) {
	if t.schedule == nil {
		return t.now(), t.begin(1) > 0
	}
	select {
	case due, ok = <-t.due:
		return due, ok
	case <-t.ctx.Done():
		return 0, false
	}
}

// A http3Stream sends one request after the other on a connection.
type http3Stream struct {
	*http3Thread
	client *sluice.HostClient
	req    sluice.Request
	resp   sluice.Response
	isLost bool // the last request has found no connection
}

func (t *http3Thread) newStream(c *sluice.HostClient) *http3Stream {
	s := &http3Stream{http3Thread: t, client: c}
	t.http3.CopyTo(&s.req)
	s.req.SetTimeout(t.Timeout)
	return s
}

// exchange sends a request that was due, and counts what comes of it. It reports whether that is a
// response.
func (s *http3Stream) exchange(due int64) bool {
	since := s.now()
	err := s.client.DoContext(s.ctx, &s.req, &s.resp)
	now := s.now()
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.isLost = false
	if err == nil {
		s.rec.Sent++
		s.rec.BytesWritten += int64(len(s.req.Body()))
		s.rec.BytesRead += int64(len(s.resp.Body()))
		s.rec.answered(s.resp.StatusCode()%maxStatus, due, since, now)
		return true
	}
	if s.ctx.Err() != nil { // it was cut off
		s.rec.Sent++
		s.owed.Add(1)
		if s.schedule != nil {
			record(s.rec.now.total, now-due)
		}
		return false
	}
	kind := kindOfHTTP3(err)
	s.isLost = kind == Connect
	if kind == Timeout {
		record(s.rec.now.total, now-due)
		err = errResponseTimeout
	}
	if !s.isLost {
		s.rec.Sent++
	}
	s.rec.failed(kind, err, 1)
	return false
}

// kindOfHTTP3 returns the kind of an error of a client.
func kindOfHTTP3(err error) Kind {
	var dial *sluice.ErrDialWithUpstream
	var own *http3.Error
	switch {
	case errors.As(err, &dial):
		return Connect
	case errors.Is(err, sluice.ErrTimeout):
		return Timeout
	case !errors.As(err, &own):
		return Read
	case own.IsRemote && own.Code == codeRejected:
		return Refused
	case own.IsRemote && errors.Is(err, io.EOF):
		return GoAway
	case own.IsRemote:
		return Reset
	case errors.Is(err, io.EOF):
		return Read
	}
	return Invalid
}
