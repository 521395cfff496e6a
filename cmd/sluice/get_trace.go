package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// phase is a part of what happens to a request. They come in their order.
type phase int

const (
	phaseDNS phase = iota
	phaseDial
	phaseTLS
	phaseWrite
	phaseWait
	phaseRead
)

// phaseNames are what --trace calls the phases, and what errors say the client
// was at.
var phaseNames = [...]struct{ name, doing string }{
	phaseDNS:   {"dns", "looking up the host"},
	phaseDial:  {"connect", "connecting"},
	phaseTLS:   {"tls", "setting up TLS"},
	phaseWrite: {"request written", "sending the request"},
	phaseWait:  {"first byte", "waiting for the response"},
	phaseRead:  {"body", "reading the response"},
}

// phases is what --trace tells of a request, and which phase an error is in.
type phases struct {
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	timeout time.Duration // for connecting
	report  *statusReport

	mu        sync.Mutex // dialing goes on in another goroutine
	start     time.Time
	spans     []span
	isDialed  bool // a connection was made for it
	connectBy time.Time
	handshake *time.Timer
}

// span is a phase that has begun. It ends where the next one begins.
type span struct {
	phase  phase
	begin  time.Time
	detail string
}

func newPhases(ctx context.Context, timeout time.Duration, report *statusReport) *phases {
	p := &phases{timeout: timeout, report: report, start: time.Now()}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.enter(phaseWrite) // unless a connection has to be made first
	return p
}

// context returns a context for req that tells p what happens.
func (p *phases) context(req *sluice.Request) context.Context {
	p.ctx = sluice.WithClientTrace(p.ctx, &sluice.ClientTrace{
		DNSStart: func(string) { p.enter(phaseDNS) },
		DNSDone:  p.lookedUp,
		DialStart: func(network, addr string) {
			if network == "udp" {
				p.report.note("connecting to %s over UDP", addr)
				p.enter(phaseDial)
				return
			}
			p.report.note("connecting to %s", addr)
		},
		GotConn: p.gotConn,
		DialDone: func(_, addr string, err error) {
			if err != nil {
				p.report.note("not connected to %s: %v", addr, err)
			}
		},
		TLSStart: p.tlsStart,
		TLSDone:  p.tlsDone,
		WroteRequest: func(err error) {
			if err == nil {
				p.enter(phaseWait)
			}
			p.report.request(req)
		},
		FirstByte: func() { p.enter(phaseRead) },
		Retry: func(_ int, err error) {
			p.report.note("once more: %v", err)
			p.enter(phaseDNS)
			p.enter(phaseWrite)
		},
	})
	return p.ctx
}

// enter notes that a phase begins. Those that come later have not begun then:
// they were assumed, or belong to an attempt that failed.
func (p *phases) enter(next phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.spans) > 0 && p.spans[len(p.spans)-1].phase > next {
		p.spans = p.spans[:len(p.spans)-1]
	}
	if len(p.spans) == 0 || p.spans[len(p.spans)-1].phase != next {
		p.spans = append(p.spans, span{phase: next, begin: time.Now()})
	}
}

// describe adds something to the present phase.
func (p *phases) describe(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans[len(p.spans)-1].detail = detail
}

func (p *phases) lookedUp(addrs []net.IPAddr, err error) {
	if err != nil {
		return // it ends in this phase
	}
	names := make([]string, len(addrs))
	for i, addr := range addrs {
		names[i] = addr.String()
	}
	p.describe(strings.Join(names, ", "))
	p.enter(phaseDial)
}

// gotConn notes that the request has a connection. That of QUIC was not made by dial.
func (p *phases) gotConn(info sluice.GotConnInfo) {
	p.mu.Lock()
	p.isDialed = p.isDialed || !info.IsReused
	p.mu.Unlock()
	if _, isQUIC := info.Conn.RemoteAddr().(*net.UDPAddr); isQUIC && !info.IsReused {
		p.describe(info.Conn.RemoteAddr().String() + ", HTTP/3")
	}
	p.enter(phaseWrite)
}

