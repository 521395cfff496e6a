package http3

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"log"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/prefork"
)

// Prefork makes p, which New has made, serve HTTP/3, too, in each worker. Call it after p's
// functions were set and before p serves, in all processes. Config.Sockets has no effect.
//
// p's PacketListen has the addresses; if it is empty, HTTP/3 has the port of
// ListenAndServeTLS. Connections stay with their worker while it ends, also if a client's
// address changes; new ones go to its successor. Clients of a worker that died learn it with
// their next packet. If HTTP/3 cannot be served, the worker ends. A worker to which the master
// passes no sockets logs that, and serves TCP. Linux only.
func Prefork(p *prefork.Prefork, c Config) {
	w := &worker{server: &Server{Server: p.Server(), Config: c}, failed: make(chan struct{})}
	if len(p.PacketListen) == 0 {
		p.PacketListen = []string{""}
	}
	p.SteerPackets = func(socket *os.File, ready, leaving []int, secret []byte) error {
		return steer(socket, keysOf(secret).mark, ready, leaving)
	}
	starts := p.OnWorkerStart
	p.OnWorkerStart = func(info prefork.WorkerInfo) error {
		w.info = info
		if starts == nil {
			return nil
		}
		return starts(info)
	}
	drains := p.OnDrain
	p.OnDrain = func() {
		if drains != nil {
			drains()
		}
		w.finishHandshakes()
	}
	serve, serveTLS, serveEmbed := p.ServeFunc, p.ServeTLSFunc, p.ServeTLSEmbedFunc
	p.ServeFunc = func(ln net.Listener) error {
		return w.serve(func() error { return nil }, func() error { return serve(ln) })
	}
	p.ServeTLSFunc = func(ln net.Listener, certFile, keyFile string) error {
		return w.serve(func() error {
			if certFile == "" && keyFile == "" {
				return nil
			}
			return w.server.Server.AppendCert(certFile, keyFile)
		}, func() error { return serveTLS(ln, "", "") })
	}
	p.ServeTLSEmbedFunc = func(ln net.Listener, certData, keyData []byte) error {
		return w.serve(func() error {
			if len(certData) == 0 && len(keyData) == 0 {
				return nil
			}
			return w.server.Server.AppendCertEmbed(certData, keyData)
		}, func() error { return serveEmbed(ln, nil, nil) })
	}
}

// A worker serves HTTP/3 in a worker process.
type worker struct {
	server  *Server
	info    prefork.WorkerInfo
	once    sync.Once
	now     atomic.Pointer[serving] // nil: it does not serve yet
	sockets []socket                // set before now
	failed  chan struct{}           // closed when HTTP/3 is not served, because of err
	err     error
}

var errNeedsServer = errors.New("sluice: http3: Prefork needs a prefork.Prefork of prefork.New")

// serve serves HTTP/3 and a listener of TCP, after certify has added the certificate to the
// server, all but the listener once. It returns when either ends, unless HTTP/3 was told to.
func (w *worker) serve(certify, serveTCP func() error) error {
	w.once.Do(func() {
		if w.server.Server == nil {
			w.fail(errNeedsServer)
		} else if err := certify(); err != nil {
			w.fail(err)
		} else if len(w.info.Packets) > 0 {
			w.begin()
		} else {
			w.logf("worker %d.%d: no HTTP/3, because the master has passed no UDP sockets", w.info.Slot, w.info.Generation)
		}
	})
	select {
	case <-w.failed:
		return w.err
	default:
	}
	ended := make(chan error, 1)
	go func() { ended <- serveTCP() }()
	select {
	case err := <-ended:
		return err
	case <-w.failed:
		return w.err
	}
}

// begin begins to serve HTTP/3.
func (w *worker) begin() {
	sockets, err := socketsOf(w.info)
	if err != nil {
		w.fail(err)
		return
	}
	w.sockets, w.server.began = sockets, w.now.Store
	go func() {
		if err := w.server.serve(sockets); err != nil {
			w.fail(err)
		}
	}()
}

const (
	// handshakesQuiet is how long no handshake may be in progress before a worker ends.
	handshakesQuiet = 100 * time.Millisecond
	// handshakesPatience bounds the wait for that.
	handshakesPatience = time.Second
	handshakesInterval = 10 * time.Millisecond
)

// finishHandshakes waits for those clients whose first packets came before others became
// another worker's: their packets can be in the socket still. Shutdown would refuse them.
func (w *worker) finishHandshakes() {
	v := w.now.Load()
	if v == nil {
		return
	}
	quiet := time.Duration(0)
	for end := time.Now().Add(handshakesPatience); quiet < handshakesQuiet && time.Now().Before(end); quiet += handshakesInterval {
		if v.handshakes.Load() > 0 || slices.ContainsFunc(w.sockets, hasPackets) {
			quiet = 0
		}
		time.Sleep(handshakesInterval)
	}
}

// logf writes to the server's log.
func (w *worker) logf(format string, args ...any) {
	if l := w.server.Server.Logger; l != nil {
		l.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}

// fail makes serve return err.
func (w *worker) fail(err error) {
	w.err = err
	close(w.failed)
}

// socketsOf returns the sockets of a worker, whose files it closes.
func socketsOf(info prefork.WorkerInfo) (sockets []socket, err error) {
	keys := keysOf(info.PacketSecret)
	for _, f := range info.Packets {
		c, openErr := net.FilePacketConn(f)
		err = errors.Join(err, openErr, f.Close())
		if openErr == nil {
			sockets = append(sockets, keys.socket(c, info.PacketIndex))
		}
	}
	if err != nil {
		closeAll(sockets)
		return nil, err
	}
	return sockets, nil
}

// groupKeys are what the sockets of a group share.
type groupKeys struct {
	mark  byte // of connection ids
	reset quic.StatelessResetKey
	token quic.TokenGeneratorKey
}

// keysOf returns the keys that processes with a secret share.
func keysOf(secret []byte) (k groupKeys) {
	derive := func(dst []byte, use string) {
		key, err := hkdf.Expand(sha256.New, secret, "sluice http3 "+use, len(dst))
		if err != nil {
			panic(err) // it fails only for keys of more than 8 KB
		}
		copy(dst, key)
	}
	var mark [1]byte
	derive(mark[:], "mark")
	derive(k.reset[:], "reset")
	derive(k.token[:], "token")
	k.mark = mark[0]
	return k
}

// socket returns a socket with an index in the group.
func (k *groupKeys) socket(c net.PacketConn, index int) socket {
	return socket{conn: c, ids: idGenerator{byte(index), k.mark}, resetKey: &k.reset, tokenKey: &k.token}
}
