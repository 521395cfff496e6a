package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
)

// A Master runs a fleet. Its methods may be called concurrently.
//
// Only Run's goroutine uses the machine; everything reaches it as an event.
type Master struct {
	config        Config
	journal       *Journal // config.Logger
	lifelineRead  *os.File // workers inherit it
	lifelineWrite *os.File // no other process has it
	spawner       *spawner
	events        *mailbox[event]
	hooks         *mailbox[func()]
	hasRun        atomic.Bool
	tickets       tickets
	snapshot      atomic.Pointer[Status]
	// fleet and children are what another Master has left, nil if there was none.
	fleet    *fleet
	children map[key]int
	saved    []byte // the state that the Holder has
}

// New checks c, opens this program's binary and makes the sockets of the first
// slots. Nothing is started before Run.
func New(c Config) (*Master, error) { return NewFrom(c, nil) }

// NewFrom is New for a Master that takes over what another one has left with
// Config.Holder. Its state replaces Config's Workers and Configuration. NewFrom takes
// what it needs out of held. If held is nil, or no Master has left its state, it is New.
func NewFrom(c Config, held *Held) (*Master, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	journal := NewJournal(c.Logger)
	c.Logger = journal
	m := &Master{config: c, journal: journal, events: newMailbox[event](), hooks: newMailbox[func()]()}
	m.tickets.answers = make(map[int]chan error)
	m.spawner = &spawner{
		master:    m,
		jobs:      newMailbox[job](),
		done:      make(chan struct{}),
		processes: make(map[key]*process),
		sockets:   make(map[int][]*os.File),
		inboxes:   make(map[int]*inboxPair),
	}
	m.snapshot.Store(&Status{Wanted: c.Workers, MaxWorkers: c.MaxWorkers})
	open := m.open
	if held != nil && held.IsManaged() {
		open = m.takeOver
	}
	if err := open(held); err != nil {
		m.release()
		return nil, err
	}
	if m.fleet != nil { // before any order
		m.events.put(event{kind: evResume, children: m.children})
	}
	return m, nil
}

// open opens the binary, the lifeline and the sockets of the first slots. held may be nil.
func (m *Master) open(held *Held) (err error) {
	if m.config.binary, err = openExecutable(m.config.mostFiles()); err != nil {
		return err
	}
	if m.config.Holder == nil {
		m.lifelineRead, m.lifelineWrite, err = newLifeline()
	} else {
		m.config.Manages = m.config.binary.id
		m.lifelineRead, err = held.lifeline()
		err = errors.Join(err, m.config.binary.giveTo(m.config.Holder), m.keepPacketSecret())
	}
	if err != nil {
		return err
	}
	for slot := range m.config.Workers {
		if _, err := m.spawner.open(slot); err != nil {
			return err
		}
	}
	return nil
}

// takeOver takes the descriptors and the state that another Master has left.
func (m *Master) takeOver(held *Held) error {
	s, err := parseSaved(held)
	if err != nil {
		return err
	}
	if m.lifelineRead, err = held.lifeline(); err != nil {
		return err
	}
	for name := range held.Entries {
		if slot, ok := slotOf(name, prefixSockets); ok {
			m.spawner.sockets[slot] = held.Take(name)
		} else if slot, ok := slotOf(name, prefixInbox); ok {
			if files := held.Take(name); len(files) == 2 {
				m.spawner.inboxes[slot] = &inboxPair{rx: files[0], tx: files[1]}
			}
		}
	}
	m.fleet = newFleet(m.config, rand.Uint64())
	binaries := make(map[string]*executable) // several versions may have the same
	m.fleet.load(s, time.Now(), func(id, origin string) *executable {
		if e := binaries[id]; e != nil {
			return e
		}
		files := held.Take(BinaryPrefix + id)
		defer closeFiles(files)
		if len(files) != 1 {
			err = fmt.Errorf("sluice: the binary %s of the workers is not held", id)
			return nil
		}
		e, openErr := heldExecutable(files[0], id, origin, m.config.mostFiles())
		err = errors.Join(err, openErr)
		binaries[id] = e
		return e
	})
	if err != nil {
		return err
	}
	for name := range held.Entries {
		if strings.HasPrefix(name, BinaryPrefix) { // the master before had no time to drop it
			m.config.Holder.Drop(name)
		}
	}
	if m.fleet.mode == modeFinished { // which it had no time to tell
		m.fleet.mode = modeStopping
	}
	m.config.binary = m.fleet.good.binary
	m.snapshot.Store(m.fleet.status())
	m.children = make(map[key]int)
	for id, pid := range held.Children {
		k, idErr := keyOf(id)
		_, w := m.fleet.find(k)
		if idErr != nil || w == nil {
			go m.dropProcess(id)
			continue
		}
		m.children[k] = pid
		p := &process{key: k, child: heldChild{m.config.Holder, id, pid}}
		if p.link, err = heldLink(held.Take(ChildPrefix + id)); err != nil {
			return err
		}
		_, p.hasMet = held.Entries[prefixMet+id]
		m.spawner.processes[k] = p
	}
	return m.takePackets(held)
}