// dial connects to addr.
func (p *phases) dial(dial dialFunc, addr string) (net.Conn, error) {
	p.mu.Lock()
	p.connectBy, p.isDialed = time.Now().Add(p.timeout), true
	p.mu.Unlock()
	p.enter(phaseDial)
	ctx, cancel := context.WithDeadlineCause(p.ctx, p.connectBy, p.timeoutError())
	defer cancel()
	conn, err := dial(ctx, addr)
	if err == nil {
		p.describe(conn.RemoteAddr().String())
		p.enter(phaseWrite)
	}
	return conn, err
}

func (p *phases) timeoutError() error {
	return fmt.Errorf("the %v of --connect-timeout are over", p.timeout)
}

// tlsStart notes that a handshake begins, and bounds it by what dialing has left
// of the time.
func (p *phases) tlsStart() {
	p.enter(phaseTLS)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handshake = time.AfterFunc(time.Until(p.connectBy), func() { p.cancel(p.timeoutError()) })
}

func (p *phases) tlsDone(state tls.ConnectionState, err error) {
	p.mu.Lock()
	p.handshake.Stop()
	p.mu.Unlock()
	if err != nil {
		return
	}
	detail := tls.VersionName(state.Version) + ", " + tls.CipherSuiteName(state.CipherSuite)
	if len(state.PeerCertificates) > 0 {
		detail += ", " + state.PeerCertificates[0].Subject.String()
	}
	p.report.note("TLS: %s", detail)
	p.describe(detail)
	p.enter(phaseWrite)
}

// explain adds to err what the client was at.
func (p *phases) explain(err error) error {
	p.mu.Lock()
	doing := phaseNames[p.spans[len(p.spans)-1].phase].doing
	p.mu.Unlock()
	var timedOut *sluice.PhaseError
	if cause := context.Cause(p.ctx); cause != nil {
		err = cause
	} else if errors.As(err, &timedOut) {
		err = timedOut.Err // of dialing; its phase is said already
	}
	return &phaseError{doing: doing, err: err}
}

// phaseError is an error with what the client was at.
type phaseError struct {
	doing string
	err   error
}

func (e *phaseError) Error() string {
	return e.doing + ": " + cli.Message(e.err)
}

func (e *phaseError) Unwrap() error { return e.err }

// reader explains the errors of a body.
type reader struct {
	io.Reader
	phases *phases
}

// Read implements io.Reader.
func (r reader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = r.phases.explain(err)
	}
	return n, err
}

// statusReport writes what --verbose and --trace tell.
type statusReport struct {
	mu        sync.Mutex
	w         io.Writer
	isVerbose bool
}

// note says what happens.
func (r *statusReport) note(format string, args ...any) {
	if r.isVerbose {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintf(r.w, "* "+format+"\n", args...)
	}
}

// request shows the head of a request, which was sent.
func (r *statusReport) request(req *sluice.Request) { r.head("> ", req.Header.AppendBytes(nil)) }

// response shows the head of a response.
func (r *statusReport) response(resp *sluice.Response) { r.head("< ", appendHead(nil, resp)) }

func (r *statusReport) head(mark string, head []byte) {
	if !r.isVerbose {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(string(head)) {
		fmt.Fprintf(r.w, "%s%s\n", mark, strings.TrimRight(line, "\r\n"))
	}
}

// phases tells how long a request took; resp is nil if there is none.
func (r *statusReport) phases(p *phases, resp *sluice.Response, size int64) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case resp == nil:
		fmt.Fprintln(r.w, "no response")
	case p.isDialed:
		fmt.Fprintf(r.w, "%d over a new connection to %v\n", resp.StatusCode(), resp.RemoteAddr())
	default:
		fmt.Fprintf(r.w, "%d over the same connection to %v\n", resp.StatusCode(), resp.RemoteAddr())
	}
	for i, s := range p.spans {
		end := now
		if i+1 < len(p.spans) {
			end = p.spans[i+1].begin
		}
		if s.phase == phaseRead {
			s.detail = fmt.Sprintf("%d bytes", size)
		}
		fmt.Fprintf(r.w, "  %-15s %10s  %s\n", phaseNames[s.phase].name, milliseconds(end.Sub(s.begin)), s.detail)
	}
	fmt.Fprintf(r.w, "  %-15s %10s\n", "total", milliseconds(now.Sub(p.start)))
}

// milliseconds writes d in a form that lines up.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
