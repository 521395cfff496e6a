package h3

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// Commands of the client's process.
const (
	connectCommand   = "connect"   // and a loadSpec: open its connections, with a request on each
	loadCommand      = "load"      // and a loadSpec: make its requests on them
	handshakeCommand = "handshake" // and a loadSpec: make connections with one request
	besideCommand    = "beside"    // and a loadSpec: make requests beside one whose handler sleeps
	closeCommand     = "close"     // close the connections
)

// Frames and streams (RFC 9114 sections 6.2.1 and 7.2).
const (
	frameData     = 0
	frameHeaders  = 1
	frameSettings = 4
	controlStream = 0
	noError       = 0x100
	ok            = 0xc0 | 25 // :status 200 of QPACK's static table
)

// patience is how long the client waits for a connection or for an answer.
const patience = 30 * time.Second

// A loadSpec is what the client does.
type loadSpec struct {
	Addr           string
	Conns, Streams int // requests of a burst
	Requests       int
	BodySize, Want int // bytes of the request's content and of the answer's
}

// A loadResult is what became of it.
type loadResult struct {
	Good, Failures int
	Packets        uint64           // received
	Waits          [3]time.Duration // of the requests beside one whose handler sleeps: median, 99th percentile, longest
}

// A client has connections to one server.
type client struct {
	transport *quic.Transport
	conns     []*quic.Conn
}

// newClient is the service of the client's process. Its listener has no use.
func newClient([]byte) (s process.Service, err error) {
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	c := &client{transport: &quic.Transport{Conn: socket}}
	with := func(f func(l loadSpec) (any, error)) func(argument string) (any, error) {
		return func(argument string) (any, error) {
			var l loadSpec
			if err := json.Unmarshal([]byte(argument), &l); err != nil {
				return nil, err
			}
			return f(l)
		}
	}
	return process.Service{
		Serve: func(net.Listener) error { select {} },
		Answers: map[string]func(argument string) (any, error){
			connectCommand: with(c.connect), loadCommand: with(c.load), handshakeCommand: with(c.handshakes),
			besideCommand: with(c.beside),
			closeCommand: func(string) (any, error) {
				c.close()
				return true, nil
			},
		},
	}, nil
}

func (c *client) close() {
	for _, conn := range c.conns {
		_ = conn.CloseWithError(noError, "")
	}
	c.conns = nil
}

// dial opens a connection with the client's control stream.
func (c *client) dial(addr string) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	to, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	conn, err := c.transport.Dial(ctx, to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{MaxIdleTimeout: 10 * time.Minute})
	if err != nil {
		return nil, err
	}
	control, err := conn.OpenUniStream()
	if err == nil {
		_, err = control.Write([]byte{controlStream, frameSettings, 0})
	}
	return conn, err
}

// dialAll opens connections, 16 at a time, and calls use with each.
func (c *client) dialAll(l loadSpec, use func(conn *quic.Conn) error) error {
	var left atomic.Int64
	left.Store(int64(l.Conns))
	var dialing sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		dialing.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				conn, err := c.dial(l.Addr)
				if err == nil {
					err = use(conn)
				}
				errs[i] = err
			}
		})
	}
	dialing.Wait()
	return errors.Join(errs...)
}

func (c *client) connect(l loadSpec) (any, error) {
	var mu sync.Mutex
	message, err := l.message(peers.Target)
	if err != nil {
		return nil, err
	}
	err = c.dialAll(l, func(conn *quic.Conn) error {
		err := burst(conn, message, l, 1)
		mu.Lock()
		defer mu.Unlock()
		c.conns = append(c.conns, conn)
		return err
	})
	return true, err
}

// handshakes makes connections with one request each. A connection that fails is a failure.
func (c *client) handshakes(l loadSpec) (any, error) {
	message, err := l.message(peers.Target)
	if err != nil {
		return nil, err
	}
	var good, failures atomic.Int64
	err = c.dialAll(l, func(conn *quic.Conn) error {
		if burst(conn, message, l, 1) == nil {
			good.Add(1)
		} else {
			failures.Add(1)
		}
		return conn.CloseWithError(noError, "")
	})
	return loadResult{Good: int(good.Load()), Failures: int(failures.Load())}, err
}

func (c *client) load(l loadSpec) (any, error) {
	message, err := l.message(peers.Target)
	if err != nil {
		return nil, err
	}
	before := c.received()
	var good, failures atomic.Int64
	var running sync.WaitGroup
	for _, conn := range c.conns {
		running.Go(func() {
			for range l.Requests / (len(c.conns) * l.Streams) {
				if err := burst(conn, message, l, l.Streams); err != nil {
					failures.Add(int64(l.Streams))
					continue
				}
				good.Add(int64(l.Streams))
			}
		})
	}
	running.Wait()
	return loadResult{Good: int(good.Load()), Failures: int(failures.Load()), Packets: c.received() - before}, nil
}

