package prefork

import (
	"context"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/supervise"
)

const (
	defaultNetwork    = "tcp4"
	defaultGrace      = 5 * time.Second
	defaultIdleLinger = 5 * time.Second
	// What New sets.
	newWindow   = time.Minute
	newInterval = 100 * time.Millisecond
	newHang     = 30 * time.Second
)

// A Logger gets the log. *log.Logger is one.
type Logger interface {
	// Printf has the semantics of log.Printf.
	Printf(format string, args ...any)
}

// A Prefork serves with several processes. Make one with New, or as a literal
// with one of the Serve functions. The fields must be set alike in all
// processes and not be changed once it serves.
type Prefork struct {
	// Logger gets the log of the master and of the workers' side of it. The
	// standard logger of package log if nil. It is called on a goroutine of its own,
	// so one that blocks stops nothing; lines that pile up are dropped and counted
	// (Status.LogDropped).
	Logger Logger

	// ServeFunc serves HTTP in a worker, for ListenAndServe. New sets it to the
	// server's Serve. It may be called several times at once, with a listener
	// each: for Listen, and to serve the socket of a worker that died.
	ServeFunc func(ln net.Listener) error
	// ServeTLSFunc is ServeFunc for ListenAndServeTLS.
	ServeTLSFunc func(ln net.Listener, certFile, keyFile string) error
	// ServeTLSEmbedFunc is ServeFunc for ListenAndServeTLSEmbed.
	ServeTLSEmbedFunc func(ln net.Listener, certData, keyData []byte) error

	// Network is "tcp4", "tcp6", or "tcp" for both; "tcp4" if empty.
	Network string

	// Workers is the number of worker processes; GOMAXPROCS of the master, which
	// is the number of CPUs that it may use, if zero.
	Workers int
	// MaxWorkers bounds SIGTTIN and Scale; 4 × the number of CPUs, at least
	// Workers, if zero.
	MaxWorkers int
	// GOMAXPROCS is that of the workers: 1 if zero, as Go chooses if negative. 2
	// shortens the tail where few requests need much CPU.
	GOMAXPROCS int

	// Affinity returns the CPUs that a slot's worker may run on, and nothing for all
	// of them. It is set before the worker's program begins, so that all of its
	// threads have it. nil: workers are not pinned. Linux only, and not with a
	// CommandProducer that leaves the thread it is called on.
	Affinity func(slot int) []int

	// Listen has more addresses: "host:port", or "unix:" and a path. So may the
	// address of ListenAndServe be.
	Listen []string
	// Backlog bounds the connections that wait in each TCP socket; the system's
	// maximum if zero.
	Backlog int
	// UnixMode is the mode of unix sockets; what the umask leaves if zero.
	UnixMode fs.FileMode

	// RecoverThreshold is the number of unexpected exits of workers, whatever
	// their status, that is borne within RecoverWindow. 0 bears none. New sets
	// half of GOMAXPROCS, at least 1.
	RecoverThreshold int
	// RecoverWindow is the time over which exits count; the master's life if
	// zero. New sets a minute.
	RecoverWindow time.Duration
	// RecoverInterval is the pause before a worker is replaced that lived for
	// less than ten seconds. It doubles, up to 30 s, with each worker in a row that
	// died before it served. The only worker that serves is replaced at once. No
	// pause if zero. New sets 100 ms.
	RecoverInterval time.Duration
	// OverRecovery says what happens beyond the threshold: by default the other
	// workers end too, and ListenAndServe returns ErrOverRecovery.
	OverRecovery OverRecovery

	// BootTimeout is the time within which a worker must serve; 30 s if zero or
	// negative. One that needs longer is killed, which counts as an unexpected exit
	// unless its predecessor serves on.
	BootTimeout time.Duration

	// ShutdownGracePeriod is what requests get to finish when the master ends,
	// or has died; 5 s if zero or negative.
	ShutdownGracePeriod time.Duration
	// DrainTimeout is what they get in a worker that is replaced;
	// ShutdownGracePeriod if zero.
	DrainTimeout time.Duration
	// IdleLinger is how long a worker that is replaced leaves idle connections
	// open that it cannot hand over to its successor, as those of TLS, so that
	// their next request is answered with "Connection: close" rather than lost.
	// 5 s if zero; at most DrainTimeout. When the master ends idle connections are
	// closed at once.
	IdleLinger time.Duration

	// HangTimeout is the time after which a worker counts as hung that does not
	// answer the master, or leaves connections waiting and accepts none: it is
	// replaced, and killed after it has printed its stacks. No worker is taken
	// for hung if zero or negative. New sets 30 s.
	HangTimeout time.Duration

	// Reuseport is fasthttp's choice between a socket for each worker
	// (SO_REUSEPORT) and one that they share. On Linux the master makes a socket
	// for each worker in either case. Elsewhere, and with a CommandProducer,
	// true has the workers make theirs.
	Reuseport bool
	// SharedSockets has all workers share one socket for each address, on Linux
	// too: new connections go to whoever is quickest, and balance is worse.
	SharedSockets bool

	// Admin is an address on which the master itself serves AdminHandler:
	// "127.0.0.1:9090", or "unix:" and a path; the socket's mode is 0600 then. None
	// if empty. If it cannot be listened on, ListenAndServe returns before it
	// starts a worker.
	Admin string
	// AdminHandler answers on Admin, in the master; StatusHandler if nil. A panic
	// ends the request, but what crashes a process or takes its memory ends the
	// master, and with it all workers.
	AdminHandler sluice.RequestHandler

	// OnMasterDeath is called in the workers when the master died. They end by
	// themselves in any case, within ShutdownGracePeriod: a function that calls
	// os.Exit cuts their requests off.
	OnMasterDeath func()
	// OnChildSpawn is called in the master for each worker process that was
	// started. An error kills all workers and is returned by ListenAndServe.
	OnChildSpawn func(pid int) error
	// OnMasterReady is called in the master, once, when the first workers were
	// started, which does not mean that they serve yet. An error kills them and
	// is returned by ListenAndServe.
	OnMasterReady func(childPIDs []int) error
	// OnFleetReady is called in the master, once, when all workers serve.
	OnFleetReady func()
	// OnChildRecover is called in the master when a worker that died was
	// replaced, after OnChildSpawn.
	OnChildRecover func(oldPid, newPid int)
	// OnReload is called in the master on SIGHUP and by Restart, before workers are
	// replaced. An error is logged, shown by Status, and keeps everything as it is.
	OnReload func() error
	// LoadConfig is called in the master before the first workers are started, and
	// before each restart, after OnReload. What it returns, 32 KiB at most, is
	// given to the workers that are started from then on (WorkerInfo.Config):
	// certificates, settings. An error is ListenAndServe's, or refuses the restart.
	// After one that was refused, or failed, workers that replace others get what
	// they would have got before; where they read files themselves, they would read
	// what is wrong in there. nil: there is nothing.
	LoadConfig func() ([]byte, error)

	// OnWorkerStart is called in each worker before it serves. An error ends it;
	// at the first start it is returned, as a *BootError, by the master's
	// ListenAndServe.
	OnWorkerStart func(WorkerInfo) error
	// OnDrain is called in a worker when it has been told to end, after it has
	// stopped accepting. Connections that the server has no hold of (hijacked
	// ones) have until the deadline; this is where to tell them.
	OnDrain func()
	// Drain waits for the requests of a ServeFunc that is not a Server's. It is
	// called when the listeners are closed; the context ends at the deadline.
	// Without it, a worker waits until its connections are closed (Linux).
	Drain func(context.Context) error
	// OnReopen is called on SIGUSR1, in every process.
	OnReopen func() error

	// CommandProducer starts a worker in place of the built-in way. It must set
	// FASTHTTP_PREFORK_CHILD=1 in the environment, make files the command's
	// ExtraFiles and start it. Without Reuseport, files[0] is a listener; what
	// follows has the worker controlled by the master. A worker that gets
	// files[:1] only, or with Reuseport none, serves, but a SIGTERM is all that
	// the master can tell it, and it counts as ready when it has lived for two
	// seconds. The function must call Start itself, not in
	// another goroutine.
	CommandProducer func(files []*os.File) (*exec.Cmd, error)

	server  *sluice.Server // nil: not made by New
	state   atomic.Pointer[state]
	journal atomic.Pointer[supervise.Journal]
}

