package supervise

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// modelWorker is a process as seen from outside the machine.
type modelWorker struct {
	pid       int // 0: the fork has not returned
	spawned   time.Time
	ready     bool // serves; a worker that cannot report READY counts after a while
	attached  bool
	told      bool // the master told it to end
	trusts    bool // it was told that it has a successor
	successor bool // another process served the slot when it was started
	recycled  bool // it asked to be replaced
	killed    bool
	version   *version
	health    modelHealth
}

// model simulates the world around a machine: it carries out actions at once and
// creates random events.
type model struct {
	t        *testing.T
	random   *rand.Rand
	fleet    *fleet
	now      time.Time
	live     map[key]*modelWorker
	adopters map[int]key // by slot, as the actions say
	lastGen  map[int]int
	nextPID  int
	crashes  int
	finished bool
	history  []string

	calm       bool // few events other than time
	ticked     time.Time
	isClosed   bool // the sockets are closed
	answers    []event
	hangs      int
	stoodStill int
	silent     bool         // workers never send messages
	tickets    map[int]bool // tickets of restarts that are not answered yet
	issued     int
	most       int  // the largest number of workers ever wanted
	spoken     bool // a worker has attached
	dumb       int  // workers that counted as ready without a message
	versions   modelVersions
}

func newModel(t *testing.T, c Config, seed uint64) *model {
	t.Helper()
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &model{
		t: t, random: rand.New(rand.NewPCG(seed, 2)), fleet: newFleet(c, seed),
		now:  time.Unix(1e9, 0),
		live: map[key]*modelWorker{}, tickets: map[int]bool{}, adopters: map[int]key{}, lastGen: map[int]int{}, nextPID: 100,
	}
}

// failf reports a violated property with its history.
func (m *model) failf(format string, args ...any) {
	m.t.Helper()
	from := max(0, len(m.history)-25)
	for _, line := range m.history[from:] {
		m.t.Log(line)
	}
	m.t.Fatalf(format, args...)
}

// feed passes e to the machine, carries out the actions and checks the properties.
func (m *model) feed(e event) {
	m.t.Helper()
	missed := m.now.Sub(m.ticked)
	if e.kind == evTick {
		m.ticked = m.now
	}
	hangs, wasRolling, rollout := m.hangs, m.fleet.rolling == rollingForward || m.fleet.rolling == rollingSoak, m.fleet.versions
	m.presume()
	m.history = append(m.history, fmt.Sprintf("%v event %d %v %v n=%d", m.now.Sub(time.Unix(1e9, 0)), e.kind, e.worker, e.ready, e.number))
	actions := m.fleet.step(e, m.now)
	m.checkSaved()
	for _, a := range actions {
		if a.kind != actLog {
			m.history = append(m.history, fmt.Sprintf("   action %d %v slot=%d", a.kind, a.worker, a.slot))
		} else {
			m.history = append(m.history, "   "+a.text)
		}
		m.play(a)
	}
	if e.kind == evRestart && wasRolling && m.fleet.versions != rollout {
		m.failf("a restart begins before the one before is over")
	}
	m.check()
	if timeout := m.fleet.config.HangTimeout; timeout > 0 && m.hangs > hangs && (e.kind != evTick || missed > timeout) {
		m.failf("after event %d, %v after the last tick, %d workers hang", e.kind, missed, m.hangs-hangs)
	}
	answers := m.answers
	m.answers = nil
	for _, answer := range answers {
		m.deliver(answer)
	}
}

// play carries out one action.
func (m *model) play(a action) {
	m.t.Helper()
	w := m.live[a.worker]
	switch a.kind {
	case actSpawn:
		if w != nil || a.worker.generation <= m.lastGen[a.worker.slot] {
			m.failf("worker %v is started twice", a.worker)
		}
		m.lastGen[a.worker.slot] = a.worker.generation
		serves := false
		for k, other := range m.live {
			serves = serves || k.slot == a.worker.slot && !other.told
		}
		m.live[a.worker] = &modelWorker{successor: serves, version: a.version}
		m.checkVersion(a.version, serves)
		if m.isClosed {
			m.failf("worker %v is started without sockets", a.worker)
		}
	case actPing, actLook:
		m.probed(a, w)
	case actCloseSockets:
		m.closed()
	case actAdopt:
		if w == nil || !w.ready || !w.attached || w.told {
			m.failf("slot %d is given to %v, which cannot serve it", a.slot, a.worker)
		}
		m.adopters[a.slot] = a.worker
	case actRelease:
		if m.adopters[a.slot] != a.worker {
			m.failf("slot %d is taken from %v, which has not got it", a.slot, a.worker)
		}
		delete(m.adopters, a.slot)
	case actDrain, actTerm:
		if w == nil || a.kind == actDrain != w.attached {
			m.failf("drain (action %d) of %v, attached %v", a.kind, a.worker, w)
		}
		m.checkSuccession(a)
		m.checkReplaced(a.worker, w)
		w.told, w.trusts = true, a.hasSuccessor
	case actKill, actDump:
		if w == nil || w.pid == 0 {
			m.failf("signal to %v, which does not run", a.worker)
		}
		w.killed = w.killed || a.kind == actKill
		if a.kind == actDump && m.fleet.mode != modeKilling {
			m.hung(a.worker, w)
		}
	case actForget:
		m.released(a.binary)
	case actRestarted:
		m.restarted(a)
		for _, ticket := range a.tickets {
			if !m.tickets[ticket] {
				m.failf("ticket %d is answered twice, or was never given", ticket)
			}
			delete(m.tickets, ticket)
		}
	case actFinish:
		if len(m.tickets) > 0 {
			m.failf("tickets %v are not answered", m.tickets)
		}
		if len(m.live) > 0 {
			m.failf("finished with %d workers", len(m.live))
		}
		m.finished = true
	}
}

