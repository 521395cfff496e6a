package supervise

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

// savedFormat is the format of saved. A program that cannot read another program's is
// refused as its successor.
const savedFormat = 1

// saved is a fleet's state as another process reads it, in JSON. It leaves out what is
// known only to this process: tickets, and when workers gave their last signs of life.
type saved struct {
	Format int
	Wanted int
	Mode   mode
	// Listening is what has become of the sockets.
	Listening listening
	// StopsAt and all other times are of the wall clock. The time between two processes is so
	// short that a clock that is set meanwhile does no harm.
	StopsAt       time.Time
	Result        *savedError
	Stage         stage
	FirstPIDs     []int
	IsAnyAttached bool

	Versions []savedVersion
	// Good, Target and Pending are indices of Versions; none: -1.
	Good, Target, Pending int
	Version               int
	Rolling               rolling
	SoakEnd               time.Time
	WhyBack               *savedError
	Restarts, Failures    int
	Failure               string
	Crashes               []time.Time
	CrashesTotal          int
	Degraded              bool
	Slots                 []savedSlot
}

type savedVersion struct {
	Number        int
	Binary        string // its id; "": it is not needed any more
	Origin        string
	Configuration []byte
	Cause         Cause
}

type savedSlot struct {
	Generation          int
	Workers             []savedWorker
	Serving, Successor  int // indices of Workers; none: -1
	Version             int // an index of Versions; none: -1
	Since               time.Time
	Cause               Cause
	Opened, Retired     bool
	Adopter             *savedKey
	RespawnAt           time.Time
	Unready, LastDead   int
	HungAt              time.Time
	Starts              int
	CrashCount, HangNum int
	Crash               string
	CrashedAt           time.Time
}

type savedKey struct{ Slot, Generation int }

type savedWorker struct {
	Generation, PID        int
	Phase                  Phase
	Attached               bool
	Version                int // an index of Versions
	Started, ReadyAt, Due  time.Time
	Ending                 ending
	KnowsSuccessor, IsDump bool
	HungAt                 time.Time
	Recovers               int
	Failure                *BootError
}

// savedError is an error whose identity matters to callers.
type savedError struct {
	Text           string
	IsOverRecovery bool
	IsQuit         bool
	Boot           *BootError
	Slot           int // of a RestartError, with IsRestart; the other fields say its Err
	IsRestart      bool
	Errno          syscall.Errno
	NetOp          string // of a *net.OpError
}

// sameError is an error of another process.
type sameError struct {
	text  string
	errno syscall.Errno
	netOp string
}

func (e *sameError) Error() string { return e.text }

// Unwrap returns the system's error, such as EADDRINUSE.
func (e *sameError) Unwrap() error { return e.errno }

// As tells what failed on a socket, such as "listen".
func (e *sameError) As(target any) bool {
	op, isWanted := target.(**net.OpError)
	if isWanted = isWanted && e.netOp != ""; isWanted {
		*op = &net.OpError{Op: e.netOp, Err: e.errno}
	}
	return isWanted
}

// saveError returns err in a form for JSON, from which load makes it again with the
// identity that callers of Run and Restart may ask for.
func saveError(err error) *savedError {
	if err == nil {
		return nil
	}
	var restart *RestartError
	if errors.As(err, &restart) {
		inner := saveError(restart.Err)
		inner.Slot, inner.IsRestart = restart.Slot, true
		return inner
	}
	s := &savedError{Text: err.Error(), IsOverRecovery: errors.Is(err, ErrOverRecovery), IsQuit: errors.Is(err, ErrQuit)}
	errors.As(err, &s.Boot)
	errors.As(err, &s.Errno)
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		s.NetOp = op.Op
	}
	return s
}

// load is the reverse of saveError.
func (s *savedError) load() error {
	switch {
	case s == nil:
		return nil
	case s.IsRestart:
		inner := *s
		inner.IsRestart = false
		return &RestartError{Slot: s.Slot, Err: inner.load()}
	case s.IsOverRecovery:
		return ErrOverRecovery
	case s.IsQuit:
		return ErrQuit
	case s.Boot != nil:
		return s.Boot
	}
	if s.Errno != 0 {
		return &sameError{s.Text, s.Errno, s.NetOp}
	}
	return errors.New(s.Text)
}

// save returns f's state.
func (f *fleet) save() *saved {
	s := &saved{
		Format: savedFormat, Wanted: f.wanted, Mode: f.mode, Listening: f.listening, StopsAt: f.stopsAt, Result: saveError(f.result),
		Stage: f.stage, FirstPIDs: f.firstPIDs, IsAnyAttached: f.isAnyAttached,
		Version: f.versions, Rolling: f.rolling, SoakEnd: f.soakEnd, WhyBack: saveError(f.whyBack),
		Restarts: f.restarts, Failures: f.failures, Failure: f.failure,
		Crashes: f.crashes, CrashesTotal: f.crashesTotal, Degraded: f.degraded,
	}
	var versions []*version
	index := func(v *version) int {
		if v == nil {
			return -1
		}
		if i := slices.Index(versions, v); i >= 0 {
			return i
		}
		versions = append(versions, v)
		return len(versions) - 1
	}
	s.Good, s.Target, s.Pending = index(f.good), index(f.target), index(f.pending)
	for _, slot := range f.slots {
		s.Slots = append(s.Slots, slot.save(index))
	}
	for _, v := range versions {
		out := savedVersion{Number: v.number, Configuration: v.configuration, Cause: v.cause}
		if slices.Contains([]*version{f.good, f.target, f.pending}, v) && v.binary != nil {
			out.Binary, out.Origin = v.binary.id, v.binary.origin
		}
		s.Versions = append(s.Versions, out)
	}
	return s
}

