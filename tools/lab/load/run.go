package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// Config is what a run does. Address, Request and one of Duration and Requests
// are needed.
type Config struct {
	// Network is "tcp" or "unix", Address what to connect to: an IP address with
	// port, or a path.
	Network, Address string
	// TLS, where it is not nil, is set up on each connection.
	TLS *tls.Config
	// Request is one request as it goes over the wire.
	Request []byte
	// IsHead: the method is HEAD, and responses have no body.
	IsHead bool
	// Connections is how many are used at a time, Threads how many threads share
	// them. 0 is 1. Where there are event loops, a thread holds one of the
	// scheduler's processors all the time: GOMAXPROCS should be higher.
	Connections, Threads int
	// Depth is how many requests a connection sends at once, before it waits for
	// all their responses. Over HTTP/2 it is how many streams a connection has open
	// at the same time; each response makes room for the next request. 0 is 1.
	Depth int
	// HTTP2: the request is translated to HTTP/2: by ALPN over TLS, whose NextProtos
	// are set, by prior knowledge in plain text.
	HTTP2 bool
	// HTTP3: the request is translated to HTTP/3, whose streams Depth counts. It needs TLS.
	// BytesRead and BytesWritten are those of bodies then.
	HTTP3 bool
	// WebSocket makes the connections WebSockets; nil: they are not. Not with HTTP2 or
	// OncePerConn.
	WebSocket *WebSocket
	// Duration ends the run; 0 is no bound.
	Duration time.Duration
	// Requests is how many are sent; 0 is no bound.
	Requests int64
	// Rate makes the loop an open one: requests that are due per second, on all
	// connections. 0 is a closed loop.
	Rate float64
	// OncePerConn: each request has a connection of its own. Latency then counts
	// from when connecting began. Depth must be 1.
	OncePerConn bool
	// Timeout bounds connecting and the time from sending to the complete
	// response. 0 is 2 seconds.
	Timeout time.Duration
	// Begin, where it is not nil, is called when all connections have been made and
	// have had warmUps responses each, which are not counted. Nothing is sent while it
	// runs; the run begins when it returns. With OncePerConn it is called first.
	Begin func()
	// Every is the time between calls of Progress. 0 is a second.
	Every time.Duration
	// Progress, where it is not nil, is told how the run goes, one call at a time.
	Progress func(Progress)
	// UsesStreams: a goroutine per connection also where there is an event loop.
	UsesStreams bool
}

// Progress is what was measured up to now.
type Progress struct {
	Elapsed time.Duration // since the run began
	Counts  *Counts       // of all the run; valid during the call
	// Rate is the number of responses per second since the call before, Latency
	// their latencies, valid during the call.
	Rate    float64
	Latency *hdrhistogram.Histogram
}

// Result is what was measured.
type Result struct {
	Elapsed time.Duration // from the beginning to the end of the run
	Counts
	// Latency has, in nanoseconds, the latencies of all complete responses and
	// what was waited for those that timed out. In an open loop it has also what
	// was waited for requests that were due and had no response in the end.
	Latency *hdrhistogram.Histogram
	// Service is, in an open loop, the time from sending to the response; else
	// nil.
	Service *hdrhistogram.Histogram
	// Unanswered is how many requests were under way in the end; Unsent how many
	// were due, in an open loop, and found no free connection.
	Unanswered, Unsent int64
	// Rates has the responses per second in each interval of Every.
	Rates []float64
	// Examples has the first error of each kind, nil where there was none.
	Examples [Kinds]error
}

// ErrWarmUp: a connection failed before the run began; see Config.Begin.
var ErrWarmUp = errors.New("warming up")

// warmUps is how many batches each connection sends before Begin: the first response
// may leave more behind in a server than those that follow.
const warmUps = 2

// ErrNoConnection: not one connection could be made.
var ErrNoConnection = errors.New("cannot connect")

var (
	errConnectTimeout  = errors.New("no connection in time")
	errResponseTimeout = errors.New("no complete response in time")
)

