package supervise

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// systemdVariables are for the master. Workers do not inherit them, because they must
// not notify systemd in its place.
var systemdVariables = [...]string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}

// errStopping: sockets were requested after the master had closed them.
var errStopping = errors.New("sluice: the fleet is stopping")

// process is a running worker, as the operating system knows it.
type process struct {
	key
	child
	link   *link // nil on systems without control sockets
	hasMet bool  // it gets streams to other workers; guarded by spawner.mu
}

// A child is a started process.
type child interface {
	// pid returns its process id.
	pid() int
	// wait waits for its end and says how it ended; "" if its exit status is 0. It is
	// called once.
	wait() string
	// signal sends it a signal.
	signal(os.Signal) error
}

// ownChild is a child of this process.
type ownChild struct{ command *exec.Cmd }

func (c ownChild) pid() int { return c.command.Process.Pid }

func (c ownChild) wait() string {
	if err := c.command.Wait(); err != nil {
		return err.Error()
	}
	return ""
}

// A job is a worker to be started, or a binary that is not needed any more.
type job struct {
	key
	version *version
	unused  *executable
}

// spawner starts all workers on one operating-system thread that lives as long as any
// of them. The kernel sends the parent-death signal when the thread that started a
// process ends, and Go may end threads at any time.
type spawner struct {
	master *Master
	jobs   *mailbox[job]
	done   chan struct{}

	mu        sync.Mutex
	processes map[key]*process
	sockets   map[int][]*os.File // by slot, held until the fleet stops
	inboxes   map[int]*inboxPair // by slot, held for ever
	isClosed  bool               // no more sockets

	packets packetSockets
}

// run starts requested workers until done is closed.
func (s *spawner) run() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	for {
		select {
		case <-s.done:
			return
		case <-s.jobs.wake:
		}
		for _, j := range s.jobs.takeAll() {
			if j.unused != nil {
				s.drop(BinaryPrefix + j.unused.id)
				j.unused.close()
				continue
			}
			s.start(j)
		}
	}
}

// start starts a worker and reports it.
func (s *spawner) start(j job) {
	k := j.key
	p, err := s.launch(j)
	if err != nil {
		s.master.events.put(event{kind: evSpawnFailed, worker: k, err: err, ready: s.isOpen(k.slot)})
		return
	}
	s.mu.Lock()
	s.processes[k] = p
	s.mu.Unlock()
	s.master.events.put(event{kind: evSpawned, worker: k, pid: p.pid(), ready: p.link == nil})
	// Only now, so that the worker's reports come after evSpawned.
	go s.master.watch(p)
}

// launch prepares what j's worker inherits and starts it.
func (s *spawner) launch(j job) (*process, error) {
	k := j.key
	sockets, err := s.open(k.slot)
	if err != nil {
		return nil, err
	}
	c := &s.master.config
	launch := Launch{Slot: k.slot, Generation: k.generation, Env: workerEnvironment(c.Env)}
	p := &process{key: k}
	var end *os.File
	var kept []*os.File
	if hasControl {
		if p.link, end, err = newLinkPair(); err != nil {
			return nil, err
		}
		defer end.Close()
		if c.Holder != nil {
			kept = p.link.files()
		}
		launch.Files = append(launch.Files, sockets...)
		launch.Files = append(launch.Files, end, s.master.lifelineRead)
		launch.Files = append(launch.Files, c.SharedFiles...)
		slots, files := s.inboxFiles(k.slot)
		launch.Files = append(launch.Files, files...)
		var packets *packetLayout
		if packets, files, err = s.packetFiles(k); err != nil {
			p.link.close()
			return nil, err
		}
		launch.Files = append(launch.Files, files...)
		err = p.link.send(message{kind: messageHello, payload: appendLayout(nil, layout{
			Slot: k.slot, Generation: k.generation,
			Listeners: len(sockets), Control: len(sockets), Lifeline: len(sockets) + 1, Shared: len(c.SharedFiles),
			SharedSockets: c.SharedSockets,
			OrphanGraceMS: int(c.OrphanGrace / time.Millisecond),
			Inboxes:       slots,
			Packets:       packets,
			Configuration: j.version.configuration,
		})}, nil)
	}
	if err == nil {
		p.child, err = s.fork(launch, j.version.binary, kept...)
	}
	if err != nil {
		if p.link != nil {
			p.link.close()
		}
		s.packets.freePackets(k)
		return nil, err
	}
	return p, nil
}