// WorkerInfo says which worker a process is.
type WorkerInfo struct {
	// Slot is the worker's place, from 0; -1 in a worker that the master does
	// not control.
	Slot int
	// Generation counts the processes of a slot, from 1.
	Generation int
	// Config is what LoadConfig has returned in the master; nil in a worker that
	// the master does not control. It must not be changed.
	Config []byte
}

// New returns a Prefork that serves with s, and with the settings for recovery
// that its fields' comments name.
func New(s *sluice.Server) *Prefork {
	p := &Prefork{
		RecoverThreshold:  max(1, runtime.GOMAXPROCS(0)/2),
		RecoverWindow:     newWindow,
		RecoverInterval:   newInterval,
		HangTimeout:       newHang,
		ServeFunc:         s.Serve,
		ServeTLSFunc:      s.ServeTLS,
		ServeTLSEmbedFunc: s.ServeTLSEmbed,
		server:            s,
	}
	if s.Logger != nil {
		p.Logger = s.Logger
	}
	return p
}

// ListenAndServe serves HTTP on the TCP address addr, "host:port", or the unix
// socket "unix:" and its path. In the master it returns when all workers are
// gone: nil after an ordered end, else why. In a worker it returns nil when the
// worker was told to end and its requests are answered, and what ServeFunc
// returned if that came first; a worker's main should return then.
func (p *Prefork) ListenAndServe(addr string) error {
	return p.run(addr, p.ServeFunc, false)
}