const (
	// maxOpening bounds how many connections a thread makes at a time: many at once
	// overrun a listener's backlog, and what is dropped there comes back a second
	// later.
	maxOpening     = 128
	maxBatch       = 1 << 30 // bytes that are sent at once
	defaultTimeout = 2 * time.Second
	defaultEvery   = time.Second
)

// complete fills in defaults and finds what cannot be.
func (c *Config) complete() error {
	c.Connections, c.Threads, c.Depth = max(c.Connections, 1), max(c.Threads, 1), max(c.Depth, 1)
	if c.Requests > 0 {
		c.Connections = int(min(int64(c.Connections), c.Requests))
	}
	c.Threads = min(c.Threads, c.Connections)
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Every <= 0 {
		c.Every = defaultEvery
	}
	switch {
	case len(c.Request) == 0:
		return errors.New("there is no request")
	case c.Duration <= 0 && c.Requests <= 0:
		return errors.New("there is neither a duration nor a number of requests")
	case c.OncePerConn && c.Depth > 1:
		return errors.New("requests are not pipelined on connections that have one only")
	case c.HTTP3 && (c.HTTP2 || c.WebSocket != nil || c.TLS == nil || c.Network != "tcp"):
		return errors.New("HTTP/3 needs TLS and an IP address, and is neither HTTP/2 nor WebSocket")
	case c.WebSocket != nil && (c.HTTP2 || c.OncePerConn || c.IsHead):
		return errors.New("WebSocket is not for HTTP/2, one message for each connection, or HEAD")
	case c.WebSocket != nil && len(c.WebSocket.Message) > maxBatch/c.Depth-ws.MaxHead:
		return fmt.Errorf("%d messages of %d bytes at once are too much", c.Depth, len(c.WebSocket.Message))
	case len(c.Request) > maxBatch/c.Depth:
		return fmt.Errorf("%d requests of %d bytes at once are too much", c.Depth, len(c.Request))
	case c.Rate < 0 || math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0):
		return errors.New("the rate is no number of requests per second")
	}
	return nil
}

// run is what the threads of a run share.
type run struct {
	Config
	clock
	ctx       context.Context // ends with the run
	stop      context.CancelFunc
	batch     []byte          // Depth requests
	http2     *http2Plan      // nil: HTTP/1.1
	http3     *sluice.Request // of HTTP/3; nil: it is another version
	handshake *handshake      // nil: this is not WebSocket
	left      atomic.Int64    // requests that may still be begun
	spent     chan struct{}   // closed when there are none
	hasMet    atomic.Bool     // a connection was made
	failures  atomic.Int64    // of connecting
	recorders []*recorder
	threads   []thread
}

// A thread sends requests until the run's context ends or there are none left,
// and returns how many were under way and how many were due then.
type thread interface {
	work() (unanswered, unsent int64)
	// warm has every connection send warmUps batches. It is called before work, if at
	// all, and returns early when the run's context ends or something fails.
	warm()
	// rouse makes the thread look whether there are requests left.
	rouse()
	// close frees what the thread has.
	close()
}

// Run measures until the duration is over, the requests are answered, or ctx
// ends; then the result is what was measured up to then. The error is
// ErrNoConnection, with its cause, if all connections failed.
func Run(ctx context.Context, config Config) (*Result, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	r := &run{Config: config, spent: make(chan struct{})}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	r.left.Store(math.MaxInt64)
	if config.Requests > 0 {
		r.left.Store(config.Requests)
	}
	for range config.Threads {
		r.recorders = append(r.recorders, newRecorder(config.Rate > 0))
	}
	for i := range config.Threads {
		t, err := r.newThread(i)
		if err != nil {
			return nil, err
		}
		defer t.close()
		r.threads = append(r.threads, t)
	}
	if config.Begin != nil {
		if err := r.warmUp(ctx); err != nil {
			return nil, err
		}
		config.Begin()
	}
	r.clock.start = time.Now()
	if config.Duration > 0 {
		r.ctx, r.stop = context.WithTimeout(ctx, config.Duration)
	} else {
		r.ctx, r.stop = context.WithCancel(ctx)
	}
	defer r.stop()
	return r.measure()
}