// beside makes a request whose handler sleeps on the first connection, and until its answer
// comes, requests of l.Streams-1 others, each of which has one at a time.
func (c *client) beside(l loadSpec) (any, error) {
	slow, err := l.message(peers.SleepPath + peers.Query)
	if err != nil {
		return nil, err
	}
	quick, err := l.message(peers.InstantPath + peers.Query)
	if err != nil {
		return nil, err
	}
	conn := c.conns[0]
	var isOver atomic.Bool
	var running sync.WaitGroup
	var failures atomic.Int64
	waits := make([][]time.Duration, l.Streams-1)
	for i := range waits {
		running.Go(func() {
			for !isOver.Load() {
				start := time.Now()
				if err := burst(conn, quick, l, 1); err != nil {
					failures.Add(1)
					return
				}
				waits[i] = append(waits[i], time.Since(start))
			}
		})
	}
	err = burst(conn, slow, l, 1)
	isOver.Store(true)
	running.Wait()
	all := slices.Concat(waits...)
	slices.Sort(all)
	r := loadResult{Good: len(all), Failures: int(failures.Load())}
	if last := len(all) - 1; last >= 0 {
		r.Waits = [3]time.Duration{all[last/2], all[last*99/100], all[last]}
	}
	return r, err
}

// received returns how many packets the connections have received.
func (c *client) received() (n uint64) {
	for _, conn := range c.conns {
		n += conn.ConnectionStats().PacketsReceived
	}
	return n
}

// message returns the bytes of a request for target.
func (l loadSpec) message(target string) ([]byte, error) {
	method := "GET"
	if l.BodySize > 0 {
		method = "POST"
	}
	var section bytes.Buffer
	e := qpack.NewEncoder(&section)
	fields := []qpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "127.0.0.1"}, {Name: ":path", Value: target}, {Name: "user-agent", Value: "bench"}}
	if l.BodySize > 0 {
		fields = append(fields, qpack.HeaderField{Name: "content-length", Value: fmt.Sprint(l.BodySize)})
	}
	for _, f := range fields {
		if err := e.WriteField(f); err != nil {
			return nil, err
		}
	}
	m := quicvarint.Append([]byte{frameHeaders}, uint64(section.Len()))
	m = append(m, section.Bytes()...)
	if l.BodySize > 0 {
		m = quicvarint.Append(append(m, frameData), uint64(l.BodySize))
		m = append(m, make([]byte, l.BodySize)...)
	}
	return m, nil
}

// burst sends count requests, and then reads their answers.
func burst(conn *quic.Conn, message []byte, l loadSpec, count int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	streams := make([]*quic.Stream, count)
	for i := range streams {
		s, err := conn.OpenStreamSync(ctx)
		if err != nil {
			return err
		}
		if _, err := s.Write(message); err != nil {
			return err
		}
		_ = s.Close()
		streams[i] = s
	}
	var buffer [4 << 10]byte
	deadline := time.Now().Add(patience)
	for _, s := range streams {
		_ = s.SetReadDeadline(deadline)
		if err := readAnswer(s, buffer[:], l.Want); err != nil {
			return err
		}
	}
	return nil
}

var errAnswer = errors.New("the answer is not 200 with the content that is wanted")

// readAnswer reads an answer, which must be 200 with want bytes of content.
func readAnswer(s *quic.Stream, buffer []byte, want int) error {
	n, inside, isFirst := 0, 0, true // bytes in buffer; of a frame's payload that follow
	for {
		m, err := s.Read(buffer[n:])
		n += m
		in := buffer[:n]
		for len(in) > 0 {
			if inside > 0 {
				used := min(inside, len(in))
				inside, in = inside-used, in[used:]
				continue
			}
			kind, a, err1 := quicvarint.Parse(in)
			length, b, err2 := quicvarint.Parse(in[a:])
			if err1 != nil || err2 != nil || kind == frameHeaders && isFirst && len(in) < a+b+3 {
				break // the rest follows
			}
			switch {
			case kind == frameHeaders && isFirst:
				if in[a+b+2] != ok {
					return errAnswer
				}
				isFirst = false
			case kind == frameData:
				want -= int(length)
			}
			inside, in = int(length), in[a+b:]
		}
		n = copy(buffer, in)
		switch {
		case err == io.EOF && n == 0 && inside == 0 && want == 0 && !isFirst:
			return nil
		case err == io.EOF:
			return errAnswer
		case err != nil:
			return err
		}
	}
}
