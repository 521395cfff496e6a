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
	"github.com/sluicehttp/sluice/internal/process/mesh"
	"github.com/sluicehttp/sluice/internal/process/supervise"
)

const (
	defaultNetwork    = "tcp4"
	defaultGrace      = 5 * time.Second
	defaultIdleLinger = 5 * time.Second
	// What New sets.
	newWindow   = time.Minute
	newInterval = 100 * time.Millisecond
	newHang     = 30 * time.Second
	defaultSoak = 10 * time.Second
	defaultBoot = 30 * time.Second
)

// A Logger receives the log. *log.Logger implements it.
type Logger interface {
	// Printf has the semantics of log.Printf.
	Printf(format string, args ...any)
}

// A Prefork serves with several processes. Make one with New, or as a literal
// with one of the Serve functions. Set the fields to the same values in all
// processes, and do not change them after serving has begun.
type Prefork struct {
	// Logger receives the log of the master and what this package logs in the
	// workers. If nil, the standard logger of package log is used. It is called on
	// a separate goroutine, so a Logger that blocks delays nothing else. Lines that
	// it does not accept in time are dropped and counted (Status.LogDropped).
	Logger Logger

	// ServeFunc serves HTTP in a worker, for ListenAndServe. New sets it to the
	// server's Serve. It may be called several times concurrently, each time with
	// another listener: for Listen, and for the sockets of a worker that died.
	ServeFunc func(ln net.Listener) error
	// ServeTLSFunc is ServeFunc for ListenAndServeTLS.
	ServeTLSFunc func(ln net.Listener, certFile, keyFile string) error
	// ServeTLSEmbedFunc is ServeFunc for ListenAndServeTLSEmbed.
	ServeTLSEmbedFunc func(ln net.Listener, certData, keyData []byte) error

	// Network is "tcp4", "tcp6", or "tcp" for both; "tcp4" if empty.
	Network string

	// Workers is the number of worker processes. If zero, it is the master's
	// GOMAXPROCS, which is the number of CPUs that the master may use.
	Workers int
	// MaxWorkers is the upper limit for SIGTTIN and Scale. If zero, it is 4 × the
	// number of CPUs, but at least Workers.
	MaxWorkers int
	// GOMAXPROCS is the GOMAXPROCS of each worker: 1 if zero, Go's own default if
	// negative. A value of 2 shortens the tail of the response times where a few
	// requests need much CPU time.
	GOMAXPROCS int

	// Affinity returns the CPUs on which a slot's worker may run; an empty result
	// means all CPUs. The affinity is set before the worker's program begins, so
	// it applies to all threads. If nil, workers are not pinned. It works on Linux
	// only, and not with a CommandProducer that starts the process on another
	// thread than the one on which it is called.
	Affinity func(slot int) []int
	// IncomingCPU gives a connection to the worker that Affinity has pinned to the
	// CPU which receives it, if there is one (SO_INCOMING_CPU). Packets, worker and
	// socket then stay on one CPU. Set it if the network card has a receive queue for
	// each of these CPUs: the worker of a CPU that receives everything gets
	// everything. It has no effect for slots with several CPUs, on loopback addresses,
	// with SharedSockets, and before Linux 6.2.
	IncomingCPU bool

	// User and Group are those of the workers: names or numbers. The master stays what
	// it is, and opens the sockets; it must be root. Group is the user's own if empty,
	// and the user's other groups are kept. A worker then opens what main opens as
	// this user; what only root may read goes through LoadConfig. They do not apply to
	// a CommandProducer. Linux only.
	User, Group string
	// NoNewPrivileges has the kernel refuse workers, and what they start, any gain of
	// privileges by executing a file. Linux only.
	NoNewPrivileges bool
	// MaxFiles is the number of descriptors that the master and each worker may have
	// (RLIMIT_NOFILE). Only root can raise it above the present hard limit. If zero,
	// the limit stays. Linux only.
	MaxFiles uint64

	// Listen holds further addresses: "host:port", "unix:" and a path, or "fd:" and
	// the name of sockets that systemd has passed to the master (LISTEN_FDNAMES). The
	// address of ListenAndServe has the same forms. Sockets that systemd has passed for
	// one of the other addresses are used, too. All workers share systemd's sockets.
	Listen []string
	// PacketListen holds UDP addresses, "host:port"; "" stands for the address of
	// ListenAndServe, which is then one of TCP. For each address the master opens a socket
	// for every worker process, so that a worker that is replaced and its successor have
	// different ones, all with the same port (SO_REUSEPORT). It closes them when it
	// returns. Workers get theirs in WorkerInfo, and SteerPackets decides which one gets a
	// packet. systemd's UDP sockets are not used. Linux only.
	PacketListen []string
	// SteerPackets is called in the master, for each address of PacketListen, whenever
	// other workers than before are ready to serve, or finish: before a worker is told to
	// end, and after one has died. socket is one of the sockets of the address, all of
	// which may be steered with it (SO_ATTACH_REUSEPORT_CBPF). ready and leaving have the
	// workers' WorkerInfo.PacketIndex, one of them at least, and secret is their
	// WorkerInfo.PacketSecret. The function must not block and not close the socket. An
	// error of the first call kills all workers and is returned by ListenAndServe; later
	// ones are logged.
	SteerPackets func(socket *os.File, ready, leaving []int, secret []byte) error
	// Backlog bounds the connections that wait in each TCP socket. If zero, it is
	// the system's maximum.
	Backlog int
	// UnixMode is the mode of unix sockets. If zero, the umask decides.
	UnixMode fs.FileMode

	// RecoverThreshold is how many unexpected exits of workers are tolerated
	// within RecoverWindow. Every exit counts, whatever its status. 0 tolerates
	// none. New sets half of GOMAXPROCS, at least 1.
	RecoverThreshold int
	// RecoverWindow is the time over which exits count. If zero, all exits since
	// the master's start count. New sets one minute.
	RecoverWindow time.Duration
	// RecoverInterval is the pause before the master replaces a worker that lived
	// for less than ten seconds. The pause doubles, up to 30 s, with each
	// consecutive worker that died before it served. If the last serving worker
	// dies, it is replaced at once, within the threshold. Zero means no pause. New sets 100 ms.
	RecoverInterval time.Duration
	// OverRecovery says what happens beyond the threshold. By default a Prefork of New
	// goes on with the other workers, and starts new ones after growing pauses. In a
	// literal, or if the program sets another RecoverThreshold than New, the other
	// workers end too, and ListenAndServe returns ErrOverRecovery.
	OverRecovery OverRecovery

	// BootTimeout is the time within which a worker must begin to serve; 30 s if
	// zero or negative. A worker that needs longer is killed. That counts as an
	// unexpected exit unless its predecessor still serves.
	BootTimeout time.Duration

	// SoakTime is how long all workers must serve after a restart before it is over; 10 s
	// if zero, none if negative. If a worker of the new version dies or hangs before, all
	// slots get the version from before back. See Restart.
	SoakTime time.Duration

	// ShutdownGracePeriod is the time that requests have to finish after the
	// master begins to end, or has died; 5 s if zero or negative.
	ShutdownGracePeriod time.Duration
	// ShutdownDelay is how long workers go on accepting connections after SIGTERM or
	// Stop, before ShutdownGracePeriod begins. HealthHandler says meanwhile that the
	// server is not ready, so that a load balancer can send new connections elsewhere.
	// A second SIGTERM ends the delay. If zero or negative, there is none.
	ShutdownDelay time.Duration
	// DrainTimeout is the time that requests have to finish in a worker that is
	// being replaced. If zero or negative, it is ShutdownGracePeriod, or 2 s more than
	// twice IdleLinger if that is longer: 12 s.
	DrainTimeout time.Duration
	// IdleLinger is how long a worker that is being replaced keeps those idle
	// connections open that it cannot hand over to its successor, such as TLS
	// connections. Their next request is then answered with "Connection: close"
	// and not lost. Handshakes of HTTP/3 have as long to complete.
	// It is 5 s if zero or negative. It ends 2 s before DrainTimeout,
	// or a quarter of it if that is less: idle connections are then closed in order
	// (close_notify, GOAWAY), and not cut. When the master ends, they are closed at once.
	IdleLinger time.Duration

	// HangTimeout is the time after which a worker counts as hung if it does not
	// answer the master, or has waiting connections and accepts none. A hung
	// worker is replaced, and killed after it has printed its stacks. If zero or
	// negative, the master does not look for hung workers. New sets 30 s.
	HangTimeout time.Duration

	// Reuseport is fasthttp's choice between a socket for each worker
	// (SO_REUSEPORT) and one shared socket. On Linux the master makes a socket for
	// each worker in either case. On other systems, and with a CommandProducer,
	// true makes each worker open its own sockets.
	Reuseport bool
	// SharedSockets makes all workers share one socket for each address, on Linux
	// too. The first worker that calls accept then gets a new connection, and the
	// balance between workers is worse.
	SharedSockets bool

	// Admin is an address on which the master itself serves AdminHandler:
	// "127.0.0.1:9090", or "unix:" and a path. The mode of a unix socket is 0600. On a
	// loopback address, a Host that is neither an IP address nor localhost gets 403, but
	// for probes: pages whose site's name leads to it by DNS rebinding must not read it.
	// If empty, there is no admin server. If listening fails, ListenAndServe
	// returns the error before it starts a worker.
	Admin string
	// AdminHandler handles requests to Admin, in the master. If nil, HealthHandler and
	// ProfileHandler answer their paths, and StatusHandler all others.
	// A panic ends only the request. A fatal error, or use of all the memory, ends
	// the master and with it all workers.
	AdminHandler sluice.RequestHandler
	// Profiles makes profiles of a worker, in that worker, for ProfileHandler:
	// pprofhandler.PprofHandler, or another handler of paths below /debug/pprof/. If nil,
	// there are none. Linux only.
	Profiles sluice.RequestHandler

	// OnMasterDeath is called in the workers after the master has died. The
	// workers end within ShutdownGracePeriod in any case. A function that calls
	// os.Exit aborts their requests.
	OnMasterDeath func()
	// OnChildSpawn is called in the master for each worker process that it has
	// started. An error kills all workers and is returned by ListenAndServe.
	OnChildSpawn func(pid int) error
	// OnMasterReady is called in the master, once, after the first workers were
	// started. They may not serve yet. An error kills them and is returned by
	// ListenAndServe.
	OnMasterReady func(childPIDs []int) error
	// OnFleetReady is called in the master, once, when all workers serve.
	OnFleetReady func()
	// OnChildRecover is called in the master when a worker that died has been
	// replaced, after OnChildSpawn.
	OnChildRecover func(oldPid, newPid int)
	// OnReload is called in the master on SIGHUP and by Restart, before workers are
	// replaced. An error is logged and shown in Status, and no worker is replaced.
	OnReload func() error
	// LoadConfig is called in the master before the first workers are started, and
	// before each restart, after OnReload. Its result, at most 32 KiB, is passed to
	// the workers that are started from then on (WorkerInfo.Config), for example
	// certificates or settings. At the start, ListenAndServe returns its error;
	// later an error refuses the restart. After a restart that was refused or
	// failed, all workers have the previous configuration. Workers that read files
	// themselves would read the faulty ones. If nil, there is no configuration.
	LoadConfig func() ([]byte, error)

	// OnWorkerStart is called in each worker before it serves. An error ends the
	// worker, and the master logs it. At the first start, the master's ListenAndServe
	// returns it as a *BootError.
	OnWorkerStart func(WorkerInfo) error
	// OnDrain is called in a worker that has been told to end, after it has
	// stopped accepting. Connections that the server does not own (hijacked ones)
	// have until the deadline to end; OnDrain is the place to notify them.
	OnDrain func()
	// Drain waits for the requests of a ServeFunc that is not a Server's. It is
	// called after the listeners are closed; the context ends at the deadline. If
	// nil, a worker waits until its connections are closed (Linux).
	Drain func(context.Context) error
	// OnReopen is called on SIGUSR1, in every process.
	OnReopen func() error

	// Upgrade has the process that was started hold the workers, their sockets and the pid,
	// and nothing else. A child of it, the manager, is the master: Admin is served and all
	// functions that are called "in the master" are called there, and IsManager reports true.
	// If the manager dies, another one takes its place; no worker is replaced and no
	// connection is lost. UpgradeWorkers, SIGUSR2 and "sluice ctl upgrade" then replace the
	// manager, too, after the workers. The pid stays, and main runs in one process more, up
	// to ListenAndServe. The manager's ListenAndServe returns nil when it has passed its error
	// on: that of the process that was started first returns it. It cannot be used together with CommandProducer or Reuseport with
	// sockets of the workers. Linux only.
	Upgrade bool

	// CommandProducer replaces the built-in way to start a worker. It must set
	// FASTHTTP_PREFORK_CHILD=1 in the environment, make files the command's
	// ExtraFiles and start the command. Without Reuseport, files[0] is a listener;
	// the master controls the worker through the files after it. A worker that gets
	// only files[:1], or none with Reuseport, serves, but the master can only send
	// it SIGTERM, and it counts as ready when it has lived for two seconds. The
	// function must call Start itself, and not on another goroutine. It chooses the
	// binary, so UpgradeWorkers is the same as Restart, and a version from before is its
	// configuration only.
	CommandProducer func(files []*os.File) (*exec.Cmd, error)

	server       *sluice.Server // nil: not made by New
	newThreshold int            // the RecoverThreshold that New has set
	mesh         mesh.Mesh      // this worker and the others, for Backplane
	state        atomic.Pointer[state]
	journal      atomic.Pointer[supervise.Journal]
}