// fork starts the process, pinned to CPUs if Affinity asks for it. kept are what a Holder
// keeps with it.
func (s *spawner) fork(l Launch, binary *executable, kept ...*os.File) (child, error) {
	c := &s.master.config
	p := Process{Args: c.Args, Env: l.Env, Files: l.Files, NoNewPrivileges: c.NoNewPrivileges}
	if c.Affinity != nil {
		p.CPUs = c.Affinity(l.Slot)
	}
	if c.SysProcAttr != nil {
		p.Attributes = *c.SysProcAttr
	}
	if c.Holder != nil {
		p.Binary = BinaryPrefix + binary.id
		k := key{l.Slot, l.Generation}
		pid, err := c.Holder.Start(k.id(), p, kept...)
		if err != nil {
			err = &os.PathError{Op: "fork/exec", Path: binary.origin, Err: err}
		}
		return heldChild{c.Holder, k.id(), pid}, err
	}
	var command *exec.Cmd
	var err error
	if c.Start != nil {
		command, err = s.forkBy(c.Start, l, p)
	} else {
		command, err = StartProcess(p, binary.path())
		err = binary.name(err)
	}
	return ownChild{command}, err
}

// forkBy is fork with a Start function.
func (s *spawner) forkBy(start func(Launch) (*exec.Cmd, error), l Launch, p Process) (*exec.Cmd, error) {
	restore, err := p.prepareThread()
	if err != nil {
		return nil, err
	}
	defer restore()
	command, err := start(l)
	if err == nil && (command == nil || command.Process == nil) {
		err = ErrNotStarted
	}
	return command, err
}

// open returns the sockets of a slot. The first time it makes them and the slot's
// inbox.
func (s *spawner) open(slot int) ([]*os.File, error) {
	sockets, err := s.openSockets(slot)
	if err == nil {
		err = s.openInbox(slot)
	}
	return sockets, err
}

// isOpen reports whether a slot has sockets or an inbox, so that it must be served.
func (s *spawner) isOpen(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, hasSockets := s.sockets[slot]
	return hasSockets || s.inboxes[slot] != nil
}

