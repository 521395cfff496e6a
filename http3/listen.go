package http3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/engine/listen"
)

// bindAttempts is how often listenBoth looks for a port that is free for TCP and UDP.
const bindAttempts = 10

// listenBoth listens on addr for TCP, and with so many sockets on the same port for UDP.
func listenBoth(addr string, sockets int) (net.Listener, []socket, error) {
	for attempt := 1; ; attempt++ {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		opened, err := openSockets(udpAddr(addr, ln.Addr()), sockets)
		if err == nil {
			return ln, opened, nil
		}
		_ = ln.Close()
		if _, port, _ := net.SplitHostPort(addr); port != "0" && port != "" || attempt == bindAttempts {
			return nil, nil, err
		}
	}
}

// openSockets returns n sockets, but one at least, with an address. Several are a group, in
// which each gets the packets of its connections.
func openSockets(addr string, n int) (sockets []socket, err error) {
	c, err := listen.Packet(context.Background(), "udp", addr, false)
	switch {
	case err != nil:
		return nil, err
	case n <= 1:
		return []socket{{conn: c}}, nil
	}
	if err := c.Close(); err != nil { // no other process has the port
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(sockets)
		}
	}()
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	keys := keysOf(secret)
	indices := make([]int, n)
	for i := range indices {
		if c, err = listen.Packet(context.Background(), "udp", addr, true); err != nil {
			return sockets, err
		}
		indices[i], sockets = i, append(sockets, keys.socket(c, i))
	}
	return sockets, steer(c, keys.mark, indices, nil)
}

// udpAddr returns addr with the port of ln.
func udpAddr(addr string, ln net.Addr) string {
	host, _, _ := net.SplitHostPort(addr)
	_, port, _ := net.SplitHostPort(ln.String())
	return net.JoinHostPort(host, port)
}

var errNoCertificate = errors.New("sluice: http3: TLS needs a certificate: give files, or a TLSConfig that has one")

// tlsConfig returns the configuration of HTTP/3 that is made of own or, if it is nil, of
// common.
func tlsConfig(own, common *tls.Config) (*tls.Config, error) {
	if own == nil {
		own = common
	}
	if own == nil || len(own.Certificates) == 0 && own.GetCertificate == nil && own.GetConfigForClient == nil {
		return nil, errNoCertificate
	}
	config := onlyHTTP3(own)
	if choose := own.GetConfigForClient; choose != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			return onlyHTTP3(chosen), nil
		}
	}
	return config, nil
}

func onlyHTTP3(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MinVersion, config.MaxVersion = tls.VersionTLS13, 0
	config.NextProtos = []string{protocolHTTP3}
	return config
}

// A listener accepts QUIC connections.
type listener interface {
	Accept(ctx context.Context) (*quic.Conn, error)
	Addr() net.Addr
	Close() error
}

// listen begins to accept connections on a socket.
func (v *serving) listen(of socket, config *tls.Config) (*quic.Transport, listener, error) {
	t := &quic.Transport{
		Conn: of.conn, ConnectionIDGenerator: of.ids, StatelessResetKey: of.resetKey, TokenGeneratorKey: of.tokenKey,
		VerifySourceAddress: v.mustProveAddress, ConnContext: v.handshakeBegins,
	}
	if t.StatelessResetKey == nil {
		t.StatelessResetKey = new(quic.StatelessResetKey)
		_, _ = rand.Read(t.StatelessResetKey[:]) // it never fails
	}
	var l listener
	var err error
	if v.config.EarlyData {
		l, err = t.ListenEarly(config, v.quicConfig())
	} else {
		l, err = t.Listen(config, v.quicConfig())
	}
	return t, l, err
}

// quicConfig returns what all connections share.
func (v *serving) quicConfig() *quic.Config {
	c := &v.config
	q := &quic.Config{
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 quicIdle,
		KeepAlivePeriod:                quicKeepAlive,
		InitialPacketSize:              firstPacketSize,
		InitialStreamReceiveWindow:     uint64(min(firstStreamWindow, c.StreamWindow)),
		MaxStreamReceiveWindow:         uint64(c.StreamWindow),
		InitialConnectionReceiveWindow: uint64(min(firstConnWindow, c.ConnWindow)),
		MaxConnectionReceiveWindow:     uint64(c.ConnWindow),
		MaxIncomingStreams:             int64(c.MaxConcurrentStreams),
		MaxIncomingUniStreams:          maxUniStreams,
		RequireStreamCreditRelease:     true,
		Allow0RTT:                      c.EarlyData,
	}
	if v.cfg.MaxBodyMemory > 0 {
		q.AllowConnectionWindowIncrease = v.mayGrow
	}
	return q
}