// WorkerInfo identifies a worker process.
type WorkerInfo struct {
	// Slot is the number of the worker's slot, from 0; -1 in a worker that the
	// master does not control.
	Slot int
	// Generation counts the processes of a slot, from 1.
	Generation int
	// Config is what LoadConfig returned in the master; nil in a worker that the
	// master does not control. Do not change it.
	Config []byte
	// Packets are the worker's own sockets, one for each address of PacketListen. The
	// receiver closes them. They are nil in a worker that the master does not control.
	Packets []*os.File
	// PacketIndex is the place of Packets in their groups, from 0 to 255: they were the
	// sockets with this number, from 0, that joined. Only one process has it at a time.
	PacketIndex int
	// PacketSecret is 32 random bytes that all workers have, as long as there are workers
	// of one fleet. Do not change them.
	PacketSecret []byte
}

// New returns a Prefork that serves with s. It sets the fields whose comments
// name a value that New sets.
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
	p.newThreshold = p.RecoverThreshold
	if s.Logger != nil {
		p.Logger = s.Logger
	}
	return p
}

// Server returns the server that was given to New; nil for a literal.
func (p *Prefork) Server() *sluice.Server { return p.server }

// ListenAndServe serves HTTP on the TCP address addr, "host:port", the unix socket
// "unix:" and its path, or systemd's sockets "fd:" and their name. In the master it returns when all workers have
// ended: nil after an orderly end, otherwise the reason. In a worker it returns
// nil after the worker was told to end and its requests are answered, and when the
// master has got the reason why the worker cannot serve. If ServeFunc returns later,
// it returns that result. The worker's main should return then.
func (p *Prefork) ListenAndServe(addr string) error {
	return p.run(addr, p.ServeFunc, false)
}

// ListenAndServeTLS is ListenAndServe for HTTPS.
//
// The key's file comes before the certificate's, unlike in net/http.
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

// logTo returns the Logger that receives the log.
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
		return max(p.grace(), 2*p.idleLinger()+farewell)
	}
	return p.DrainTimeout
}

func (p *Prefork) bootTimeout() time.Duration {
	if p.BootTimeout <= 0 {
		return defaultBoot
	}
	return p.BootTimeout
}

func (p *Prefork) soak() time.Duration {
	if p.SoakTime == 0 {
		return defaultSoak
	}
	return max(p.SoakTime, 0)
}

func (p *Prefork) idleLinger() time.Duration {
	if p.IdleLinger <= 0 {
		return defaultIdleLinger
	}
	return p.IdleLinger
}