// openSockets returns the sockets of a slot and makes them the first time.
func (s *spawner) openSockets(slot int) ([]*os.File, error) {
	c := &s.master.config
	if c.Sockets == nil {
		return nil, nil
	}
	if c.SharedSockets {
		slot = 0
	}
	s.mu.Lock()
	held, found := s.sockets[slot]
	isClosed := s.isClosed
	s.mu.Unlock()
	if found {
		return held, nil
	}
	if isClosed {
		return nil, errStopping
	}
	files, err := c.Sockets(slot)
	if err != nil {
		return nil, err
	}
	if len(files) > maxDescriptors {
		closeFiles(files)
		return nil, fmt.Errorf("sluice: %d sockets for slot %d, at most %d", len(files), slot, maxDescriptors)
	}
	if held, err = holdAll(files); err != nil {
		return nil, err
	}
	if err := s.put(fmt.Sprint(prefixSockets, slot), nil, held...); err != nil {
		closeFiles(held)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed { // closed meanwhile
		closeFiles(held)
		return nil, errStopping
	}
	s.sockets[slot] = held
	return held, nil
}

// holdAll returns the sockets in the form in which the master keeps them, and takes
// ownership of files.
func holdAll(files []*os.File) (held []*os.File, err error) {
	for i, f := range files {
		h, err := hold(f)
		if err != nil {
			closeFiles(held)
			closeFiles(files[i+1:])
			return nil, err
		}
		held = append(held, h)
	}
	return held, nil
}

// openInbox makes a slot's inbox the first time, and passes its sending end to the
// workers that were started before.
func (s *spawner) openInbox(slot int) error {
	if !s.master.config.Inboxes || s.inbox(slot) != nil {
		return nil
	}
	pair, err := newInboxPair()
	if err != nil {
		return err
	}
	if err := s.put(fmt.Sprint(prefixInbox, slot), nil, pair.rx, pair.tx); err != nil {
		pair.close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inboxes[slot] = pair
	for _, p := range s.processes {
		if p.link == nil {
			continue
		}
		if err := p.link.send(message{kind: messagePeer, slot: uint16(slot)}, []*os.File{pair.tx}); err != nil && !isHangUp(err) {
			s.master.config.Logger.Printf("worker %v: not told of the inbox of slot %d: %v", p.key, slot, err)
		}
	}
	return nil
}

// noteMet records that p has streams to other workers, which another Master has made.
func (s *spawner) noteMet(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.hasMet = true
}

// put gives the Holder data and duplicates of files, if there is one.
func (s *spawner) put(name string, data []byte, files ...*os.File) error {
	if h := s.master.config.Holder; h != nil {
		return h.Put(name, data, files...)
	}
	return nil
}

// drop has the Holder forget what was put under a name, if there is one.
func (s *spawner) drop(name string) {
	if h := s.master.config.Holder; h != nil {
		h.Drop(name) // an error means that it is gone, and this process ends
	}
}

// inbox returns a slot's inbox, or nil.
func (s *spawner) inbox(slot int) *inboxPair {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inboxes[slot]
}

// inboxFiles returns the inbox ends that a worker of slot inherits, and the slots to
// which it may post.
func (s *spawner) inboxFiles(slot int) (slots []int, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.inboxes[slot]
	if own == nil {
		return nil, nil
	}
	slots = slices.Sorted(maps.Keys(s.inboxes))
	files = append(files, own.rx)
	for _, other := range slots {
		files = append(files, s.inboxes[other].tx)
	}
	return slots, files
}

// queue counts the connections that wait in the slot's TCP sockets.
func (s *spawner) queue(slot int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, f := range s.sockets[slot] {
		waiting += queueLength(f)
	}
	return waiting
}

// find returns the process of worker k, or nil.
func (s *spawner) find(k key) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[k]
}

// forget drops a process that is gone.
func (s *spawner) forget(k key) {
	s.packets.freePackets(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, k)
}

// hasPID reports whether a worker has this pid.
func (s *spawner) hasPID(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.pid() == pid {
			return true
		}
	}
	return false
}

// closeSockets closes the listening sockets for good. No start of a worker may be
// pending.
func (s *spawner) closeSockets() {
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := !s.isClosed
	s.isClosed = true
	if closed := s.master.config.SocketsClosed; closed != nil && isFirst {
		defer closed()
	}
	for slot, files := range s.sockets {
		closeFiles(files)
		delete(s.sockets, slot)
	}
}

// dropSockets is closeSockets, and has the Holder close them.
func (s *spawner) dropSockets() {
	s.mu.Lock()
	slots := slices.Collect(maps.Keys(s.sockets))
	s.mu.Unlock()
	for _, slot := range slots {
		s.drop(fmt.Sprint(prefixSockets, slot))
	}
	s.closeSockets()
}

// closeLinks closes this process's ends of the control sockets, which a Holder keeps. No
// more messages are taken out of them.
func (s *spawner) closeLinks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		p.link.close()
	}
}

// close closes the sockets and the inboxes.
func (s *spawner) close() {
	s.closeSockets()
	s.packets.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, pair := range s.inboxes {
		pair.close()
		delete(s.inboxes, slot)
	}
}

// closeFiles closes files.
func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// workerEnvironment returns this process's environment without the variables for
// systemd, and with more.
func workerEnvironment(more []string) []string {
	var kept []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		isMasters := false
		for _, other := range systemdVariables {
			isMasters = isMasters || name == other
		}
		if !isMasters {
			kept = append(kept, entry)
		}
	}
	return append(kept, more...)
}