// save returns s's state. index returns the place of a version.
func (s *slot) save(index func(*version) int) savedSlot {
	out := savedSlot{
		Generation: s.generation, Version: index(s.version), Since: s.since, Cause: s.cause, Opened: s.opened, Retired: s.retired,
		RespawnAt: s.respawnAt, Unready: s.unready, LastDead: s.lastDead, HungAt: s.hungAt,
		Starts: s.starts, CrashCount: s.crashes, HangNum: s.hangs, Crash: s.crash, CrashedAt: s.crashedAt,
		Serving: -1, Successor: -1,
	}
	if s.adopter != nil {
		out.Adopter = &savedKey{s.adopter.slot, s.adopter.generation}
	}
	for i, w := range s.workers() {
		switch w {
		case s.serving:
			out.Serving = i
		case s.successor:
			out.Successor = i
		}
		out.Workers = append(out.Workers, savedWorker{
			Generation: w.generation, PID: w.pid, Phase: w.phase, Attached: w.attached, Version: index(w.version),
			Started: w.started, ReadyAt: w.readyAt, Due: w.due, Ending: w.ending,
			KnowsSuccessor: w.knowsSuccessor, IsDump: w.isDumping, HungAt: w.hungAt, Recovers: w.recovers, Failure: w.failure,
		})
	}
	return out
}

// load makes f, which is new, continue from s at now. binary returns the binary with an
// id.
func (f *fleet) load(s *saved, now time.Time, binary func(id, origin string) *executable) {
	versions := make([]*version, len(s.Versions))
	for i, v := range s.Versions {
		versions[i] = &version{number: v.Number, configuration: v.Configuration, cause: v.Cause}
		if v.Binary != "" {
			versions[i].binary = binary(v.Binary, v.Origin)
		}
	}
	at := func(i int) *version {
		if i < 0 || i >= len(versions) {
			return nil
		}
		return versions[i]
	}
	f.now = now
	f.wanted, f.mode, f.listening, f.stopsAt, f.result = s.Wanted, s.Mode, s.Listening, s.StopsAt, s.Result.load()
	f.stage, f.firstPIDs, f.isAnyAttached = s.Stage, s.FirstPIDs, s.IsAnyAttached
	f.good, f.target, f.pending, f.versions = at(s.Good), at(s.Target), at(s.Pending), s.Version
	f.rolling, f.soakEnd, f.whyBack = s.Rolling, s.SoakEnd, s.WhyBack.load()
	f.restarts, f.failures, f.failure = s.Restarts, s.Failures, s.Failure
	f.crashes, f.crashesTotal, f.degraded = s.Crashes, s.CrashesTotal, s.Degraded
	f.slots = nil
	for id, saved := range s.Slots {
		f.slots = append(f.slots, saved.load(id, now, at))
	}
	for i, saved := range s.Slots {
		if k := saved.Adopter; k != nil {
			_, f.slots[i].adopter = f.find(key{k.Slot, k.Generation})
		}
	}
	f.grow()
}

// load returns the slot with a number.
func (s *savedSlot) load(id int, now time.Time, at func(int) *version) *slot {
	out := &slot{
		id: id, generation: s.Generation, version: at(s.Version), since: s.Since, cause: s.Cause, opened: s.Opened, retired: s.Retired,
		respawnAt: s.RespawnAt, unready: s.Unready, lastDead: s.LastDead, hungAt: s.HungAt,
		starts: s.Starts, crashes: s.CrashCount, hangs: s.HangNum, crash: s.Crash, crashedAt: s.CrashedAt,
	}
	for i, saved := range s.Workers {
		w := &worker{
			key: key{id, saved.Generation}, pid: saved.PID, phase: saved.Phase, attached: saved.Attached, version: at(saved.Version),
			started: saved.Started, readyAt: saved.ReadyAt, due: saved.Due, ending: saved.Ending,
			knowsSuccessor: saved.KnowsSuccessor, isDumping: saved.IsDump, hungAt: saved.HungAt, recovers: saved.Recovers, failure: saved.Failure,
		}
		w.vitals.reset(now)
		switch i {
		case s.Serving:
			out.serving = w
		case s.Successor:
			out.successor = w
		default:
			out.leaving = append(out.leaving, w)
		}
	}
	return out
}

// resume compares the state that another master has left with the processes that live, and
// repeats what may not have reached them. children are those that were started.
func (f *fleet) resume(children map[key]int) {
	if f.listening == listeningClosed {
		f.do(action{kind: actCloseSockets})
	}
	f.each(func(s *slot, w *worker) {
		pid, exists := children[w.key]
		switch {
		case !exists && w.pid == 0: // its start was lost: settle starts another one
			f.remove(s, w)
			if w.recovers != 0 {
				s.lastDead = w.recovers
			}
		case !exists:
			f.exited(s, w, "ended, while no master ran")
		case w.pid == 0:
			f.spawned(s, w, pid, false)
		}
	})
	f.each(func(s *slot, w *worker) {
		if w.pid == 0 {
			return
		}
		f.do(action{kind: actResume, worker: w.key})
		switch w.phase {
		case PhaseDraining:
			f.late = append(f.late, action{kind: actDrain, worker: w.key})
		case PhaseKilled:
			f.do(action{kind: actKill, worker: w.key})
		case PhaseHung:
			w.isDumping = false
		}
		if !w.takesOrders() {
			return
		}
		for _, other := range f.slots {
			switch {
			case other == s || !other.opened:
			case other.adopter == w:
				f.do(action{kind: actAdopt, worker: w.key, slot: other.id})
			default:
				f.do(action{kind: actRelease, worker: w.key, slot: other.id})
			}
		}
	})
}
