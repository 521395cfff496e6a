package http3

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	peer "github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/prefork"
)

// patience bounds waits that normally take milliseconds.
const patience = 20 * time.Second

// playRole plays the master of a fleet and its workers. The role is the number of workers,
// "upgrade" if a holder keeps them, "retry" if clients must prove their address, and "hang" if
// workers count as hanging soon. It ends with its stdin.
func playRole(role string) int {
	words := strings.Fields(role)
	if !prefork.IsChild() && !prefork.IsManager() {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}()
	}
	var info prefork.WorkerInfo
	s := &sluice.Server{Logger: log.New(os.Stderr, "", 0), Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			fmt.Println("slow")
		}
		if d := ctx.QueryArgs().GetUintOrZero("ms"); d > 0 {
			time.Sleep(time.Duration(d) * time.Millisecond)
		}
		fmt.Fprintf(ctx, "%d %d %d", os.Getpid(), info.Slot, info.Generation)
	}}
	p := prefork.New(s)
	p.Workers, _ = strconv.Atoi(words[0])
	p.Upgrade = slices.Contains(words, "upgrade")
	if slices.Contains(words, "hang") {
		p.HangTimeout = time.Second
	}
	p.RecoverThreshold, p.SoakTime = 100, -1
	p.DrainTimeout = patience
	p.OnWorkerStart = func(i prefork.WorkerInfo) error { info = i; return nil }
	p.OnFleetReady = func() { fmt.Println("ready", p.Addrs()[0]) }
	var config Config
	if slices.Contains(words, "retry") {
		config.RetryAbove = -1
	}
	Prefork(p, config)
	drains := p.OnDrain
	p.OnDrain = func() {
		drains()
		fmt.Println("drained", os.Getpid())
	}
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		return 9
	}
	if err := p.ListenAndServeTLSEmbed("127.0.0.1:0", cert, key); err != nil {
		fmt.Println("returned", err)
		return 1
	}
	return 0
}

// A fleet is a master and its workers, which a test has started.
type fleet struct {
	t     *testing.T
	cmd   *exec.Cmd
	addr  string
	heard chan struct{} // closed when all output was read

	mu    sync.Mutex
	lines []string
}

// startFleet starts a fleet, which serves when it returns.
func startFleet(t *testing.T, role string) *fleet {
	t.Helper()
	f := &fleet{t: t, cmd: exec.Command(os.Args[0]), heard: make(chan struct{})}
	f.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	if _, err := f.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stdout, f.cmd.Stderr = write, write
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		defer close(f.heard)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, lines.Text())
			f.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		f.cmd.Process.Kill()
		f.cmd.Wait()
		<-f.heard // the workers have ended, too
		if t.Failed() {
			t.Logf("output of the fleet:\n%s", strings.Join(f.said(""), "\n"))
		}
	})
	f.until("the fleet is ready", func() bool { return len(f.said("ready 1")) > 0 })
	f.addr = strings.TrimPrefix(f.said("ready 1")[0], "ready ")
	return f
}

// until waits for a condition.
func (f *fleet) until(what string, isSo func() bool) {
	f.t.Helper()
	if !nettest.Poll(patience, isSo) {
		f.t.Fatalf("not in %v: %s", patience, what)
	}
}

// said returns the lines of output that contain text.
func (f *fleet) said(text string) (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// restart replaces all workers. The old ones may still finish.
func (f *fleet) restart() {
	f.t.Helper()
	const isDone = "rolling restart is done"
	before := len(f.said(isDone))
	if err := f.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		f.t.Fatal(err)
	}
	f.until("the restart is done", func() bool { return len(f.said(isDone)) > before })
}

// A rebinder is a client's socket whose port changes, as that of a client of a NAT changes after a pause.
type rebinder struct {
	mu   sync.Mutex
	conn *net.UDPConn

	arrival sync.Once
	arrives func() // called when the first packet has arrived, before it is read; nil: nothing
}

func newRebinder() (*rebinder, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return &rebinder{conn: c}, err
}

func (r *rebinder) now() *net.UDPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// rebind takes another port. What is sent to the present one is lost.
func (r *rebinder) rebind() error {
	next, err := newRebinder()
	if err != nil {
		return err
	}
	r.mu.Lock()
	old := r.conn
	r.conn = next.conn
	r.mu.Unlock()
	return old.Close()
}

func (r *rebinder) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		c := r.now()
		n, addr, err := c.ReadFrom(p)
		if err == nil && r.arrives != nil {
			r.arrival.Do(r.arrives)
		}
		if err == nil || c == r.now() {
			return n, addr, err
		}
	}
}

