package prefork

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

var (
	mixRestarts = flag.Int("mix.restarts", 3, "how many restarts TestRestartsOfMix makes")
	mixUpgrades = flag.Int("mix.upgrades", 2, "how many upgrades it makes then")
	mixClients  = flag.Int("mix.clients", 2, "how many clients of each kind are busy meanwhile; as many are idle")
	mixInPlace  = flag.Bool("mix.inplace", true, "whether one of the fleets has Upgrade, and its manager is killed after each step")
	mixBroken   = flag.Int("mix.broken", 1, "how often TestBrokenBinariesOfMix upgrades to each broken binary")
)

// halfHead pauses inside of a head.
func halfHead(n int) round {
	r := plain(n)
	r.pieces, r.pause = 2, rand.N(200*time.Millisecond)
	return r
}

// slowUpload sends a body in a fifth of a second.
func slowUpload(n int) round {
	r := trickle(n)
	r.pause = 10 * time.Millisecond
	return r
}

// streamed gets bodies that come in pieces.
func streamed(n int) round {
	return round{request: fmt.Sprintf("GET /stream?n=%d HTTP/1.1\r\nHost: x\r\n\r\n", n), answers: []string{streamedBody(n)}, pieces: 1}
}

// A mix is clients of every kind at the same time.
type mix struct {
	t    *testing.T
	rows []*mixRow
}

// A mixRow is clients of one kind, and what they have seen.
type mixRow struct {
	load
	name        string
	clients     int
	connections atomic.Int64
	comes       bool           // each request has a connection of its own
	idle        []func() error // the clients that ask when the others have ended

	reading   sync.WaitGroup // streams of events
	published atomic.Int64   // events; 0: not all of them yet
}

// use asks again and again.
func (r *mixRow) use(ask func() error, pause time.Duration) {
	for !r.stop.Load() {
		time.Sleep(rand.N(pause))
		if err := ask(); err != nil {
			r.fail(err)
			return
		}
	}
}

// failures returns what has failed so far: a stream of events may still be read.
func (r *mixRow) failures() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failed)
}

// closed counts the connections that have ended early.
func (r *mixRow) closed() (n int) {
	if !r.comes {
		n = int(r.connections.Load()) - r.clients
	}
	for _, err := range r.failures() {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			n++
		}
	}
	return n
}

// newMix starts clients of fleets.
func newMix(t *testing.T, all ...*upgrading) *mix {
	t.Helper()
	m := &mix{t: t}
	for _, u := range all {
		s := mixSide{u, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(64)}, m}
		const ms = time.Millisecond
		s.start("idle", 25, 0, s.rounds(plain))
		s.start("active", 1, 20*ms, s.rounds(plain))
		s.start("connection for each request", 1, 40*ms, s.anew)
		s.start("pipelined", 1, 40*ms, s.rounds(pipelined))
		s.start("partial heads", 1, 10*ms, s.rounds(halfHead))
		s.start("slow uploads", 1, 10*ms, s.rounds(slowUpload))
		s.start("downloads", 1, 100*ms, s.rounds(download))
		s.start("streamed answers", 1, 10*ms, s.rounds(streamed))
		s.start("HTTP/2", 1, 20*ms, s.http2)
		s.start("WebSocket", 1, 10*ms, s.webSocket)
		s.events("busy", 5*ms)
		s.events("idle", 500*ms)
	}
	return m
}

// A mixSide is one of the fleets of a mix.
type mixSide struct {
	*upgrading
	config *tls.Config
	mix    *mix
}

func (s mixSide) row(name string) *mixRow {
	if s.isTLS {
		name += ", TLS"
	}
	r := &mixRow{name: name}
	s.mix.rows = append(s.mix.rows, r)
	return r
}

// start starts clients, which have each asked once: 2·-mix.clients·times, of which the half
// is idle, or all if there is no pause.
func (s mixSide) start(name string, times int, pause time.Duration, open func(*mixRow) (ask func() error)) {
	s.t.Helper()
	r := s.row(name)
	for i := range 2 * *mixClients * times {
		ask := open(r)
		if err := ask(); err != nil {
			s.t.Fatalf("%s: client %d: %v", r.name, i, err)
		}
		r.clients++
		if pause == 0 || i%2 == 1 {
			r.idle = append(r.idle, ask)
			continue
		}
		r.done.Go(func() { r.use(ask, pause) })
	}
}

