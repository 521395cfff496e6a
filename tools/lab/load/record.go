package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Kind is what went wrong with a request.
type Kind int

// Kinds of errors. A status is no error of these.
const (
	// Connect: there was no connection in time, or no TLS on it.
	Connect Kind = iota
	// Write: the request could not be sent.
	Write
	// Read: the connection ended before the response was complete.
	Read
	// Timeout: sending and the response took too long.
	Timeout
	// Invalid: what came is no response, or more than the responses.
	Invalid
	// Reset: the server has reset the stream (HTTP/2, HTTP/3).
	Reset
	// Refused: the server has refused the stream (HTTP/2, HTTP/3).
	Refused
	// GoAway: the server has ended the connection because of an error (HTTP/2), or at all (HTTP/3).
	GoAway
	// Kinds is how many there are.
	Kinds
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"connect", "write", "read", "timeout", "invalid", "reset", "refused", "goaway"}[k]
}

// maxStatus is above every status.
const maxStatus = 1000

// Counts is what has happened.
type Counts struct {
	// Sent is how many requests were sent, or begun to be; Answered how many
	// complete responses came.
	Sent, Answered int64
	// BytesRead and BytesWritten are what went over the connections, heads
	// included, without what TLS adds.
	BytesRead, BytesWritten int64
	// Connections is how many were made.
	Connections int64
	Errors      [Kinds]int64
	// Status has the number of responses by status.
	Status [maxStatus]int64
}

// ErrorSum returns the number of errors of all kinds.
func (c *Counts) ErrorSum() (sum int64) {
	for _, n := range c.Errors {
		sum += n
	}
	return sum
}

// StatusClass returns the number of responses with a status of 100*class up.
func (c *Counts) StatusClass(class int) (sum int64) {
	for _, n := range c.Status[class*100 : class*100+100] {
		sum += n
	}
	return sum
}

// Add adds what another counted.
func (c *Counts) Add(other *Counts) {
	c.Sent += other.Sent
	c.Answered += other.Answered
	c.BytesRead += other.BytesRead
	c.BytesWritten += other.BytesWritten
	c.Connections += other.Connections
	for i := range c.Errors {
		c.Errors[i] += other.Errors[i]
	}
	for i := range c.Status {
		c.Status[i] += other.Status[i]
	}
}

// Durations are kept to three digits; what is longer than an hour counts as one.
const (
	longest = time.Hour
	digits  = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), digits) }

// record adds a duration in nanoseconds.
func record(h *hdrhistogram.Histogram, d int64) {
	// Cannot fail: the value is within the bounds.
	_ = h.RecordValue(bounded(d))
}

// bounded returns a duration as histograms have it.
func bounded(d int64) int64 { return min(max(d, 1), int64(longest)) }

// latencies are the durations of requests.
type latencies struct {
	// total is the latency: in an open loop from when the request was due.
	total *hdrhistogram.Histogram
	// service is, in an open loop, the time from when it was sent.
	service *hdrhistogram.Histogram
}

func newLatencies(isOpen bool) latencies {
	l := latencies{total: newHistogram()}
	if isOpen {
		l.service = newHistogram()
	}
	return l
}

// merge adds what other has, and empties it.
func (l latencies) merge(other latencies) {
	l.total.Merge(other.total)
	other.total.Reset()
	if l.service != nil {
		l.service.Merge(other.service)
		other.service.Reset()
	}
}

// A recorder counts for one thread. Its user holds the lock while it counts, for
// many events at once; another goroutine collects.
type recorder struct {
	mu sync.Mutex
	Counts
	now   latencies // since it was last collected
	spare latencies // empty; the collector's
	errs  examples
}

func newRecorder(isOpen bool) *recorder {
	return &recorder{now: newLatencies(isOpen), spare: newLatencies(isOpen)}
}

// examples has the first error of each kind.
type examples [Kinds]error

// answered counts a response whose request was due and sent at these times.
func (r *recorder) answered(status int, due, sent, now int64) {
	r.Answered++
	r.Status[status]++
	record(r.now.total, now-due)
	if r.now.service != nil {
		record(r.now.service, now-sent)
	}
}

// failed counts n requests that failed for one reason.
func (r *recorder) failed(kind Kind, err error, n int) {
	r.Errors[kind] += int64(n)
	if r.errs[kind] == nil {
		r.errs[kind] = err
	}
}

// forget makes the recorder as it was in the beginning.
func (r *recorder) forget() {
	r.Counts = Counts{}
	r.now.total.Reset()
	if r.now.service != nil {
		r.now.service.Reset()
	}
}

// collect adds the counts to all, and the latencies since the last call to recent.
func (r *recorder) collect(all *Counts, errs *examples, recent latencies) {
	r.mu.Lock()
	all.Add(&r.Counts)
	for i, err := range r.errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	r.now, r.spare = r.spare, r.now
	r.mu.Unlock()
	recent.merge(r.spare)
}

// hasFailed reports whether something has failed.
func (r *recorder) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ErrorSum() > 0
}