// dropProcess ends a process that has no slot, and has the Holder drop it. It has ended already if the
// master before had no time for the latter.
func (m *Master) dropProcess(id string) {
	h := m.config.Holder
	h.Signal(id, syscall.SIGKILL)
	h.Wait(id)
	m.forget(id)
}

// lifeline returns the read end of the lifeline.
func (h *Held) lifeline() (*os.File, error) {
	files := h.Take(EntryLifeline)
	if len(files) != 1 {
		closeFiles(files)
		return nil, errors.New("sluice: no lifeline is held")
	}
	return files[0], nil
}

// Run starts the workers and returns when the last one has ended. The result is nil
// after an ordered stop (TERM, INT, Stop, the end of ctx), and otherwise the reason.
// Run closes the sockets. A Master runs once.
func (m *Master) Run(ctx context.Context) (result error) {
	if m.hasRun.Swap(true) {
		return ErrRunning
	}
	defer func() {
		if errors.Is(result, ErrReplaced) {
			m.tickets.end(ErrReplaced)
		} else {
			m.tickets.end(ErrStopping)
		}
	}()
	defer m.journal.Flush()
	defer m.release()
	go m.spawner.run()
	defer close(m.spawner.done)
	hooksDone := make(chan struct{})
	stopHooks := make(chan struct{})
	go m.runHooks(stopHooks, hooksDone)
	defer func() {
		close(stopHooks)
		select {
		case <-hooksDone:
		case <-time.After(time.Second): // a hook may wait for Run's end
		}
	}()
	if !m.config.NoSignals {
		defer m.watchSignals()()
	}
	defer m.reapAdopted()()

	if m.fleet == nil {
		m.fleet = newFleet(m.config, rand.Uint64())
		m.events.put(event{kind: evStart})
	}
	return m.loop(ctx)
}

// save gives the Holder the fleet's state if it has changed. The machine's actions follow:
// a Master that takes over knows of everything that was begun.
func (m *Master) save() {
	if m.config.Holder == nil {
		return
	}
	text, err := json.Marshal(m.fleet.save())
	if err != nil || bytes.Equal(text, m.saved) { // no error: it has numbers, texts and times
		return
	}
	m.saved = text
	m.config.Holder.Put(EntryFleet, text) // an error means that it is gone, and this process ends
}

// watchAll begins to watch the workers that another Master has left.
func (m *Master) watchAll() {
	m.spawner.mu.Lock()
	defer m.spawner.mu.Unlock()
	for _, p := range m.spawner.processes {
		go m.watch(p)
	}
}

// loop passes events to the machine and performs its actions, until actFinish.
func (m *Master) loop(ctx context.Context) error {
	f := m.fleet
	timer := time.NewTimer(time.Hour)
	cancelled := ctx.Done()
	for {
		select {
		case <-m.events.wake:
		case <-timer.C:
			m.events.put(event{kind: evTick})
		case <-cancelled:
			cancelled = nil
			m.Stop()
		}
		for _, e := range m.events.takeAll() {
			actions := f.step(e, time.Now())
			m.save()
			m.steer(f)
			switch e.kind {
			case evResume:
				m.watchAll()
			case evExited:
				m.forget(e.worker.id())
			}
			for _, a := range actions {
				switch a.kind {
				case actFinish:
					m.snapshot.Store(f.status())
					return a.err
				case actHandOver:
					m.spawner.closeLinks()
					return ErrReplaced
				}
				if a.kind == actRestarted { // the caller of Restart may read the status
					m.snapshot.Store(f.status())
				}
				m.perform(a)
			}
		}
		m.snapshot.Store(f.status())
		wait := time.Hour
		if next := f.next(); !next.IsZero() {
			wait = max(time.Until(next), 0)
		}
		timer.Reset(wait)
	}
}

// Close releases what New opened, if Run was never called.
func (m *Master) Close() error {
	if !m.hasRun.Swap(true) {
		m.release()
	}
	return nil
}

