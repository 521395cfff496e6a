package prefork

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// state describes a Prefork whose ListenAndServe has been called.
type state struct {
	master *supervise.Master // nil in a worker
	addrs  []net.Addr
	admin  net.Addr
}

// Status is a snapshot of the workers. Its parts are read one after the other
// while the workers run, so they may be of slightly different times.
//
// In JSON the names are those in the fields' tags. Durations are in nanoseconds,
// and their names end in _ns; times are RFC 3339. Existing names will not change;
// new ones may be added.
type Status struct {
	// Wanted is the number of workers that should run.
	Wanted int `json:"wanted"`
	// Ready reports whether all of them serve.
	Ready bool `json:"ready"`
	// Rolling reports whether workers are being replaced by those of another version.
	Rolling bool `json:"rolling"`
	// Soaking reports whether all workers have the version of a restart, and that SoakTime is
	// not over.
	Soaking bool `json:"soaking"`
	// Version is the number of the version that all workers are to have. It is 1 at
	// first, and each restart makes another one.
	Version int `json:"version"`
	// GoodVersion is the version that all workers get back if Version fails. It is
	// Version unless a restart is under way.
	GoodVersion int `json:"good_version"`
	// Degraded reports whether too many workers died (OverRecoveryDegrade).
	Degraded bool `json:"degraded"`
	// Paused reports whether SIGWINCH has ended the workers.
	Paused bool `json:"paused"`
	// Stopping reports whether the master is ending, or was told to (ShutdownDelay).
	Stopping bool `json:"stopping"`
	// Started reports whether all of them have served once.
	Started bool `json:"started"`
	// Profiles reports whether ProfileHandler has profiles of the workers.
	Profiles bool `json:"profiles"`
	// Crashes counts the unexpected exits of workers.
	Crashes int `json:"crashes"`
	// Hangs counts the workers that were replaced because they hung.
	Hangs int `json:"hangs"`
	// Restarts counts the rolling restarts that succeeded.
	Restarts int `json:"restarts"`
	// RestartsFailed counts the restarts that failed, or that OnReload or
	// LoadConfig refused.
	RestartsFailed int `json:"restarts_failed"`
	// RestartError says why the last restart failed; empty if it did not fail.
	RestartError string `json:"restart_error"`
	// LogDropped counts the lines of the master's log that were dropped because
	// Logger did not accept them in time.
	LogDropped int `json:"log_dropped"`
	// Refused counts the connections that were refused because of Server.Concurrency,
	// MaxConnsPerIP or ProxyProtocol.
	Refused uint64 `json:"refused"`
	// TimedOut counts the requests that did not arrive in time or whose handler gave up.
	TimedOut uint64 `json:"timed_out"`
	// Latency is how long requests took.
	Latency LatencyStatus `json:"latency"`
	// Latencies has all values of Latency, in nanoseconds; see Meter.Latency of package
	// sluice. It has 8 KiB and is never nil.
	Latencies *shared.Snapshot `json:"-"`
	// SlowRequests are requests of the last ten minutes that took 10 ms or more, the slowest
	// first: four of each slot at most.
	SlowRequests []SlowRequest `json:"slow_requests"`
	// Master is the master's process. It is empty in the Status of a Single.
	Master ProcessStatus `json:"master"`
	// Total holds the counters of all workers, including those that have ended, and
	// the present load of the living ones.
	Total Load `json:"total"`
	// Slots are the workers' slots, in the order of their numbers.
	Slots []SlotStatus `json:"slots"`
	// Workers are the living processes, sorted by slot. A slot has two processes
	// while one is being replaced; the serving one comes first.
	Workers []WorkerStatus `json:"workers"`
}