// presume finds the workers that may count as ready without READY, because no worker
// has ever sent a message.
func (m *model) presume() {
	if m.fleet.config.Start == nil || m.spoken {
		return
	}
	for _, w := range m.live {
		if w.pid != 0 && !w.ready && m.now.Sub(w.spawned) >= 2*time.Second {
			w.ready = true
			m.dumb++
		}
	}
}

// checkSuccession checks that when a worker leaves a running fleet, another one
// serves its sockets, and that the order says so.
func (m *model) checkSuccession(a action) {
	m.t.Helper()
	if a.kind != actDrain || m.fleet.config.SharedSockets && m.fleet.mode == modeRunning {
		return // the master keeps shared sockets
	}
	owned := false
	for k, w := range m.live {
		owned = owned || k.slot == a.worker.slot && w.ready && !w.told && k != a.worker
	}
	if adopter, ok := m.adopters[a.worker.slot]; ok {
		other := m.live[adopter]
		owned = owned || other != nil && !other.told && m.fleet.mode == modeRunning
	}
	if before := m.live[a.worker]; before.told && before.trusts { // it stays so while a worker boots
		owned = owned || m.fleet.mode == modeRunning
	}
	if a.hasSuccessor && !owned {
		m.failf("%v is told that it has a successor", a.worker)
	}
}

// checkReplaced checks that a serving worker of a running fleet of unchanged size is
// only told to end when another one serves in its place.
func (m *model) checkReplaced(k key, w *modelWorker) {
	m.t.Helper()
	if m.fleet.mode != modeRunning || k.slot >= m.fleet.wanted || !w.ready || w.told {
		return
	}
	for other, o := range m.live {
		if other.slot == k.slot && other != k && o.ready && !o.told {
			return
		}
	}
	m.failf("%v is told to end, but no other worker serves in its place", k)
}

// check checks what must always hold.
func (m *model) check() {
	m.t.Helper()
	f := m.fleet
	m.checkTrust()
	m.checkRolling()
	m.checkVersions()
	successors, serving, canAdopt := 0, 0, false
	for _, s := range f.slots {
		if s.successor != nil {
			successors++
		}
		if s.serving != nil {
			serving++
			canAdopt = canAdopt || s.serving.takesOrders()
		}
	}
	if successors > 1 {
		m.failf("%d successors at once", successors)
	}
	if serving > f.wanted && f.mode == modeRunning && f.isAnyServed() {
		m.failf("%d workers serve where %d are wanted", serving, f.wanted)
	}
	if f.crashesTotal != m.crashes {
		m.failf("%d crashes are counted, %d happened", f.crashesTotal, m.crashes)
	}
	if f.mode != modeRunning || f.stage != stageReady || !canAdopt || !f.adoptsSockets() && !f.config.Inboxes {
		return
	}
	for _, s := range f.slots {
		adopter := m.live[m.adopters[s.id]]
		isAdopted := adopter != nil && adopter.ready && !adopter.told
		if s.opened && !s.served() && !isAdopted {
			m.failf("no worker serves the sockets of slot %d", s.id)
		}
	}
	m.checkShares()
}

// checkShares checks that the sockets of retired slots are spread evenly when all
// workers are ready.
func (m *model) checkShares() {
	m.t.Helper()
	f := m.fleet
	if !f.adoptsSockets() || !f.isReady() {
		return
	}
	var shares []int
	for _, s := range f.active() {
		if symptom, _ := f.symptom(s.serving); symptom != "" {
			return
		}
		if s.serving.takesOrders() {
			shares = append(shares, f.adoptions(s.serving))
		}
	}
	if len(shares) > 1 && slices.Max(shares)-slices.Min(shares) > 1 {
		m.failf("the workers have adopted the sockets of %v slots", shares)
	}
}

