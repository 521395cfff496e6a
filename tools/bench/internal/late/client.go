package late

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// tally is what one engine has shown.
type tally struct {
	requests, late, stuck, failed int
	latest                        time.Duration // of late
	timerLate                     time.Duration // the most that a timer of this process was late
	notes, stuckNotes             []string      // of the first few late requests, and stuck or failed ones
}

// maxNotes and maxStuckNotes bound tally.notes and tally.stuckNotes.
const (
	maxNotes      = 20
	maxStuckNotes = 10
)

// A trial is one engine under load.
type trial struct {
	options
	server  *process.Server
	content []byte // of uploads

	mu      sync.Mutex
	pending map[*request]struct{}
	tally   tally
}

// A request is under way.
type request struct {
	what  string
	began time.Time
	isBig bool // a body takes time, so it is never late, but may be stuck
	stage stage
}

// A stage is how late a request was when it was last looked at.
type stage uint8

const (
	inTime stage = iota
	isLate
	isStuck
)

// try has one engine serve for a while.
func (o options) try(ctx context.Context, engine string, procs int) (result tally, err error) {
	server, err := process.StartService(ctx, process.Options{CPU: process.AnyCPU, Procs: procs}, serverRole, serverConfig{Engine: engine, Streams: true})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	t := &trial{options: o, server: server, content: make([]byte, largest), pending: make(map[*request]struct{})}
	ending, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	watching, stopWatching := context.WithCancel(ctx)
	var clients, watcher sync.WaitGroup
	watcher.Go(func() { t.watch(watching) })
	for i := range o.clients {
		clients.Go(func() { t.client(ending, ctx, i) })
	}
	clients.Wait()
	stopWatching()
	watcher.Wait()
	return t.tally, ctx.Err()
}

// client sends one request after another until ending is done.
func (t *trial) client(ending, ctx context.Context, number int) {
	protocols, over := new(http.Protocols), " over HTTP/1.1"
	if number%4 == 0 {
		over = " over HTTP/2"
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, DisableKeepAlives: number%8 == 1}
	defer transport.CloseIdleConnections()
	for ending.Err() == nil {
		path, n, body := t.choose()
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		url := "http://" + t.server.Addr + path + "?n=" + strconv.Itoa(n)
		message, err := http.NewRequestWithContext(ctx, method, url, body)
		if err != nil {
			panic(err) // the URL is right
		}
		t.send(transport, message, path+" "+strconv.Itoa(n)+over, path == downloadPath || path == uploadPath)
	}
}

// choose returns a random request.
func (t *trial) choose() (path string, n int, body io.Reader) {
	switch rand.IntN(16) {
	case 0:
		return sleepPath, rand.IntN(20), nil
	case 1:
		return computePath, rand.IntN(5000), nil
	case 2:
		return downloadPath, rand.IntN(largest), nil
	case 3:
		n := rand.IntN(largest)
		return uploadPath, n, bytes.NewReader(t.content[:n])
	}
	return "/", 0, nil
}

// send sends a request and counts what becomes of it.
func (t *trial) send(transport *http.Transport, message *http.Request, what string, hasBody bool) {
	r := &request{what: message.Method + " " + what, began: time.Now(), isBig: hasBody}
	t.mu.Lock()
	t.pending[r] = struct{}{}
	t.mu.Unlock()
	handled, err := roundTrip(transport, message)
	took := time.Since(r.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, r)
	t.tally.requests++
	if err != nil {
		t.tally.failed++
		t.noteStuck("%s failed after %v: %v", r.what, took, err)
	} else if r.stage == isStuck {
		t.noteStuck("%s ended after %v", r.what, took)
	}
	if delay := took - handled; delay > t.late && !r.isBig {
		t.tally.late++
		t.tally.latest = max(t.tally.latest, delay)
	}
}

// roundTrip returns how long the handler ran.
func roundTrip(transport *http.Transport, message *http.Request) (handled time.Duration, err error) {
	resp, err := transport.RoundTrip(message)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(resp.Status))
	}
	n, _ := strconv.ParseInt(resp.Header.Get(handlerTime), 10, 64)
	return time.Duration(n), err
}

// note adds a note, with mu held.
func (t *trial) note(format string, args ...any) {
	if len(t.tally.notes) < maxNotes {
		t.tally.notes = append(t.tally.notes, fmt.Sprintf(format, args...))
	}
}

// noteStuck is note for a request that is stuck or has failed.
func (t *trial) noteStuck(format string, args ...any) {
	if len(t.tally.stuckNotes) < maxStuckNotes {
		t.tally.stuckNotes = append(t.tally.stuckNotes, fmt.Sprintf(format, args...))
	}
}

// watchPeriod is how often watch looks at the requests that are under way.
const watchPeriod = 20 * time.Millisecond

// watch notes the state of the server while requests are late.
func (t *trial) watch(ctx context.Context) {
	timer := time.NewTimer(watchPeriod)
	defer timer.Stop()
	due := time.Now().Add(watchPeriod)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		for _, r := range t.overdue(now, now.Sub(due)) {
			t.describe(r, now)
		}
		due = time.Now().Add(watchPeriod)
		timer.Reset(watchPeriod)
	}
}

// longestHandler is what a handler takes at most on a machine that is not overloaded.
const longestHandler = 30 * time.Millisecond

// overdue returns the requests that are late or stuck since the last call.
func (t *trial) overdue(now time.Time, timerLate time.Duration) (found []*request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.timerLate = max(t.tally.timerLate, timerLate)
	for r := range t.pending {
		age := now.Sub(r.began) - longestHandler
		switch {
		case age > t.stuck && r.stage != isStuck:
			r.stage = isStuck
			t.tally.stuck++
		case age > t.late && r.stage == inTime && !r.isBig:
			r.stage = isLate
		default:
			continue
		}
		found = append(found, r)
	}
	return found
}

// describe notes the state of the server for a request that is late.
func (t *trial) describe(r *request, now time.Time) {
	var stats sluice.EngineStats
	err := t.server.Ask(stateCommand, &stats)
	text := fmt.Sprintf("%s under way for %v: %+v", r.what, now.Sub(r.began).Round(time.Millisecond), stats)
	if err != nil {
		text += ": " + err.Error()
	}
	var stacks string
	if r.stage == isStuck {
		if err := t.server.Ask(stacksCommand, &stacks); err != nil {
			stacks = err.Error()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.stage == isStuck {
		t.noteStuck("stuck: %s\n%s", text, stacks)
	} else {
		t.note("%s", text)
	}
}