// Stop begins an orderly stop, as SIGTERM does, without waiting. A second call has
// the effect of a second SIGTERM: workers have one more second.
func (m *Master) Stop() { m.events.put(event{kind: evStop}) }

// Kill kills all workers, without waiting.
func (m *Master) Kill() { m.events.put(event{kind: evKill}) }

// Restart makes a rolling restart, as SIGHUP does: one slot at a time; each
// successor is ready before its predecessor drains. It returns nil when all slots have
// been served by new workers for Config.Soak; old workers may still drain. Otherwise it
// returns OnReload's error; a *RestartError when all slots have the version from before
// again; ErrStopping if the workers are ending, or ErrReplaced if another Master has
// taken over; or ctx's error, and then the restart
// continues. A call during a restart waits for another restart after it. A hook must
// not call Restart, because Restart waits for hooks.
func (m *Master) Restart(ctx context.Context) error { return m.await(ctx, CauseRestart) }

// Upgrade is Restart with the binary that the program's file has now, as SIGUSR2 does.
// If it succeeds, later restarts, and replacements of dead workers, use this binary. The
// master itself is not replaced. With Config.Start, and on systems that cannot execute
// an open file, it is the same as Restart.
func (m *Master) Upgrade(ctx context.Context) error { return m.await(ctx, CauseUpgrade) }