// checkTrust checks that no draining worker believes that its connections are taken
// over when they are not any more.
func (m *model) checkTrust() {
	m.t.Helper()
	if m.fleet.mode == modeRunning || m.fleet.mode == modeKilling {
		return
	}
	for k, w := range m.live {
		if w.trusts && !w.killed {
			m.failf("%v hands over to a successor that is gone", k)
		}
	}
}

// checkRolling checks that a rolling restart waits only for a successor that boots,
// for a pause after a failure, or while too many workers drain, and that the number
// of draining workers stays within its bound.
func (m *model) checkRolling() {
	m.t.Helper()
	f := m.fleet
	booting, draining, due := 0, 0, 0
	f.each(func(s *slot, w *worker) {
		if w.ending == endReplaced {
			draining++
		}
	})
	for _, s := range f.active() {
		switch {
		case s.successor != nil:
			booting++
		case s.serving != nil && f.isOutdated(s.serving) && !m.now.Before(s.respawnAt):
			due++
		}
	}
	if f.mode == modeRunning && due > 0 && booting == 0 && draining < f.wanted {
		m.failf("%d workers wait to be replaced, and %d drain", due, draining)
	}
	m.most = max(m.most, f.wanted)
	if draining > m.most {
		m.failf("%d predecessors drain, there were never more than %d workers", draining, m.most)
	}
}

// pick returns a random live worker for which want holds.
func (m *model) pick(want func(*modelWorker) bool) (key, *modelWorker) {
	var found []key
	for k, w := range m.live {
		if want(w) {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return key{}, nil
	}
	// The order of a map does not depend on the seed.
	slices.SortFunc(found, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.generation, b.generation))
	})
	k := found[m.random.IntN(len(found))]
	return k, m.live[k]
}

// exit ends a process.
func (m *model) exit(k key, w *modelWorker) {
	m.t.Helper()
	_, inside := m.fleet.find(k)
	bootedBeside := inside != nil && m.fleet.slots[k.slot].successor == inside
	isUnexpected := !w.told && !w.recycled && !bootedBeside && inside.ending < endOrdered
	fails := (isUnexpected || bootedBeside && !w.told && inside.ending < endWanted) && w.version != m.fleet.good
	if isUnexpected && !fails {
		m.crashes++
	}
	delete(m.live, k)
	for slot, adopter := range m.adopters {
		if adopter == k {
			delete(m.adopters, slot)
		}
	}
	served := w.ready && inside != nil && m.fleet.slots[k.slot].serving == inside && inside.phase == PhaseReady
	m.feed(event{kind: evExited, worker: k, text: "exit"})
	if fails && m.fleet.target == w.version {
		m.failf("%v failed, and its version is still the target", k)
	}
	f := m.fleet
	if f.mode == modeRunning && served && k.slot < f.wanted && !f.isAnyServed() && f.slots[k.slot].serving == nil &&
		!(f.degraded && f.slots[k.slot].respawnAt.Before(m.now.Add(2*lastBackoff))) {
		m.failf("%v was the last one that served, and its slot waits", k)
	}
}

// happen creates one random event.
func (m *model) happen() {
	m.t.Helper()
	running := func(w *modelWorker) bool { return w.pid != 0 }
	n := m.random.IntN(100)
	if m.calm && n >= 60 {
		m.age()
		return
	}
	if m.silent && (n >= 25 && n < 55 || n >= 78 && n < 82) {
		return
	}
	switch {
	case n < 25: // a fork returns
		if k, w := m.pick(func(w *modelWorker) bool { return w.pid == 0 }); w != nil {
			m.forked(k, w)
		}
	case n < 50: // a worker becomes ready
		if k, w := m.pick(func(w *modelWorker) bool { return w.pid != 0 && !w.ready && !w.told }); w != nil {
			w.attached, w.ready, m.spoken = true, true, true
			w.health.reset(m.now)
			m.feed(event{kind: evReady, worker: k})
		}
	case n < 55:
		if k, w := m.pick(running); w != nil {
			if !w.attached {
				w.health.reset(m.now)
			}
			w.attached, m.spoken = true, true
			m.feed(event{kind: evAttached, worker: k})
		}
	case n < 70: // a worker that was told to end ends
		if k, w := m.pick(func(w *modelWorker) bool { return w.told && w.pid != 0 }); w != nil {
			m.exit(k, w)
		}
	case n < 78: // any worker ends
		if k, w := m.pick(running); w != nil {
			m.exit(k, w)
		}
	case n < 82:
		if k, w := m.pick(running); w != nil {
			w.attached, w.recycled, m.spoken = true, true, true
			m.feed(event{kind: evRecycle, worker: k, text: "model"})
		}
	case n < 87:
		m.issued++
		m.tickets[m.issued] = true
		if m.random.IntN(4) == 0 {
			m.feed(event{kind: evRefused, number: m.issued, err: errors.New("no")})
		} else {
			m.feed(event{kind: evRestart, number: m.issued, version: m.newVersion()})
		}
	case n < 90:
		m.feed(event{kind: evScaleBy, number: m.random.IntN(5) - 2})
	case n < 91:
		m.feed(event{kind: evPause})
	case n < 92:
		m.feed(event{kind: evReopen})
	default:
		m.now = m.now.Add(time.Duration(m.random.IntN(4000)) * time.Millisecond)
		m.feed(event{kind: evTick})
	}
}