// ListenAndServeTLS is ListenAndServe for HTTPS.
//
// Mind the order: the file of the key comes before that of the certificate.
func (p *Prefork) ListenAndServeTLS(addr, certKey, certFile string) error {
	if p.ServeTLSFunc == nil {
		return p.run(addr, nil, true)
	}
	return p.run(addr, func(ln net.Listener) error { return p.ServeTLSFunc(ln, certFile, certKey) }, true)
}

// ListenAndServeTLSEmbed is ListenAndServe for HTTPS with a certificate and a
// key in memory, as PEM.
func (p *Prefork) ListenAndServeTLSEmbed(addr string, certData, keyData []byte) error {
	if p.ServeTLSEmbedFunc == nil {
		return p.run(addr, nil, true)
	}
	return p.run(addr, func(ln net.Listener) error { return p.ServeTLSEmbedFunc(ln, certData, keyData) }, true)
}

// run is ListenAndServe in either kind of process.
func (p *Prefork) run(addr string, serve func(net.Listener) error, isTLS bool) error {
	defer p.logger().Flush()
	if !IsChild() {
		return p.lead(addr)
	}
	if serve == nil {
		return errNoServeFunc
	}
	return p.work(addr, serve, isTLS)
}

// logger returns the log, which never blocks its writers.
func (p *Prefork) logger() *supervise.Journal {
	if j := p.journal.Load(); j != nil {
		return j
	}
	p.journal.CompareAndSwap(nil, supervise.NewJournal(p.logTo()))
	return p.journal.Load()
}

// logTo is where the log goes.
func (p *Prefork) logTo() Logger {
	if p.Logger != nil {
		return p.Logger
	}
	return log.Default()
}

func (p *Prefork) network() string {
	if p.Network == "" {
		return defaultNetwork
	}
	return p.Network
}

func (p *Prefork) grace() time.Duration {
	if p.ShutdownGracePeriod <= 0 {
		return defaultGrace
	}
	return p.ShutdownGracePeriod
}

func (p *Prefork) drainTimeout() time.Duration {
	if p.DrainTimeout <= 0 {
		return p.grace()
	}
	return p.DrainTimeout
}

func (p *Prefork) idleLinger() time.Duration {
	if p.IdleLinger <= 0 {
		return defaultIdleLinger
	}
	return p.IdleLinger
}