// await makes a rolling restart and returns how it ended.
func (m *Master) await(ctx context.Context, cause Cause) error {
	ticket, answer := m.tickets.take()
	defer m.tickets.answer(ticket, nil) // frees the ticket if ctx ended first
	m.restart(ticket, cause)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Probe returns nil when the goroutine that runs the fleet has answered, and otherwise
// ctx's error, or ErrStopping after Run.
func (m *Master) Probe(ctx context.Context) error {
	ticket, answer := m.tickets.take()
	defer m.tickets.answer(ticket, nil)
	m.events.put(event{kind: evProbe, number: ticket})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart asks for a rolling restart. The result goes to the holder of ticket; 0
// means that there is none.
func (m *Master) restart(ticket int, cause Cause) {
	ask := func() {
		v, err := m.prepare(cause)
		if err != nil {
			m.events.put(event{kind: evRefused, err: err, number: ticket})
			return
		}
		m.events.put(event{kind: evRestart, version: v, number: ticket})
	}
	if m.config.Hooks.OnReload == nil && m.config.Holder == nil {
		ask()
		return
	}
	m.hooks.put(ask)
}

// prepare returns the version of a restart. If there is a hook, it runs where hooks do.
func (m *Master) prepare(cause Cause) (*version, error) {
	v := &version{cause: cause}
	var err error
	if reload := m.config.Hooks.OnReload; reload != nil {
		if v.configuration, err = reload(); err != nil {
			return nil, err
		}
	}
	if len(v.configuration) > MaxConfiguration {
		return nil, ErrConfigurationSize
	}
	if cause == CauseUpgrade {
		v.binary, err = m.openNew()
	}
	return v, err
}

// openNew opens the program's file. With a Holder, the binary must be able to take this
// Master's place.
func (m *Master) openNew() (*executable, error) {
	b, err := m.config.binary.reopen(m.config.mostFiles())
	h := m.config.Holder
	if err != nil || h == nil {
		return b, err
	}
	if err = b.giveTo(h); err == nil {
		err = h.Probe(BinaryPrefix + b.id)
	}
	if err != nil {
		m.spawner.drop(BinaryPrefix + b.id)
		b.close()
		return nil, err
	}
	return b, nil
}

// tickets holds the waiting calls of Restart.
type tickets struct {
	mu      sync.Mutex
	last    int
	answers map[int]chan error
	over    error // what later ones get, once Run has returned
}

// take returns a new ticket, and where the answer comes. After end it is there already.
func (t *tickets) take() (int, <-chan error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	answer := make(chan error, 1)
	if t.over != nil {
		answer <- t.over
	} else {
		t.answers[t.last] = answer
	}
	return t.last, answer
}

// end answers all tickets, also later ones.
func (t *tickets) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, answer := range t.answers {
		answer <- why
	}
	t.answers, t.over = nil, why
}

// answer answers a ticket, unless that was done.
func (t *tickets) answer(ticket int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if answer := t.answers[ticket]; answer != nil {
		answer <- err
		delete(t.answers, ticket)
	}
}

// Reopen is SIGUSR1: OnReopen and an order to all workers.
func (m *Master) Reopen() { m.events.put(event{kind: evReopen}) }

// Scale sets the number of workers, within MinWorkers and MaxWorkers. It does
// not wait.
func (m *Master) Scale(workers int) { m.events.put(event{kind: evScale, number: workers}) }

// Status returns a snapshot as of the last event, with the current lengths of the
// queues. The caller must not change the Workers of its slots.
func (m *Master) Status() Status {
	s := *m.snapshot.Load()
	s.LogDropped = m.journal.Dropped()
	s.Slots = slices.Clone(s.Slots)
	for i := range s.Slots {
		s.Slots[i].Queue = m.spawner.queue(s.Slots[i].Slot)
	}
	return s
}

// release closes everything that New opened.
func (m *Master) release() {
	m.spawner.close()
	if m.config.binary != nil {
		m.config.binary.close()
	}
	if m.lifelineRead != nil {
		m.lifelineRead.Close()
	}
	if m.lifelineWrite != nil {
		m.lifelineWrite.Close()
	}
}

// perform carries out one action of the machine.
func (m *Master) perform(a action) {
	switch a.kind {
	case actLog:
		m.config.Logger.Printf("%s", a.text)
	case actSpawn:
		m.spawner.jobs.put(job{key: a.worker, version: a.version})
	case actResume:
		m.send(a.worker, message{kind: messageResume}, nil)
	case actReplace:
		go m.replace(a.binary)
	case actDismiss:
		m.config.Holder.Dismiss()
	case actForget:
		m.spawner.jobs.put(job{unused: a.binary})
	case actAdopt:
		m.assign(a.worker, a.slot)
	case actRelease:
		m.unassign(a.worker, a.slot)
	case actPing:
		m.send(a.worker, message{kind: messagePing}, nil)
	case actLook:
		m.look(a.worker, a.pid)
	case actCloseSockets:
		m.spawner.dropSockets()
	case actDrain:
		drain := message{kind: messageDrain, payload: appendGrace(nil, a.grace)}
		if a.hasSuccessor {
			drain.flags |= flagSuccessor
		}
		m.send(a.worker, drain, nil)
	case actReopen:
		m.send(a.worker, message{kind: messageReopen}, nil)
	case actTerm:
		m.signal(a.worker, syscall.SIGTERM)
	case actKill:
		m.signal(a.worker, os.Kill)
	case actHung:
		if m.config.OnHung != nil {
			m.config.OnHung(a.worker.slot, a.pid)
		}
	case actDump:
		m.signal(a.worker, syscall.SIGQUIT)
	case actRestarted:
		for _, ticket := range a.tickets {
			m.tickets.answer(ticket, a.err)
		}
	case actDumpSelf:
		m.config.Logger.Printf("master (pid %d):\n%s", os.Getpid(), allStacks())
	default:
		m.performHook(a)
	}
}

// replace asks for a Master with another binary.
func (m *Master) replace(binary *executable) {
	m.events.put(event{kind: evReplaced, err: m.config.Holder.Replace(BinaryPrefix + binary.id)})
}

// forget has the Holder drop a process that has ended, if there is a Holder.
func (m *Master) forget(id string) {
	if h := m.config.Holder; h != nil {
		h.Forget(id)
		h.Drop(prefixMet + id)
	}
}

// assign tells a worker to serve the sockets and the inbox of another slot.
func (m *Master) assign(k key, slot int) {
	if m.config.Sockets != nil && !m.config.SharedSockets {
		files, _ := m.spawner.openSockets(slot) // no error: the machine asks only for open sockets
		m.send(k, message{kind: messageAdopt, slot: uint16(slot)}, files)
	}
	if pair := m.spawner.inbox(slot); pair != nil {
		m.send(k, message{kind: messageInbox, slot: uint16(slot)}, []*os.File{pair.rx})
	}
}

// unassign ends what assign began.
func (m *Master) unassign(k key, slot int) {
	if m.config.Sockets != nil && !m.config.SharedSockets {
		m.send(k, message{kind: messageRelease, slot: uint16(slot)}, nil)
	}
	if m.spawner.inbox(slot) != nil {
		m.send(k, message{kind: messageInboxOff, slot: uint16(slot)}, nil)
	}
}

// look reports the length of a worker's queue, and its progress.
func (m *Master) look(k key, pid int) {
	e := event{kind: evQueue, worker: k, number: m.spawner.queue(k.slot)}
	if e.number > 0 {
		e.progress, e.ready = m.config.Progress(k.slot, pid)
	}
	m.events.put(e)
}

// performHook queues the call of a hook.
func (m *Master) performHook(a action) {
	h := &m.config.Hooks
	switch {
	case a.kind == actSpawned && h.OnSpawn != nil:
		m.hooks.put(func() { m.failOn(h.OnSpawn(a.worker.slot, a.pid)) })
	case a.kind == actRecover && h.OnRecover != nil:
		m.hooks.put(func() { h.OnRecover(a.worker.slot, a.oldPID, a.pid) })
	case a.kind == actStarted && h.OnStarted != nil:
		m.hooks.put(func() { m.failOn(h.OnStarted(a.pids)) })
	case a.kind == actAllReady && h.OnFleetReady != nil:
		m.hooks.put(h.OnFleetReady)
	case a.kind == actReopened && h.OnReopen != nil:
		m.hooks.put(h.OnReopen)
	case a.kind == actStopping && h.OnStopping != nil:
		m.hooks.put(h.OnStopping)
	}
}

// failOn ends the fleet if a hook returned an error.
func (m *Master) failOn(err error) {
	if err != nil {
		m.events.put(event{kind: evFailed, err: err})
	}
}

// runHooks calls hooks in their order until stop is closed, and then those that
// are queued.
func (m *Master) runHooks(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	isStopped := false
	for !isStopped {
		select {
		case <-stop:
			isStopped = true
		case <-m.hooks.wake:
		}
		for _, hook := range m.hooks.takeAll() {
			hook()
		}
	}
}

// send sends a message to a worker. If the worker does not read, the order is lost;
// deadlines and the worker's death bound the consequences.
func (m *Master) send(k key, msg message, files []*os.File) {
	p := m.spawner.find(k)
	if p == nil || p.link == nil {
		return
	}
	if err := p.link.send(msg, files); err != nil && !isHangUp(err) {
		m.config.Logger.Printf("worker %v (pid %d): %v", k, p.pid(), err)
	}
}

// isHangUp reports whether err says that the other end is closed.
func isHangUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// signal sends a signal to a worker.
func (m *Master) signal(k key, sig os.Signal) {
	p := m.spawner.find(k)
	if p == nil {
		return
	}
	if err := p.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.config.Logger.Printf("worker %v (pid %d): %v: %v", k, p.pid(), sig, err)
	}
}