// SlotStatus describes a slot: the numbered place of a worker. When a worker ends,
// its successor takes the same slot.
type SlotStatus struct {
	// Slot is its number, from 0.
	Slot int `json:"slot"`
	// Generation is the generation of the slot's newest process; see WorkerStatus.
	Generation int `json:"generation"`
	// Queue is the number of connections that wait in the slot's sockets for a
	// worker to accept them. Linux and TCP only.
	Queue int `json:"queue"`
	// Version is the version of the slot's last worker that served; 0 if none has.
	Version int `json:"version"`
	// VersionSince is when the slot got that version.
	VersionSince time.Time `json:"version_since"`
	// VersionCause is why it got it: "start", "restart", "upgrade", or "rollback" if a
	// restart failed.
	VersionCause string `json:"version_cause"`
	// Restarts counts the processes after the first.
	Restarts int `json:"restarts"`
	// Crashes counts their unexpected exits.
	Crashes int `json:"crashes"`
	// Hangs counts those that were replaced because they hung.
	Hangs int `json:"hangs"`
	// CrashReason says how the last of these crashes or hangs came, as the log does; "" if
	// there was none. It has at most 120 bytes, with question marks for what is not
	// printable ASCII, and for quotes. Crashed is when.
	CrashReason string    `json:"crash_reason"`
	Crashed     time.Time `json:"crashed"`
	// Adopter is the slot whose worker serves this slot's sockets while this slot
	// has no worker; -1 if there is none.
	Adopter int `json:"adopter"`
	// Retired reports whether the slot has no worker because fewer workers are wanted.
	Retired bool `json:"retired"`
}

// WorkerStatus describes a worker process.
type WorkerStatus struct {
	// Slot is the number of its slot, from 0.
	Slot int `json:"slot"`
	// Generation counts the processes of the slot, from 1.
	Generation int `json:"generation"`
	// Phase is "spawned" (starting), "ready", "hung", "draining", "killed".
	Phase string `json:"phase"`
	// Version is what the process runs; see Status.Version. It is 0 for a moment in
	// which only the process itself has told of it.
	Version int `json:"version"`
	ProcessStatus
	Load
}

// ProcessStatus is what a process reports about itself. Workers report four times
// a second, the master once a second. A value that the system does not provide is
// zero.
type ProcessStatus struct {
	// PID is the process id.
	PID int `json:"pid"`
	// Started is when the process was started.
	Started time.Time `json:"started"`
	// HeartbeatAge is the time since the process's last report.
	HeartbeatAge time.Duration `json:"heartbeat_age_ns"`
	// Lag is how late that report was. More than a few milliseconds means that the
	// process lacks CPU time.
	Lag time.Duration `json:"lag_ns"`
	// ResidentBytes is the resident memory, including shared memory. Linux only.
	ResidentBytes uint64 `json:"resident_bytes"`
	// CPUTime is the processor time that the process has used.
	CPUTime time.Duration `json:"cpu_ns"`
	// Goroutines is the number of goroutines.
	Goroutines uint64 `json:"goroutines"`
	// GarbageCollections counts the cycles of the garbage collector.
	GarbageCollections uint64 `json:"garbage_collections"`
}

// Load holds the counters and the present load of one worker, or of all workers.
// Only the server that was given to New is counted; with another ServeFunc, Load
// is zero.
type Load struct {
	// Accepted counts accepted connections. A connection that one worker hands over
	// to another is counted again.
	Accepted uint64 `json:"accepted"`
	// Done counts the connections that were closed or handed over.
	Done uint64 `json:"done"`
	// Cut counts the connections that were still open at the deadline of their
	// worker's end. They are included in Done. It is zero in living workers.
	Cut uint64 `json:"cut"`
	// Active is the number of open connections.
	Active uint64 `json:"active"`
	// Idle is the number of open connections without a request in progress.
	Idle uint64 `json:"idle"`
	// InFlight is the number of requests in progress.
	InFlight uint64 `json:"in_flight"`
	// OldestRequest is the age of the oldest request in progress.
	OldestRequest time.Duration `json:"oldest_request_ns"`
	// Requests counts requests. It is the sum of Responses.
	Requests uint64 `json:"requests"`
	// Responses counts responses by the class of their status, 1xx first.
	Responses [5]uint64 `json:"responses"`
	// BytesRead and BytesWritten count the bytes read from and written to
	// connections.
	BytesRead    uint64 `json:"bytes_read"`
	BytesWritten uint64 `json:"bytes_written"`
	// HTTP2 are the gauges of HTTP/2.
	HTTP2 sluice.HTTP2Stats `json:"http2"`
	// HTTP3 are the gauges of HTTP/3.
	HTTP3 sluice.HTTP3Stats `json:"http3"`
}