// prepare makes what connections send.
func (r *run) prepare() (err error) {
	if r.HTTP3 {
		r.http3, err = readRequest(&r.Config)
		return err
	}
	if r.HTTP2 {
		if r.TLS != nil {
			r.TLS = r.TLS.Clone()
			r.TLS.NextProtos = []string{"h2"}
		}
		r.http2, err = newHTTP2Plan(&r.Config)
		return err
	}
	if r.WebSocket != nil {
		if r.handshake, err = newHandshake(&r.Config); err != nil {
			return err
		}
	}
	for range r.Depth {
		r.batch = append(r.batch, r.Request...)
	}
	return nil
}

// warmUp has the threads warm up, and forgets what was counted meanwhile.
func (r *run) warmUp(ctx context.Context) error {
	if r.OncePerConn {
		return nil
	}
	r.clock.start = time.Now()
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	var wg sync.WaitGroup
	for _, t := range r.threads {
		wg.Go(t.warm)
	}
	wg.Wait()
	for _, rec := range r.recorders {
		for _, err := range rec.errs {
			if err != nil {
				return fmt.Errorf("%w: %w", ErrWarmUp, err)
			}
		}
		rec.forget()
	}
	return ctx.Err()
}

// newFramer returns the framer of a connection.
func (r *run) newFramer(heads *headReader) framer {
	f := framer{heads: heads}
	if r.handshake != nil {
		f.socket = &socket{}
	}
	return f
}

// newThread returns a thread of the kind that the run needs.
func (r *run) newThread(i int) (thread, error) {
	if r.http3 != nil {
		return newHTTP3Thread(r, i), nil
	}
	if r.TLS == nil && !r.UsesStreams && hasLoops {
		return newLoop(r, i)
	}
	return newStreams(r, i), nil
}

// share returns how many connections thread i has.
func (r *run) share(i int) int {
	n := r.Connections / r.Threads
	if i < r.Connections%r.Threads {
		n++
	}
	return n
}

// measure runs the threads and collects what they record.
func (r *run) measure() (*Result, error) {
	var wg sync.WaitGroup
	var unanswered, unsent atomic.Int64
	for _, t := range r.threads {
		wg.Go(func() {
			n, m := t.work()
			unanswered.Add(n)
			unsent.Add(m)
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	c := newCollector(r)
	c.follow(ended)
	result := c.result()
	result.Unanswered, result.Unsent = unanswered.Load(), unsent.Load()
	if !r.hasMet.Load() && result.Errors[Connect] > 0 {
		return result, fmt.Errorf("%w to %s: %w", ErrNoConnection, r.Address, result.Examples[Connect])
	}
	return result, nil
}

// begin returns how many of n requests may be begun.
func (r *run) begin(n int) int {
	if r.Requests <= 0 {
		return n
	}
	left := r.left.Add(-int64(n))
	if left <= 0 && left > -int64(n) {
		// The last ones. Threads that wait for the next to be due need not.
		close(r.spent)
		for _, t := range r.threads {
			t.rouse()
		}
	}
	return int(max(int64(n)+min(left, 0), 0))
}

// hasBegunAll reports whether there are no requests left to begin.
func (r *run) hasBegunAll() bool { return r.Requests > 0 && r.left.Load() <= 0 }

// met notes that a connection was made.
func (r *run) met() {
	if !r.hasMet.Load() {
		r.hasMet.Store(true)
	}
}

// missed notes that a connection could not be made. When no connection could,
// the run ends: it is the wrong address, or there is no server.
func (r *run) missed() {
	if !r.hasMet.Load() && r.failures.Add(1) >= int64(r.Connections) {
		r.stop()
	}
}

// Bounds of the time between attempts to connect.
const (
	firstPause = int64(10 * time.Millisecond)
	lastPause  = int64(time.Second)
)

// pause returns how long to wait after some failures to connect.
func pause(failures int) int64 {
	return min(firstPause<<min(failures-1, 10), lastPause)
}