func (r *rebinder) WriteTo(p []byte, addr net.Addr) (int, error) {
	for {
		c := r.now()
		n, err := c.WriteTo(p, addr)
		if err == nil || c == r.now() {
			return n, err
		}
	}
}

func (r *rebinder) Close() error                       { return r.now().Close() }
func (r *rebinder) LocalAddr() net.Addr                { return r.now().LocalAddr() }
func (r *rebinder) SetDeadline(t time.Time) error      { return r.now().SetDeadline(t) }
func (r *rebinder) SetReadDeadline(t time.Time) error  { return r.now().SetReadDeadline(t) }
func (r *rebinder) SetWriteDeadline(t time.Time) error { return r.now().SetWriteDeadline(t) }

// A fleetClient is a client with one connection at a time.
type fleetClient struct {
	addr      *net.UDPAddr
	socket    *rebinder
	transport *quic.Transport
	peer      *peer.Transport
	conn      *peer.ClientConn // nil: there is none
	resumed   bool             // it continues a session of TLS
	tls       *tls.Config
	worker    string // that has answered on the connection
	conns     int    // that were opened
	repeated  int    // requests that the server has sent elsewhere
	hellos    hellos // more than conns: so many handshakes were repeated
}

// hellos counts the ClientHellos that the connections of a client send: its trace of them.
type hellos struct{ atomic.Int64 }

func (h *hellos) trace(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return h }
func (h *hellos) AddProducer() qlogwriter.Recorder                                { return h }
func (h *hellos) Close() error                                                    { return nil }

// RecordEvent implements qlogwriter.Recorder.
func (h *hellos) RecordEvent(e qlogwriter.Event) {
	sent, ok := e.(qlog.PacketSent)
	if !ok || sent.Header.PacketType != qlog.PacketTypeInitial {
		return
	}
	for _, frame := range sent.Frames {
		if part, ok := frame.Frame.(*qlog.CryptoFrame); ok && part.Offset == 0 {
			h.Add(1)
		}
	}
}

// newClient returns a client of the fleet.
func (f *fleet) newClient() *fleetClient {
	f.t.Helper()
	addr, err := net.ResolveUDPAddr("udp4", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	socket, err := newRebinder()
	if err != nil {
		f.t.Fatal(err)
	}
	c := &fleetClient{addr: addr, socket: socket, transport: &quic.Transport{Conn: socket}, peer: &peer.Transport{}, tls: clientTLS.Clone()}
	f.t.Cleanup(func() {
		if c.conn != nil {
			c.conn.CloseWithError(0, "")
		}
		c.transport.Close()
		c.socket.Close()
	})
	return c
}

// get sends a request, on a new connection if the present one is to end, and returns the
// worker that has answered. On one connection it must always be the same.
func (c *fleetClient) get(path string) (worker string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if c.conn == nil {
			conn, err := c.transport.Dial(ctx, c.addr, c.tls, &quic.Config{Tracer: c.hellos.trace, HandshakeIdleTimeout: patience})
			if err != nil {
				return "", fmt.Errorf("dial: %w", err)
			}
			c.conn, c.worker = c.peer.NewClientConn(conn), ""
			c.resumed = conn.ConnectionState().TLS.DidResume
			c.conns++
		}
		worker, err := c.roundTrip(ctx, path)
		switch {
		case err == nil && (c.worker == "" || c.worker == worker):
			c.worker = worker
			return worker, nil
		case err == nil:
			return "", fmt.Errorf("%q has answered on a connection of %q", worker, c.worker)
		case !isSentAway(err):
			return "", err
		}
		c.conn = nil
		c.repeated++
	}
}

func (c *fleetClient) roundTrip(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "https://localhost"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.conn.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// isSentAway reports whether the server has told the client, in order, to send a request on
// another connection: by GOAWAY, H3_REQUEST_REJECTED or the end of the connection. After
// GOAWAY, the client ends the connection, too, when it has no streams.
func isSentAway(err error) bool {
	var h3 *peer.Error
	var app *quic.ApplicationError
	switch {
	case errors.As(err, &h3):
		return h3.Remote && h3.ErrorCode == peer.ErrCodeRequestRejected || h3.ErrorCode == peer.ErrCodeNoError
	case errors.As(err, &app):
		return app.ErrorCode == quic.ApplicationErrorCode(peer.ErrCodeNoError)
	}
	return strings.Contains(err.Error(), "graceful shutdown") // GOAWAY has come
}