// mayGrow reports whether the window of a connection may grow: what all clients may send
// beyond what was read is a part of Server.MaxBodyMemory.
func (v *serving) mayGrow(q *quic.Conn, delta uint64) bool {
	v.windowMu.Lock()
	defer v.windowMu.Unlock()
	if v.window+delta > uint64(v.cfg.MaxBodyMemory) {
		return false
	}
	v.window += delta
	v.windows[q] += delta
	return true
}

// mustProveAddress reports whether a new client has to prove its address.
func (v *serving) mustProveAddress(net.Addr) bool {
	if v.config.RetryAbove >= 0 && v.handshakes.Load() < int64(v.config.RetryAbove) {
		return false
	}
	v.stats.retries.Add(1)
	return true
}

// handshakeKey is the key under which the context of a connection has what ends the count of its
// handshake when the context ends.
type handshakeKey struct{}

// handshakeBegins counts a handshake, or refuses it.
func (v *serving) handshakeBegins(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	v.mu.Lock()
	isFull := v.isEnding || v.config.MaxConns > 0 && len(v.conns) >= v.config.MaxConns
	v.mu.Unlock()
	if isFull || v.handshakes.Load() >= maxHandshakes {
		v.stats.refused.Add(1)
		return nil, errRefused
	}
	v.handshakes.Add(1)
	return context.WithValue(ctx, handshakeKey{}, context.AfterFunc(ctx, func() { v.handshakes.Add(-1) })), nil
}

// handshakeEnded is called with a connection whose handshake is complete or, with early data,
// will be.
func (v *serving) handshakeEnded(q *quic.Conn) {
	stop, ok := q.Context().Value(handshakeKey{}).(func() bool)
	if !ok {
		return
	}
	if v.config.EarlyData && !isProven(q) {
		go func() {
			select {
			case <-q.HandshakeComplete():
				if stop() {
					v.handshakes.Add(-1)
				}
			case <-q.Context().Done():
			}
		}()
	} else if stop() {
		v.handshakes.Add(-1)
	}
}

// acceptors is how many goroutines accept connections of a socket. quic-go refuses a client when
// 32 others wait, and with one processor the goroutines that accept get to run late: of 500 clients at
// once, one goroutine had 6 to 11 % refused.
const acceptors = 32

// run serves until Shutdown, or until a socket fails.
func (v *serving) run(sockets []socket, config *tls.Config) error {
	failed := make(chan error, acceptors*len(sockets))
	var listeners []listener
	for _, of := range sockets {
		t, l, err := v.listen(of, config)
		if err != nil {
			return fmt.Errorf("sluice: http3: cannot serve on %s: %w", of.conn.LocalAddr(), err)
		}
		defer t.Close()
		listeners = append(listeners, l)
	}
	v.mu.Lock()
	isEnding := v.isEnding
	v.listeners = listeners
	v.mu.Unlock()
	if isEnding {
		return nil
	}
	over := make(chan struct{})
	defer close(over)
	go v.sweepUntil(over)
	for _, l := range listeners {
		v.acceptAll(l, failed)
	}
	v.announce(sockets[0].conn.LocalAddr())
	err := <-failed
	v.mu.Lock()
	isEnding = v.isEnding
	v.mu.Unlock()
	if isEnding {
		<-v.ended
		err = nil
	} else {
		for _, l := range listeners {
			_ = l.Close()
		}
		for _, c := range v.all() {
			c.close()
		}
	}
	for range cap(failed) - 1 {
		<-failed // what they have accepted counts
	}
	_ = v.waitEmpty(context.Background())
	return err
}

// acceptAll begins to serve the connections of l. Each acceptor sends its error to failed.
func (v *serving) acceptAll(l listener, failed chan<- error) {
	for range acceptors {
		go func() { failed <- v.accept(l) }()
	}
}

// accept serves connections of l until it fails.
func (v *serving) accept(l listener) error {
	for {
		q, err := l.Accept(context.Background())
		if err != nil {
			return err
		}
		v.mu.Lock()
		v.arriving++
		v.mu.Unlock()
		go v.serveConn(q)
	}
}

// announcedFor is how long clients may use what Alt-Svc says.
const announcedFor = 24 * time.Hour

// announce makes the responses over TCP tell of HTTP/3.
func (v *serving) announce(addr net.Addr) {
	value := v.config.AltSvc
	switch value {
	case "-":
		return
	case "":
		udp, ok := addr.(*net.UDPAddr)
		if !ok {
			return
		}
		value = fmt.Sprintf(`h3=":%d"; ma=%d`, udp.Port, int(announcedFor.Seconds()))
	}
	v.attachment.Announce([]byte(value))
}