// Status returns a snapshot. The master and the workers return the same
// information: the master publishes its own part after each change, at most one
// second later. Before ListenAndServe, the Status is empty. Where memory cannot be
// shared (Windows), it has only what this process knows.
func (p *Prefork) Status() Status {
	st := p.state.Load()
	if st == nil {
		return Status{Slots: []SlotStatus{}, Workers: []WorkerStatus{}, SlowRequests: []SlowRequest{}, Latencies: new(shared.Snapshot)}
	}
	segment := shared.Default()
	var n *notice
	if st.master != nil {
		n = newNotice(st.master.Status())
	} else {
		n = readNotice(segment)
	}
	s := n.merge(segment)
	s.Profiles = p.Profiles != nil
	return s
}

// Addrs returns the addresses of the listening sockets, with the ports that the
// system chose. It returns nil before the sockets exist, and in a master whose
// workers open their own sockets. Do not change the result.
func (p *Prefork) Addrs() []net.Addr {
	if s := p.state.Load(); s != nil {
		return s.addrs
	}
	return nil
}

// AdminAddr returns the address on which the master serves AdminHandler, with the
// port that the system chose. It returns nil in workers, without Admin, and before
// ListenAndServe.
func (p *Prefork) AdminAddr() net.Addr {
	if s := p.state.Load(); s != nil {
		return s.admin
	}
	return nil
}

// Stop ends the master as SIGTERM does, without waiting. Stop, Scale and Reopen
// do nothing in a worker, or while ListenAndServe does not run.
func (p *Prefork) Stop() {
	if m := p.master(); m != nil {
		m.Stop()
	}
}

// Restart replaces the workers one by one, as SIGHUP does. It returns nil when all
// new workers have served for SoakTime; the old ones may still have requests in
// progress.
//
// If a new worker does not begin to serve, or dies or hangs within SoakTime, the restart
// has failed. All slots then get workers of the version from before, with the
// configuration that LoadConfig returned then, and Restart returns a *RestartError when
// they have. These deaths do not count towards RecoverThreshold.
//
// Other errors are that of OnReload or LoadConfig, and then nothing has changed;
// ErrStopping if the fleet is ending or has ended; ErrNotMaster in a worker and
// before ListenAndServe; or ctx's error, and then the restart continues.
//
// A call during a restart waits for another restart after it; all calls that wait get
// the same answer. Of the master's hooks, only AdminHandler may call Restart, because a
// restart waits for the others.
func (p *Prefork) Restart(ctx context.Context) error {
	m := p.master()
	if m == nil {
		return ErrNotMaster
	}
	return publicError(m.Restart(ctx))
}

// UpgradeWorkers is Restart with the binary that the program's file has now, as SIGUSR2
// does. The file is that of the path by which the master was started, also if a symbolic
// link in it leads to another one by now. It is opened once:
// if the restart succeeds, all later workers run this binary, whatever happens to the
// file; if it fails, all workers run the one from before. Without Upgrade the master is not
// replaced, so the sockets, the times and thresholds, and the admin server stay as they are.
// With Upgrade, another master with the new binary soon takes this one's place.
//
// The error is also that of opening the file. On systems other than Linux, and with a
// CommandProducer, UpgradeWorkers is the same as Restart.
func (p *Prefork) UpgradeWorkers(ctx context.Context) error {
	m := p.master()
	if m == nil {
		return ErrNotMaster
	}
	return publicError(m.Upgrade(ctx))
}

// Scale sets the number of workers, between 1 and MaxWorkers, without waiting.
func (p *Prefork) Scale(workers int) {
	if m := p.master(); m != nil {
		m.Scale(workers)
	}
}

// Reopen makes every process call OnReopen, as SIGUSR1 does, without waiting.
func (p *Prefork) Reopen() {
	if m := p.master(); m != nil {
		m.Reopen()
	}
}

// master returns the master; nil in a worker and before ListenAndServe.
func (p *Prefork) master() *supervise.Master {
	if s := p.state.Load(); s != nil {
		return s.master
	}
	return nil
}
