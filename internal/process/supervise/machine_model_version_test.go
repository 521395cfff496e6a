package supervise

import (
	"testing"
	"time"
)

// modelVersions is what a history says about versions.
type modelVersions struct {
	soaking                   *version  // the version that all slots have got
	soakedFrom                time.Time // since when
	open                      map[*executable]bool
	done, back, begun, onGood int // restarts that succeeded and failed; workers of empty slots
}

// newVersion returns the version of a restart, or of an upgrade.
func (m *model) newVersion() *version {
	v := &version{cause: CauseRestart}
	if m.random.IntN(2) == 0 {
		v.cause, v.binary = CauseUpgrade, &executable{}
		if m.versions.open == nil {
			m.versions.open = map[*executable]bool{}
		}
		m.versions.open[v.binary] = true
	}
	return v
}

// checkVersion checks the version of a worker that is started. A slot without another
// worker gets the good one, unless no worker of that one serves.
func (m *model) checkVersion(v *version, hasOther bool) {
	m.t.Helper()
	f := m.fleet
	if v.binary != nil && !m.versions.open[v.binary] {
		m.failf("a worker of version %d is started from a closed binary", v.number)
	}
	if v != f.good && v != f.target {
		m.failf("a worker of version %d is started; the target is %d, the good one %d", v.number, f.target.number, f.good.number)
	}
	if hasOther {
		return
	}
	if f.good != f.target {
		m.versions.begun++
	}
	if v == f.good {
		if f.good != f.target {
			m.versions.onGood++
		}
		return
	}
	for k, w := range m.live { // one that is told to end by the same event does not count
		_, inside := f.find(k)
		if k.slot < f.wanted && w.ready && !w.told && inside.phase == PhaseReady && w.version == f.good {
			m.failf("an empty slot gets version %d, while %v serves with version %d", v.number, k, f.good.number)
		}
	}
}

// released checks that a binary is closed once, and that no version needs it.
func (m *model) released(binary *executable) {
	m.t.Helper()
	f := m.fleet
	if binary != nil && !m.versions.open[binary] {
		m.failf("a binary is closed twice")
	}
	if binary == f.good.binary || binary == f.target.binary || f.pending != nil && binary == f.pending.binary {
		m.failf("a binary is closed that is needed")
	}
	delete(m.versions.open, binary)
}

// restarted checks the answer to a restart: it succeeded if all slots have had the new
// version for the time of Soak, and failed if no worker of a failed version serves.
func (m *model) restarted(a action) {
	m.t.Helper()
	f := m.fleet
	_, isRollback := a.err.(*RestartError)
	switch {
	case a.err == nil:
		m.versions.done++
		if f.config.Soak > 0 && (m.versions.soaking != f.good || m.now.Sub(m.versions.soakedFrom) < f.config.Soak) {
			m.failf("version %d is good after %v", f.good.number, m.now.Sub(m.versions.soakedFrom))
		}
	case isRollback:
		m.versions.back++
		if f.failure == "" {
			m.failf("a restart failed, and the status does not tell why")
		}
	}
}

// checkVersions checks the state of versions after an event.
func (m *model) checkVersions() {
	m.t.Helper()
	f := m.fleet
	if f.rolling != rollingSoak {
		m.versions.soaking = nil
	} else if m.versions.soaking != f.target {
		m.versions.soaking, m.versions.soakedFrom = f.target, m.now
		for _, s := range f.active() {
			if !s.served() || s.serving.version != f.target {
				m.failf("slot %d has not got version %d, which is said to run", s.id, f.target.number)
			}
		}
	}
	isUnderWay := f.rolling == rollingForward || f.rolling == rollingSoak
	if (f.target != f.good) != isUnderWay {
		m.failf("phase %d, the target is version %d, the good one %d", f.rolling, f.target.number, f.good.number)
	}
	if f.rolling == rollingNone && (f.pending != nil || len(f.waiting) > 0) {
		m.failf("no restart is under way: pending %v, waiting %v", f.pending, f.waiting)
	}
	for _, s := range f.slots {
		if pause := s.respawnAt.Sub(m.now); pause > longestBackoff*12/10 {
			m.failf("slot %d waits for %v", s.id, pause)
		}
	}
	for binary := range m.versions.open {
		if binary != f.good.binary && binary != f.target.binary && (f.pending == nil || binary != f.pending.binary) && f.mode == modeRunning {
			m.failf("a binary is open that no version needs")
		}
	}
}

// add adds up what happened in several histories.
func (v *modelVersions) add(other *modelVersions) {
	v.done += other.done
	v.back += other.back
	v.begun += other.begun
	v.onGood += other.onGood
}

// check checks that the histories had enough restarts to prove anything.
func (v *modelVersions) check(t *testing.T, histories int) {
	t.Helper()
	t.Logf("%d restarts succeeded, %d were rolled back; %d of %d workers of empty slots got the good version", v.done, v.back, v.onGood, v.begun)
	if v.done < histories/2 || v.back < histories/2 || v.onGood < histories/10 || v.begun-v.onGood < histories/10 {
		t.Error("too few to prove anything")
	}
}
