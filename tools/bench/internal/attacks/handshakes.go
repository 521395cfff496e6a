package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// A hesitation is how far clients get in a TLS handshake before they say nothing more.
type hesitation struct {
	name string
	sent func(hello []byte) []byte
}

var allHesitations = []hesitation{
	{"1 byte of a ClientHello", func(hello []byte) []byte { return hello[:1] }},
	{"half a ClientHello", func(hello []byte) []byte { return hello[:len(hello)/2] }},
	{"a ClientHello, no Finished", func(hello []byte) []byte { return hello }},
}

// A slowResult is what one server has shown.
type slowResult struct {
	open, goroutines int
	each             int64         // bytes of private memory for each client
	answer           time.Duration // that an honest client waits for, median
}

// slow makes the table of clients that hesitate.
func (o options) slow(ctx context.Context) (report.Section, error) {
	s := report.Section{
		Title: "What slow TLS handshakes hold",
		Head:  []string{"client", "server", "still open", "goroutines", "memory, B/client", "honest client, ms"},
		Notes: []string{fmt.Sprintf("%d clients at once, in another process than the server. Private memory without garbage, divided by the clients, open or not. "+
			"The honest client connects, makes a handshake and gets an answer meanwhile: the median of %d.", o.slowClients, honestClients)},
	}
	for _, h := range o.hesitations {
		for _, kind := range o.kinds {
			for _, compact := range []bool{false, true} {
				name := kind
				if compact {
					if kind != peers.Epoll {
						continue
					}
					name += ", compact"
				}
				command.Progress("%s: %s", h.name, name)
				got, err := o.measureSlow(ctx, h, kind, compact)
				if err != nil {
					return s, fmt.Errorf("%s, %s: %w", h.name, name, err)
				}
				s.Rows = append(s.Rows, []string{h.name, name, fmt.Sprint(got.open), fmt.Sprint(got.goroutines), fmt.Sprint(got.each), fmt.Sprintf("%.1f", got.answer.Seconds()*1e3)})
			}
		}
	}
	return s, nil
}

// honestClients is how many connect while the others hesitate.
const honestClients = 11

// measureSlow has clients hesitate before one server.
func (o options) measureSlow(ctx context.Context, h hesitation, kind string, compact bool) (r slowResult, err error) {
	server, err := servers.Start(ctx, servers.Options{
		Options: process.Options{CPU: process.AnyCPU, Procs: 2}, Kind: kind, Peer: peers.Options{TLS: true, CompactTLS: compact},
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if _, err := answerTime(ctx, server.Addr); err != nil {
		return r, err
	}
	before, err := settledMemory(ctx, server)
	if err != nil {
		return r, err
	}
	goroutines, noGoroutines := server.Goroutines()
	files, noFiles := server.Descriptors()
	if err := errors.Join(noGoroutines, noFiles); err != nil {
		return r, err
	}
	hello, err := clientHello()
	if err != nil {
		return r, err
	}
	conns, err := hesitate(ctx, server.Addr, o.slowClients, h.sent(hello))
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	if err != nil {
		return r, err
	}
	if r.answer, err = answerTime(ctx, server.Addr); err != nil {
		return r, err
	}
	r.goroutines, noGoroutines = server.Goroutines()
	r.open, noFiles = server.Descriptors()
	after, err := settledMemory(ctx, server)
	r.goroutines, r.open, r.each = r.goroutines-goroutines, r.open-files, (after-before)/int64(o.slowClients)
	return r, errors.Join(noGoroutines, noFiles, err)
}

// hesitate opens connections and sends something on each. The caller closes them, also after an error.
func hesitate(ctx context.Context, addr string, n int, sent []byte) ([]net.Conn, error) {
	const dialers = 32
	var (
		mu    sync.Mutex
		conns []net.Conn
		errs  []error
		all   sync.WaitGroup
	)
	for part := range dialers {
		all.Go(func() {
			for range (n + part) / dialers {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
				if err == nil {
					_, err = c.Write(sent)
				}
				mu.Lock()
				if c != nil {
					conns = append(conns, c)
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return conns, errors.Join(errs...)
}

// answerTime returns how long a client waits for an answer on a new connection, the median of some.
func answerTime(ctx context.Context, addr string) (time.Duration, error) {
	client := &http.Client{Timeout: patience * 10, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is made for the occasion
	}}
	times := make([]time.Duration, honestClients)
	for i := range times {
		began := time.Now()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+peers.Target, nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(request)
		if err != nil {
			return 0, fmt.Errorf("an honest client: %w", err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return 0, err
		}
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("an honest client got %s", resp.Status)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// A hearing keeps what is written, and has nothing to read.
type hearing struct {
	net.Conn
	heard bytes.Buffer
}

// Write implements net.Conn.
func (h *hearing) Write(p []byte) (int, error) { return h.heard.Write(p) }

// Read implements net.Conn.
func (*hearing) Read([]byte) (int, error) { return 0, io.EOF }

// clientHello returns what crypto/tls sends first.
func clientHello() ([]byte, error) {
	var h hearing
	if err := tls.Client(&h, &tls.Config{ServerName: "localhost"}).Handshake(); err != io.EOF {
		return nil, fmt.Errorf("the ClientHello of crypto/tls: %w", err)
	}
	return h.heard.Bytes(), nil
}