func (s mixSide) dial(r *mixRow) (net.Conn, error) {
	r.connections.Add(1)
	dialer := &net.Dialer{Timeout: patience}
	if s.isTLS {
		return tls.DialWithDialer(dialer, "tcp", s.addr(0), s.config)
	}
	return dialer.Dial("tcp", s.addr(0))
}

// connect dials for a client that keeps its connection.
func (s mixSide) connect(r *mixRow) net.Conn {
	s.t.Helper()
	c, err := s.dial(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// rounds is clients of HTTP/1.1.
func (s mixSide) rounds(k kind) func(*mixRow) func() error {
	return func(r *mixRow) func() error {
		c := s.connect(r)
		from, n := bufio.NewReader(c), 0
		return func() error {
			one := k(n)
			err := one.send(c)
			if err == nil {
				_, err = one.receive(from, false)
			}
			if err != nil {
				return fmt.Errorf("%v: round %d, %.20q: %w", c.LocalAddr(), n, one.request, err)
			}
			n++
			r.answered.Add(int64(len(one.answers)))
			return nil
		}
	}
}

// anew is clients that connect for each request.
func (s mixSide) anew(r *mixRow) func() error {
	r.comes = true
	return func() error {
		c, err := s.dial(r)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, _, err = ask(c, bufio.NewReader(c), "/"); err == nil {
			r.answered.Add(1)
		}
		return err
	}
}

// http2 is clients of HTTP/2, which count their connections.
func (s mixSide) http2(r *mixRow) func() error {
	protocols := &http.Protocols{}
	protocols.SetHTTP2(s.isTLS)
	protocols.SetUnencryptedHTTP2(!s.isTLS)
	transport := &http.Transport{Protocols: protocols, MaxConnsPerHost: 1, TLSClientConfig: s.config.Clone()}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		r.connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	c := http2Client{Client: http.Client{Transport: transport, Timeout: patience}, url: s.url(s.isTLS)}
	return func() error {
		_, err := c.get("/")
		if err == nil {
			r.answered.Add(1)
		}
		return err
	}
}

// webSocket is clients that send a message and await its answer.
func (s mixSide) webSocket(r *mixRow) func() error {
	c := s.fleet.upgrade(s.connect(r), "/websocket")
	return func() error {
		_, err := c.say("message")
		if err == nil {
			r.answered.Add(1)
		}
		return err
	}
}

// events starts streams of events, and publishes one in each interval.
func (s mixSide) events(topic string, interval time.Duration) {
	s.t.Helper()
	r := s.row("SSE, " + topic)
	for range 2 * *mixClients {
		e := s.source(topic, s.isTLS)
		e.client.Transport.(*http.Transport).DisableKeepAlives = false
		if err := e.open(); err != nil {
			s.t.Fatal(err)
		}
		r.clients++
		r.connections.Add(1)
		r.reading.Go(func() { r.follow(e) })
	}
	client := &s.source(topic, s.isTLS).client
	publish := func(n int) {
		resp, err := client.Get(fmt.Sprintf("%s/publish?topic=%s&data=%d", s.url(s.isTLS), topic, n))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		if err != nil {
			r.fail(fmt.Errorf("event %d: %w", n, err))
		}
	}
	r.done.Go(func() {
		n := 0
		for ; !r.stop.Load(); n++ {
			publish(n)
			time.Sleep(interval)
		}
		r.published.Store(int64(n) + 1) // readers look when the last one comes
		publish(n)
	})
}

// follow reads a stream of events up to its last one.
func (r *mixRow) follow(e *eventSource) {
	seen := 0
	err := e.read(func() bool {
		if len(e.got) > seen {
			seen++
			r.answered.Add(1)
		}
		all := r.published.Load()
		return all > 0 && int64(seen) == all
	})
	if err == nil && e.breaks > 0 {
		err = fmt.Errorf("a stream ends after %d events: %w", seen, io.EOF)
	}
	if err != nil {
		r.fail(err)
	}
}

// goOn waits until each kind has got answers since it was called.
func (m *mix) goOn() {
	m.t.Helper()
	before := make([]int64, len(m.rows))
	for i, r := range m.rows {
		before[i] = r.answered.Load()
	}
	until(m.t, "all kinds are answered", func() bool {
		for i, r := range m.rows {
			if all := r.failures(); len(all) > 0 {
				m.t.Fatalf("%s: %v", r.name, all)
			}
			if len(r.idle) < r.clients && r.answered.Load() == before[i] {
				return false
			}
		}
		return true
	})
}

// end ends the clients, after those that were idle have asked once more. It waits for events
// that are still to come, but no longer than patience. It returns how many clients have failed.
func (m *mix) end(patience time.Duration) (failed int) {
	m.t.Helper()
	for _, r := range m.rows {
		r.stop.Store(true)
	}
	for _, r := range m.rows {
		r.done.Wait()
		for _, ask := range r.idle {
			if err := ask(); err != nil {
				r.fail(fmt.Errorf("idle: %w", err))
			}
		}
		all := make(chan struct{})
		go func() { r.reading.Wait(); close(all) }()
		select {
		case <-all:
		case <-time.After(patience):
			// lost counts what has not come
		}
		failed += len(r.failures())
	}
	return failed
}

// lost counts the events that have not come.
func (r *mixRow) lost() int {
	if r.published.Load() == 0 {
		return 0
	}
	return int(r.published.Load())*r.clients - int(r.answered.Load())
}

// String is a table.
func (m *mix) String() string {
	var b strings.Builder
	fmt.Fprint(&b, "| clients | connections | requests, messages | failed | lost or twice | closed |\n|---|--:|--:|--:|--:|--:|\n")
	for _, r := range m.rows {
		lost := "-"
		if r.published.Load() > 0 || strings.HasPrefix(r.name, "WebSocket") { // whose clients count the answers
			lost = itoa(r.lost())
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s | %d |\n", r.name, r.connections.Load(), r.answered.Load(), len(r.failures()), lost, r.closed())
	}
	return b.String()
}

// mixFleets starts a fleet without and one with TLS, whose programs have versions.
func mixFleets(t *testing.T, soak time.Duration, inPlace bool) (all []*upgrading) {
	t.Helper()
	if engine := new(sluice.Server).EngineInfo(nil).Engine; engine != sluice.EngineEpoll {
		t.Skipf("%v has no compact connections", engine)
	}
	for _, isTLS := range []bool{false, true} {
		program := newProgramFile(t)
		all = append(all, &upgrading{startBinary(t, program.path, setup{
			Upgrade: isTLS && inPlace,
			Workers: 2, Admin: "127.0.0.1:0", Versions: true, Boot: 4 * time.Second, Soak: soak, Linger: patience, Drain: patience,
			Threshold: 99, Window: time.Minute, Grace: time.Second, HTTP2: true, WebSocket: true, Streams: true, TLS: isTLS, CompactTLS: "-",
		}, true), program, "first", 0, isTLS})
	}
	return all
}

// eachFleet calls f for all fleets at the same time.
func eachFleet(fleets []*upgrading, f func(u *upgrading)) {
	var all sync.WaitGroup
	for _, u := range fleets {
		all.Go(func() { f(u) })
	}
	all.Wait()
}

// replaced waits until the manager has the binary of the workers.
func (u *upgrading) replaced() {
	u.t.Helper()
	until(u.t, "the manager has the new binary", func() bool {
		s, err := tryStatus("tcp", u.admin())
		return err == nil && s.Ready && behaviourOf(s.Master.PID) == behaviourOf(s.Workers[0].PID)
	})
}

// settled returns the status when only the workers of the good version are left.
func (u *upgrading) settled() (s Status) {
	u.t.Helper()
	until(u.t, "two workers are left", func() bool {
		var err error
		s, err = tryStatus("tcp", u.admin()) // a manager may just be replaced
		return err == nil && s.Ready && !s.Rolling && len(s.Workers) == 2
	})
	return s
}

// Clients of every kind do not notice restarts and upgrades that happen beside each other's
// work: no request fails, no connection is closed, and no message is lost or comes twice (I1,
// I5).
func TestRestartsOfMix(t *testing.T) {
	t.Parallel()
	restarts, upgrades := *mixRestarts, *mixUpgrades
	if testing.Short() {
		restarts, upgrades = min(restarts, 1), min(upgrades, 1)
	}
	fleets := mixFleets(t, 50*time.Millisecond, *mixInPlace)
	m := newMix(t, fleets...)
	began := time.Now()
	for i := range restarts + upgrades {
		m.goOn()
		eachFleet(fleets, func(u *upgrading) {
			order := "/control/restart"
			if i >= restarts {
				order = "/control/upgrade"
				u.program.install(fmt.Sprint("version ", i))
			}
			if status, why := request(t, "tcp", u.admin(), "POST", order, ""); status != 200 {
				t.Errorf("%s: %d, %q", order, status, why)
			}
			u.settled()
			if u.isTLS && *mixInPlace {
				u.replaced()
				u.killManager()
			}
		})
	}
	m.goOn()
	took := time.Since(began)
	m.end(patience)
	for _, u := range fleets {
		if s := u.settled(); s.Restarts != restarts+upgrades || s.Crashes > 0 || s.Total.Cut > 0 {
			t.Errorf("%+v", s)
		}
	}
	m.check()
	t.Logf("%d restarts and %d upgrades of %d fleets in %v\n%v", restarts, upgrades, len(fleets), took, m)
}

// check reports what clients have noticed.
func (m *mix) check() {
	m.t.Helper()
	for _, r := range m.rows {
		for _, err := range r.failures() {
			m.t.Errorf("%s: %v", r.name, err)
		}
		if r.answered.Load() == 0 || r.closed() > 0 || r.lost() != 0 {
			m.t.Errorf("%s: %d answers, %d connections closed, %d events lost", r.name, r.answered.Load(), r.closed(), r.lost())
		}
	}
}

// Beside clients of every kind, upgrades to broken binaries are rolled back, and nobody
// notices. If the binary dies while it serves, only those fail whose connections its worker
// had: the others do not (I26).
func TestBrokenBinariesOfMix(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestBrokenBinaries and TestRestartsOfMix are enough")
	}
	fleets := mixFleets(t, time.Second, false)
	tried := 0
	for range *mixBroken {
		m := newMix(t, fleets...)
		for _, c := range brokenBinaries {
			if c.mayFail > 0 {
				continue
			}
			tried++
			m.goOn()
			eachFleet(fleets, func(u *upgrading) { u.rollsBack(c.name, c.why) })
		}
		m.end(patience)
		m.check()
		t.Logf("%d upgrades of %d fleets to broken binaries so far\n%v", tried, len(fleets), m)
		for _, c := range brokenBinaries {
			if c.mayFail == 0 {
				continue
			}
			tried++
			eachFleet(fleets, func(u *upgrading) {
				before := u.lost()
				m := newMix(t, u)
				m.goOn()
				u.rollsBack(c.name, c.why)
				failed, lost := m.end(time.Second), u.lost()-before // events go with the worker that has published them
				if failed > lost || lost == 0 {
					t.Errorf("%s: %d clients have failed, %d connections were lost", c.name, failed, lost)
				}
				t.Logf("%s: %d clients have failed, the dead workers had %d connections\n%v", c.name, failed, lost, m)
			})
		}
	}
}

// rollsBack upgrades to a broken binary.
func (u *upgrading) rollsBack(name, why string) {
	u.t.Helper()
	before := u.settled()
	if status, got := u.order(name); status != 500 || !strings.Contains(got, "rolling restart failed in slot ") || !strings.Contains(got, why) {
		u.t.Errorf("%s: %d, %q, want %q", name, status, got, why)
	}
	s := u.settled()
	if s.RestartsFailed != before.RestartsFailed+1 || s.Restarts != before.Restarts || s.Version != before.Version || s.GoodVersion != s.Version || s.Crashes > 0 {
		u.t.Errorf("%s: %+v", name, s)
	}
}

// lost counts the connections that workers had when they died.
func (u *upgrading) lost() int {
	s := u.settled()
	return int(s.Total.Accepted - s.Total.Done - s.Total.Active)
}