// forked lets a fork return.
func (m *model) forked(k key, w *modelWorker) {
	m.t.Helper()
	if m.random.IntN(10) == 0 && m.fleet.stage != stageStarting {
		delete(m.live, k)
		m.feed(event{kind: evSpawnFailed, worker: k, err: errors.New("no fork")})
		return
	}
	m.nextPID++
	w.pid, w.spawned = m.nextPID, m.now
	bare := m.random.IntN(10) == 0
	_, inside := m.fleet.find(k)
	w.ready = bare && inside.phase == PhaseSpawned // otherwise it was told to end already
	m.feed(event{kind: evSpawned, worker: k, pid: w.pid, ready: bare})
}

func TestMachineModel(t *testing.T) {
	histories := uint64(240)
	if testing.Short() {
		histories = 80
	}
	hangs, stoodStill, dumb := 0, 0, 0
	var versions modelVersions
	for seed := range histories {
		c := Config{
			Workers: 3, MinWorkers: 1, MaxWorkers: 6, RecoverThreshold: 10, RecoverWindow: 20 * time.Second,
			RecoverInterval: 100 * time.Millisecond, Soak: time.Duration(seed%3) * 3 * time.Second, OverRecovery: OverRecovery(seed % 2), Sockets: noSockets,
		}
		if seed%4 > 0 {
			c.HangTimeout = modelTimeout
			c.Progress = func(int, int) (uint64, bool) { return 0, false } // the model checks queues itself
			c.Inboxes = seed%8 > 4
			c.SharedSockets = seed%16 > 12
		}
		if seed%5 == 0 {
			c.Start = noStart
		}
		if seed%3 == 0 {
			c.StopDelay = time.Minute
		}
		m := newModel(t, c, seed)
		m.silent = seed%15 == 0
		m.calm = seed%4 > 1
		m.feed(event{kind: evStart})
		for range 300 {
			if m.finished {
				break
			}
			m.happen()
		}
		m.finish()
		hangs, stoodStill, dumb = hangs+m.hangs, stoodStill+m.stoodStill, dumb+m.dumb
		versions.add(&m.versions)
	}
	versions.check(t, int(histories))
	t.Logf("%d workers hung, the master stood still %d times, %d workers could not speak", hangs, stoodStill, dumb)
	if hangs < int(histories)/10 || stoodStill < int(histories)/10 || dumb < int(histories)/10 {
		t.Errorf("%d hangs, %d times stood still, %d cannot send messages: too few to prove anything", hangs, stoodStill, dumb)
	}
}

// finish stops the fleet and lets it end.
func (m *model) finish() {
	m.t.Helper()
	if !m.finished && m.fleet.config.StopDelay > 0 {
		m.feed(event{kind: evStop})
		for range 40 { // it goes on as before
			if m.finished {
				break
			}
			m.happen()
		}
	}
	if !m.finished {
		m.feed(event{kind: []eventKind{evStop, evKill, evQuit}[m.random.IntN(3)]})
	}
	for i := 0; !m.finished; i++ {
		if i > 1000 {
			m.failf("the fleet does not end: %d workers", len(m.live))
		}
		if k, w := m.pick(func(*modelWorker) bool { return true }); w != nil {
			if w.pid == 0 {
				m.forked(k, w)
			} else {
				m.exit(k, w)
			}
		}
	}
	if more := m.fleet.step(event{kind: evRestart, version: &version{}}, m.now); len(more) > 0 {
		m.failf("actions after the end: %v", more)
	}
}

// checkSaved checks that the state, saved and loaded, is the same state.
func (m *model) checkSaved() {
	m.t.Helper()
	text, err := json.Marshal(m.fleet.save())
	if err != nil {
		m.failf("%v", err)
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		m.failf("%v", err)
	}
	again := newFleet(m.fleet.config, 1)
	again.load(&s, m.now, func(id, origin string) *executable { return &executable{id: id, origin: origin} })
	if second, err := json.Marshal(again.save()); err != nil || !bytes.Equal(second, text) {
		m.failf("%v: loaded and saved again\n%s\nit was\n%s", err, second, text)
	}
}
