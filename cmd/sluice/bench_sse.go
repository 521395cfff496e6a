package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tools/lab/load"
)

const (
	// maxOpening is how many streams are opened at a time.
	maxOpening = 128
	// A stream that has ended is opened again after its own pause, or one of these,
	// which doubles each time.
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
)

var errNotStream = errors.New("the response is no stream of events")

// A streamCount is what was measured of streams. The responses of its result are the events.
type streamCount struct {
	mu       sync.Mutex
	result   load.Result
	opened   int64                   // streams
	again    int64                   // of those, by connections that had one before
	ended    int64                   // by the server, in order
	opening  *hdrhistogram.Histogram // from connecting to the first byte
	interval *hdrhistogram.Histogram // between two events of a stream
}

func newStreamCount() *streamCount {
	const longest, digits = int64(time.Hour), 3
	return &streamCount{
		result:   load.Result{Latency: hdrhistogram.New(1, longest, digits)}, // events have none
		opening:  hdrhistogram.New(1, longest, digits),
		interval: hdrhistogram.New(1, longest, digits),
	}
}

// record adds a duration.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 1), time.Hour))) // which is within the bounds
}

// failed counts an error.
func (c *streamCount) failed(kind load.Kind, err error) {
	c.result.Errors[kind]++
	if c.result.Examples[kind] == nil {
		c.result.Examples[kind] = err
	}
}

// add adds what another counted.
func (c *streamCount) add(other *streamCount) {
	other.mu.Lock()
	defer other.mu.Unlock()
	c.result.Add(&other.result.Counts)
	for i, err := range other.result.Examples {
		if c.result.Examples[i] == nil {
			c.result.Examples[i] = err
		}
	}
	c.opened += other.opened
	c.again += other.again
	c.ended += other.ended
	c.opening.Merge(other.opening)
	c.interval.Merge(other.interval)
}

// A streamBench reads streams of server-sent events with a goroutine for each.
type streamBench struct {
	load.Config
	opening chan struct{} // has an element for each stream that is being opened
	events  atomic.Int64  // of all streams
	isThere atomic.Bool   // there was a connection
	cancel  context.CancelCauseFunc
	counts  []*streamCount // each for a part of the streams
}

// runStreams reads streams until ctx ends, or what config says is done. The error is
// load.ErrNoConnection if not one connection could be made.
func runStreams(ctx context.Context, config load.Config) (*streamCount, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &streamBench{Config: config, opening: make(chan struct{}, maxOpening), cancel: cancel}
	for range config.Threads {
		b.counts = append(b.counts, newStreamCount())
	}
	begin := time.Now()
	if config.Duration > 0 {
		defer time.AfterFunc(config.Duration, func() { cancel(nil) }).Stop()
	}
	var streams sync.WaitGroup
	for i := range config.Connections {
		streams.Go(func() { b.keepOpen(ctx, b.counts[i%len(b.counts)]) })
	}
	rates := b.watch(ctx, begin)
	elapsed := time.Since(begin)
	streams.Wait()
	all := newStreamCount()
	for _, c := range b.counts {
		all.add(c)
	}
	all.result.Elapsed, all.result.Rates = elapsed, rates
	if err := context.Cause(ctx); errors.Is(err, load.ErrNoConnection) {
		return all, err
	}
	return all, nil
}

// watch returns the events per second, second by second, when ctx ends.
func (b *streamBench) watch(ctx context.Context, begin time.Time) (rates []float64) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	none := hdrhistogram.New(1, 2, 1)
	before, since := int64(0), begin
	for {
		select {
		case <-ctx.Done():
			return rates
		case now := <-ticker.C:
			events := b.events.Load()
			rate := float64(events-before) / now.Sub(since).Seconds()
			rates = append(rates, rate)
			before, since = events, now
			if b.Progress != nil {
				b.Progress(load.Progress{Elapsed: now.Sub(begin), Counts: b.now(), Rate: rate, Latency: none})
			}
		}
	}
}

// now returns what was counted up to now.
func (b *streamBench) now() *load.Counts {
	sum := &load.Counts{}
	for _, c := range b.counts {
		c.mu.Lock()
		sum.Add(&c.result.Counts)
		c.mu.Unlock()
	}
	return sum
}