// watch reports a worker's messages and, after the last one, its end.
func (m *Master) watch(p *process) {
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		m.listen(p)
	}()
	how := p.wait()
	if p.link != nil {
		p.link.hangUp()
	}
	<-listened
	if m.config.OnReaped != nil {
		m.config.OnReaped(p.slot, p.pid())
	}
	m.spawner.forget(p.key)
	if p.link != nil {
		p.link.close()
	}
	if how == "" {
		how = "exit status 0"
	}
	m.events.put(event{kind: evExited, worker: p.key, text: how})
}

// listen turns a worker's messages into events.
func (m *Master) listen(p *process) {
	if p.link == nil {
		return
	}
	for {
		msg, descriptors, err := p.link.receive()
		if err != nil {
			return
		}
		closeAll(descriptors)
		if msg.kind == messageAck && msg.flags&flagMet != 0 {
			m.spawner.noteMet(p)
		}
		if msg.kind == messageMeeting {
			m.spawner.introduce(p)
		} else if e, ok := eventOf(msg); ok {
			e.worker = p.key
			m.events.put(e)
		}
	}
}

// eventOf returns the event that a worker's message stands for. Unknown messages have
// none.
func eventOf(m message) (event, bool) {
	switch m.kind {
	case messageReady:
		return event{kind: evReady}, true
	case messageAck:
		return event{kind: evAttached}, true
	case messagePong:
		return event{kind: evPong}, true
	case messageDrained:
		return event{kind: evDrained, text: oneLine(m.payload)}, true
	case messageRecycle:
		return event{kind: evRecycle, text: oneLine(m.payload)}, true
	case messageFatal:
		var f fatal
		if json.Unmarshal(m.payload, &f) != nil {
			return event{}, false
		}
		return event{kind: evFatal, failure: &BootError{Class: f.Class, Text: f.Text}}, true
	}
	return event{}, false
}

// oneLine makes a payload fit into a line of the log.
func oneLine(payload []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, clip(string(payload)))
}

// allStacks returns the stacks of all goroutines, or the first 16 MiB of them.
func allStacks() []byte {
	text := make([]byte, 16<<20)
	return text[:runtime.Stack(text, true)]
}