// keepOpen has a stream open until ctx ends. It continues where it was, as EventSource does.
func (b *streamBench) keepOpen(ctx context.Context, count *streamCount) {
	s := &eventStream{streamBench: b, count: count}
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		kind, err := s.open(ctx)
		if err == nil {
			var hadEvents bool
			if hadEvents, err = s.read(); hadEvents {
				pause = leastPause
			}
			kind = kindOf(err)
		}
		s.close()
		if ctx.Err() != nil || errors.Is(err, errEnough) {
			return
		}
		count.mu.Lock()
		if err == io.EOF {
			count.ended++
		} else {
			count.failed(kind, err)
		}
		count.mu.Unlock()
		if !s.isThere.Load() {
			s.cancel(fmt.Errorf("%w to %s: %w", load.ErrNoConnection, s.Address, err))
		}
		wait := pause
		if s.retry > 0 {
			wait = s.retry
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// kindOf returns the kind of an error of reading.
func kindOf(err error) load.Kind {
	var ofConn net.Error
	switch {
	case errors.As(err, &ofConn) && ofConn.Timeout():
		return load.Timeout
	case ofConn != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return load.Read
	}
	return load.Invalid
}

// errEnough is returned by read when all events that were wanted have come.
var errEnough = errors.New("enough")

// An eventStream is a stream that one goroutine reads.
type eventStream struct {
	*streamBench
	count    *streamCount
	conn     net.Conn    // nil: there is none
	stop     func() bool // ends the watch for the end of the run
	wasOpen  bool
	fresh    int64 // bytes that were read from conn, and are not counted yet
	response sluice.Response
	lastID   string
	retry    time.Duration
}

// Read reads from the connection.
func (s *eventStream) Read(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	s.fresh += int64(n)
	return n, err
}

// open connects and reads the head of the stream. kind is that of the error.
func (s *eventStream) open(ctx context.Context) (kind load.Kind, err error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return load.Connect, ctx.Err()
	}
	begin := time.Now()
	if s.conn, err = s.dial(ctx); err != nil {
		return load.Connect, err
	}
	s.isThere.Store(true)
	conn := s.conn
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	_ = conn.SetDeadline(begin.Add(s.Timeout))
	n, err := conn.Write(s.request())
	s.tell(func(c *streamCount) {
		c.result.Sent++
		c.result.Connections++
		c.result.BytesWritten += int64(n)
	})
	if err != nil {
		return load.Write, err
	}
	in := bufio.NewReader(s)
	if _, err = in.Peek(1); err != nil {
		return kindOf(err), err
	}
	firstByte := time.Since(begin)
	s.response.Reset()
	s.response.StreamBody = true
	if err = s.response.Read(in); err != nil {
		return kindOf(err), err
	}
	_ = conn.SetDeadline(time.Time{})
	return load.Invalid, s.accept(firstByte)
}

// dial makes a connection, over TLS if that is wanted.
func (s *eventStream) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if s.TLS != nil {
		return (&tls.Dialer{Config: s.TLS}).DialContext(ctx, s.Network, s.Address)
	}
	return (&net.Dialer{}).DialContext(ctx, s.Network, s.Address)
}

// request returns the request, with the ID of the last event that has come.
func (s *eventStream) request() []byte {
	if s.lastID == "" {
		return s.Request
	}
	head, rest, _ := bytes.Cut(s.Request, []byte("\r\n"))
	return fmt.Appendf(nil, "%s\r\nLast-Event-ID: %s\r\n%s", head, s.lastID, rest)
}

// accept checks that a response is a stream, and counts it.
func (s *eventStream) accept(firstByte time.Duration) error {
	status, kind := s.response.StatusCode(), string(s.response.Header.ContentType())
	mediaType, _, _ := mime.ParseMediaType(kind)
	var err error
	switch {
	case status != sluice.StatusOK:
		err = fmt.Errorf("%w: status %d", errNotStream, status)
	case mediaType != "text/event-stream":
		err = fmt.Errorf("%w: Content-Type %q", errNotStream, kind)
	}
	s.tell(func(c *streamCount) {
		c.result.Status[min(status, len(c.result.Status)-1)]++
		if err != nil {
			return
		}
		c.opened++
		if s.wasOpen {
			c.again++
		}
		record(c.opening, firstByte)
	})
	s.wasOpen = s.wasOpen || err == nil
	return err
}

// read reads events until the stream ends. err is io.EOF if the server has ended it in order.
func (s *eventStream) read() (hadEvents bool, err error) {
	body := s.response.BodyStream()
	if body == nil { // it has no bytes
		return false, io.EOF
	}
	in, lastID := sse.NewReader(body), ""
	for last := (time.Time{}); ; hadEvents = true {
		_, err := in.Next()
		if id := in.LastID(); id != lastID { // otherwise that of the stream before is the last one
			s.lastID, lastID = id, id
		}
		if retry := in.Retry(); retry > 0 {
			s.retry = retry
		}
		if err != nil {
			return hadEvents, err
		}
		n := s.events.Add(1)
		if s.Requests > 0 && n > s.Requests {
			return true, errEnough
		}
		now := time.Now()
		s.tell(func(c *streamCount) {
			c.result.Answered++
			if hadEvents {
				record(c.interval, now.Sub(last))
			}
		})
		last = now
		if n == s.Requests {
			s.cancel(nil)
		}
	}
}

// tell counts, with the bytes that have come.
func (s *eventStream) tell(count func(*streamCount)) {
	s.count.mu.Lock()
	defer s.count.mu.Unlock()
	count(s.count)
	s.count.result.BytesRead += s.fresh
	s.fresh = 0
}

// close ends the connection, if there is one.
func (s *eventStream) close() {
	if s.conn == nil {
		return
	}
	s.stop()
	_ = s.conn.Close()
	_ = s.response.CloseBodyStream()
	s.tell(func(*streamCount) {})
	s.conn = nil
}
