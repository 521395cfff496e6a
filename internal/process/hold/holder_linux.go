package hold

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

const (
	// maxSignals bounds the signals that wait for a manager.
	maxSignals = 16
	// The pause before a manager that was not ready, or could not be started, is replaced doubles up
	// to longestPause.
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	// failuresBefore is the number of managers in a row that were not ready, after which the
	// binary from before is tried again.
	failuresBefore = 3
	// endPatience is the time that a manager has to exit when it has nothing to do any more, and
	// to say anything after a signal to end.
	endPatience = 5 * time.Second
)

// binaryNumbers are the lowest descriptor numbers of binaries that are tried. A child assigns
// the numbers of what it inherits before it executes the binary, so the number is to be
// above them; the limit of descriptors may be too low for that.
var binaryNumbers = [...]int{2 * maxFiles, 512, 0}

// errEnded: the service was told to end while no manager could be started.
var errEnded = errors.New("sluice: ended without a manager")

// Config describes a holder.
type Config struct {
	// Process is a manager's process. Its Binary is not used. The socket to the holder follows its
	// Files.
	Process supervise.Process
	// Entries are held from the beginning, besides the lifeline. Run closes their files.
	Entries map[string]supervise.Entry
	// Logger receives the log.
	Logger supervise.Logger
	// BootTimeout is the time within which a manager must be ready.
	BootTimeout time.Duration
	// Grace is the time that workers have to end after their lifeline has ended.
	Grace time.Duration
	// OnReaped is called with the pid of a manager that has ended. nil: nothing is called.
	OnReaped func(pid int)
}

// holder is the state of Run. One goroutine owns it.
type holder struct {
	config   Config
	lifeline *os.File // the write end
	entries  map[string]supervise.Entry
	children map[string]*child
	events   chan event
	over     chan struct{} // closed when Run returns

	manager   *manager // decides; nil: there is none at present
	candidate *manager // boots, or is ready and waits
	// asked is the manager's question that candidate answers: kindProbe or kindReplace; its
	// Kind is 0 if candidate takes over as soon as it is ready.
	asked frame

	binary, before string   // names of entries: what managers run, and what they ran before; "": this program's
	bad            string   // the binary in whose place before was put
	unused         []string // binaries that are dropped when no manager runs them
	hasManaged     bool     // a manager was ready
	failures       int      // managers in a row that were not ready, or ended before they had left their state
	signals        []os.Signal
	isEnding       bool // a signal asked for the end, or the manager has said that it is over
	result         []byte
	err            error
}

// A manager is the process of a manager.
type manager struct {
	conn    *conn
	command *exec.Cmd
	binary  string
	isReady bool
	hasLeft bool   // it manages, and has left its state
	reason  string // why it refused
	result  []byte // the same for another process
	timer   *time.Timer
	// unheeded are signals to end since which it has sent nothing, and unheard those that it has
	// not confirmed: what arrives may have been sent before. The next manager gets them.
	unheeded, unheard []os.Signal
}

// A child is a worker.
type child struct {
	command *exec.Cmd
	kept    []*os.File
	isOver  bool
	how     string
}

// An event reaches the holder's goroutine.
type event func()

// Run holds a service until it has ended, and returns the result that the last manager has
// given. The error says that there was none. Run locks its goroutine to its thread, from which all
// processes are started: they get a signal when that thread ends.
func Run(c Config) (result []byte, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	h := &holder{
		config: c, lifeline: write, entries: make(map[string]supervise.Entry), children: make(map[string]*child),
		events: make(chan event), over: make(chan struct{}),
	}
	defer h.close()
	maps.Copy(h.entries, c.Entries)
	fd, err := duplicate(read)
	if err != nil {
		return nil, err
	}
	read.Close()
	plain, err := plainFile(fd, supervise.EntryLifeline)
	if err != nil {
		return nil, err
	}
	h.entries[supervise.EntryLifeline] = supervise.Entry{Files: []*os.File{plain}}
	defer h.watchSignals()()
	defer supervise.ReapOthers(h.isChild)()
	if err := h.startManager(); err != nil {
		return nil, fmt.Errorf("sluice: the managing process cannot be started: %w", withLimit(err))
	}
	for !h.isOver() {
		(<-h.events)()
	}
	return h.result, h.err
}

// isOver reports whether nothing is left to hold.
func (h *holder) isOver() bool {
	if !h.isEnding && h.err == nil || h.manager != nil || h.candidate != nil {
		return false
	}
	for _, c := range h.children {
		if !c.isOver {
			return false
		}
	}
	return h.result != nil || h.err != nil
}

// post has do run on the holder's goroutine.
func (h *holder) post(do func()) {
	select {
	case h.events <- do:
	case <-h.over:
	}
}

// after has do run on the holder's goroutine after d.
func (h *holder) after(d time.Duration, do func()) *time.Timer {
	return time.AfterFunc(d, func() { h.post(do) })
}

// watchSignals passes the process's signals to the manager, until stop is called.
func (h *holder) watchSignals() (stop func()) {
	signals := make(chan os.Signal, maxSignals)
	signal.Notify(signals, supervise.Signals()...)
	go func() {
		for {
			select {
			case s := <-signals:
				h.post(func() { h.signalled(s) })
			case <-h.over:
				return
			}
		}
	}()
	return func() { signal.Stop(signals) }
}

// signalled passes a signal on, or keeps it for the next manager.
func (h *holder) signalled(s os.Signal) {
	m := h.manager
	isYielding := h.candidate != nil && h.candidate.isReady // it would not heed the signal
	if m == nil || isYielding || !h.sendSignal(m, s) {
		h.keepSignals(s)
	}
	if !isEnd(s) {
		return
	}
	h.after(endPatience, func() {
		if m != nil && m == h.manager && (slices.Contains(m.unheard, s) || slices.Contains(h.signals, s)) {
			h.config.Logger.Printf("holder (pid %d): the manager (pid %d) does nothing after %v: killed", os.Getpid(), m.command.Process.Pid, s)
			h.kill(m)
		}
	})
	h.after(h.config.Grace, func() {
		if h.manager == nil && !h.isEnding {
			h.abandon(errEnded)
		}
	})
}

// isEnd reports whether a signal asks for the end of the service.
func isEnd(s os.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT
}

// keepSignals keeps signals for the next manager.
func (h *holder) keepSignals(signals ...os.Signal) {
	for _, s := range signals {
		if len(h.signals) < maxSignals && !slices.Contains(h.signals, s) {
			h.signals = append(h.signals, s)
		}
	}
}

// sendSignal passes a signal on to a manager.
func (h *holder) sendSignal(m *manager, s os.Signal) (sent bool) {
	sent = h.send(m, frame{Kind: kindSignalled, Number: int(s.(syscall.Signal))})
	if sent && isEnd(s) && len(m.unheard) < maxSignals {
		m.unheeded, m.unheard = append(m.unheeded, s), append(m.unheard, s)
	}
	return sent
}

// sendSignals passes on to a manager what waits for one.
func (h *holder) sendSignals(m *manager) {
	signals := h.signals
	h.signals = nil
	for _, s := range signals {
		h.sendSignal(m, s)
	}
}

// abandon ends the workers by their lifeline, because no manager can be started.
func (h *holder) abandon(err error) {
	if h.err != nil {
		return
	}
	h.config.Logger.Printf("holder (pid %d): %v: workers have %v", os.Getpid(), err, h.config.Grace)
	h.err, h.isEnding = err, true
	h.lifeline.Close()
	h.dismiss()
	h.after(h.config.Grace+endPatience, func() {
		for _, c := range h.children {
			c.command.Process.Kill()
		}
	})
}

// startManager starts a manager that takes over as soon as it is ready.
func (h *holder) startManager() error {
	h.asked = frame{}
	return h.start(h.binary)
}

// start starts a candidate with a binary, the name of an entry.
func (h *holder) start(binary string) error {
	ours, theirs, err := newPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	p := h.config.Process
	p.Files = append(slices.Clone(p.Files), theirs)
	p.Env = append(slices.Clone(p.Env), fmt.Sprintf("%s=%d", Variable, 2+len(p.Files)))
	p.Attributes.Pdeathsig = syscall.SIGKILL
	command, err := h.startProcess(p, binary)
	if err != nil {
		ours.close()
		return err
	}
	m := &manager{conn: ours, command: command, binary: binary}
	h.candidate = m
	m.timer = h.after(h.config.BootTimeout, func() {
		if h.candidate == m && !m.isReady {
			m.reason = fmt.Sprintf("not ready after %v", h.config.BootTimeout)
			h.kill(m)
		}
	})
	go h.listen(m)
	return nil
}

// startProcess starts p with a binary, the name of an entry, or this program's if it is
// empty.
func (h *holder) startProcess(p supervise.Process, binary string) (*exec.Cmd, error) {
	path := "/proc/self/exe"
	if binary != "" {
		files := h.entries[binary].Files
		if len(files) != 1 {
			return nil, fmt.Errorf("%s is not held", binary)
		}
		const standard = 3
		fd := int(files[0].Fd())
		path = fmt.Sprintf("/proc/self/fd/%d", fd)
		if fd < standard+len(p.Files) { // see binaryNumbers; this needs permission to read the entry of this process
			path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
		}
	}
	command, err := supervise.StartProcess(p, path)
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err // the path says nothing
	}
	if errors.Is(err, unix.ENOENT) { // the file is open, but not there by its number
		err = fmt.Errorf("%w: is /proc mounted?", err)
	}
	return command, err
}

// listen passes what a manager sends to the holder's goroutine, and then its end.
func (h *holder) listen(m *manager) {
	for {
		f, err := m.conn.receive()
		if err != nil {
			break
		}
		h.post(func() {
			h.receive(m, f)
			closeFiles(f.files)
		})
	}
	m.command.Process.Kill() // without its socket it is of no use
	how := "exit status 0"
	if err := m.command.Wait(); err != nil {
		how = err.Error()
	}
	h.post(func() { h.ended(m, how) })
}

// dismiss ends the candidate, if there is one. Nobody waits for its end.
func (h *holder) dismiss() {
	if h.candidate != nil {
		h.kill(h.candidate)
		h.candidate, h.asked = nil, frame{}
		h.dropUnused()
	}
	if h.manager != nil {
		h.sendSignals(h.manager)
	}
}

// kill kills a manager. Its end is reported like any other.
func (h *holder) kill(m *manager) { m.command.Process.Kill() }

// send sends a frame to a manager. One that does not read is killed.
func (h *holder) send(m *manager, f frame) (sent bool) {
	err := m.conn.send(f)
	if errors.Is(err, errInFlight) {
		m.reason = err.Error()
	}
	if err != nil {
		h.kill(m)
	}
	return err == nil
}

// sendHeld sends all that is held, and ends it with a frame of a kind.
func (h *holder) sendHeld(m *manager, end kind) {
	for name, e := range h.entries {
		h.send(m, frame{Kind: kindHeld, Name: name, Data: e.Data, files: e.Files})
	}
	last := frame{Kind: end, Number: answersPut, Children: make(map[string]int), Manages: strings.TrimPrefix(m.binary, supervise.BinaryPrefix)}
	for id, c := range h.children {
		h.send(m, frame{Kind: kindHeld, Name: supervise.ChildPrefix + id, files: c.kept})
		last.Children[id] = c.command.Process.Pid
	}
	h.send(m, last)
	if end != kindManage {
		return
	}
	for id, c := range h.children {
		if c.isOver {
			h.send(m, frame{Kind: kindExited, Name: id, Text: c.how})
		}
	}
	h.sendSignals(m)
}

// receive carries out what a manager has sent.
func (h *holder) receive(m *manager, f frame) {
	switch {
	case m == h.candidate:
		h.receiveReport(m, f)
	case m == h.manager:
		h.carryOut(f)
	}
}

// receiveReport handles what a candidate sends.
func (h *holder) receiveReport(m *manager, f frame) {
	switch {
	case f.Kind == kindConnect:
		h.sendHeld(m, kindPreview)
	case f.Kind == kindRefuse:
		m.reason, m.result = f.Text, f.Data
	case f.Kind == kindReady && h.asked.Kind == kindProbe:
		h.answer(nil)
		h.dismiss()
	case f.Kind == kindReady && h.asked.Kind == kindReplace:
		m.isReady = true
		h.answer(nil)
	case f.Kind == kindReady:
		h.promote()
	}
}

// answer answers the manager's question about the candidate.
func (h *holder) answer(err error) {
	seq := h.asked.Seq
	h.asked.Seq = 0
	if h.manager != nil && seq != 0 {
		h.send(h.manager, frame{Kind: kindAnswer, Seq: seq}.with(err))
	}
}

// with returns f with an error; nil: f.
func (f frame) with(err error) frame {
	if err != nil {
		f.Text, f.Data = err.Error(), supervise.AppendResult(nil, err)
	}
	return f
}

// promote makes the candidate the manager.
func (h *holder) promote() {
	m := h.candidate
	h.manager, h.candidate, h.asked = m, nil, frame{}
	m.timer.Stop()
	if m.binary != h.binary {
		h.before, h.binary = h.binary, m.binary
	}
	h.hasManaged = true
	h.dropUnused()
	h.sendHeld(m, kindManage)
}

// carryOut carries out an order of the manager.
func (h *holder) carryOut(f frame) {
	if f.Kind != kindYield && f.Kind != kindHeard {
		h.manager.unheeded = nil
	}
	switch f.Kind {
	case kindPut:
		err := h.put(f)
		if f.Seq != 0 {
			h.send(h.manager, frame{Kind: kindAnswer, Seq: f.Seq}.with(err))
		}
	case kindDrop:
		h.drop(f.Name)
	case kindStart:
		h.startChild(f)
	case kindSignal:
		if c := h.children[f.Name]; c != nil && !c.isOver {
			c.command.Process.Signal(syscall.Signal(f.Number)) // it may be ending
		}
	case kindForget:
		if c := h.children[f.Name]; c != nil && c.isOver {
			closeFiles(c.kept)
			delete(h.children, f.Name)
		}
	case kindProbe, kindReplace:
		h.try(f)
	case kindDismiss:
		h.dismiss()
	case kindYield:
		h.yield()
	case kindHeard:
		heard := syscall.Signal(f.Number)
		h.manager.unheard = slices.DeleteFunc(h.manager.unheard, func(s os.Signal) bool { return s == heard })
	case kindRefuse:
		h.manager.reason = f.Text
	case kindOver:
		h.isEnding, h.result = true, f.Data
		h.dismiss()
		m := h.manager
		h.after(endPatience, func() { h.kill(m) })
	}
}

// put keeps an entry. f's files are the caller's. If it fails, the entry from before stays, and this
// manager goes on: one that takes over without the new one could lose connections.
func (h *holder) put(f frame) error {
	e := supervise.Entry{Data: f.Data}
	err := f.lost
	for _, file := range f.files {
		kept, keepErr := keep(file, f.Name)
		if err = keepErr; err != nil {
			break
		}
		e.Files = append(e.Files, kept)
	}
	if err != nil {
		closeFiles(e.Files)
		return h.refuse("keep", f.Name, err)
	}
	closeFiles(h.entries[f.Name].Files)
	h.entries[f.Name] = e
	if f.Name == supervise.EntryFleet {
		h.manager.hasLeft, h.failures = true, 0
	}
	if h.binary == "" && h.before == "" && strings.HasPrefix(f.Name, supervise.BinaryPrefix) { // the first manager's own
		h.binary, h.manager.binary = f.Name, f.Name
	}
	return nil
}

// refuse logs and returns the error of an order for which there is no room.
func (h *holder) refuse(verb, what string, err error) error {
	h.config.Logger.Printf("holder (pid %d): cannot %s %s: %v", os.Getpid(), verb, what, err)
	return fmt.Errorf("sluice: the process that holds the service (pid %d) cannot %s %s: %w", os.Getpid(), verb, what, err)
}

// keep returns a duplicate of a file of an entry.
func keep(file *os.File, name string) (*os.File, error) {
	if !strings.HasPrefix(name, supervise.BinaryPrefix) {
		fd, err := duplicate(file)
		if err != nil {
			return nil, err
		}
		return plainFile(fd, name)
	}
	for _, lowest := range binaryNumbers {
		if fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, lowest); err == nil {
			return os.NewFile(uintptr(fd), name), nil // a binary is never non-blocking
		}
	}
	return nil, os.NewSyscallError("fcntl", unix.EMFILE)
}

// drop closes an entry. The binaries of managers stay as long as they may be started.
func (h *holder) drop(name string) {
	if name == h.binary || name == h.before || h.candidate != nil && name == h.candidate.binary {
		if !slices.Contains(h.unused, name) {
			h.unused = append(h.unused, name)
		}
		return
	}
	closeFiles(h.entries[name].Files)
	delete(h.entries, name)
}

// dropUnused tries again what drop had to leave.
func (h *holder) dropUnused() {
	unused := h.unused
	h.unused = nil
	for _, name := range unused {
		h.drop(name)
	}
}

// startChild starts a worker.
func (h *holder) startChild(f frame) {
	answer := frame{Kind: kindStarted, Seq: f.Seq, Name: f.Name}
	c, err := h.newChild(f)
	if err == nil {
		answer.Number = c.command.Process.Pid
	}
	h.send(h.manager, answer.with(err))
}

// newChild starts the process of f.
func (h *holder) newChild(f frame) (*child, error) {
	if f.lost != nil {
		return nil, h.refuse("take what", f.Name+" needs", f.lost)
	}
	if f.Process == nil || f.Kept < 0 || f.Kept > len(f.files) || h.children[f.Name] != nil {
		return nil, fmt.Errorf("sluice: the holder cannot start %q", f.Name)
	}
	p, first := *f.Process, len(f.files)-f.Kept
	p.Files = f.files[:first]
	c := &child{}
	err := c.keep(f.files[first:], f.Name) // without them no other manager could take over
	if err == nil {
		c.command, err = h.startProcess(p, p.Binary)
	}
	if err != nil {
		closeFiles(c.kept)
		return nil, err
	}
	command := c.command
	h.children[f.Name] = c
	go func() {
		how := ""
		if err := command.Wait(); err != nil {
			how = err.Error()
		}
		h.post(func() {
			c.isOver, c.how = true, how
			if h.manager != nil {
				h.send(h.manager, frame{Kind: kindExited, Name: f.Name, Text: how})
			}
		})
	}()
	return c, nil
}

// keep keeps files of c, which has a name.
func (c *child) keep(files []*os.File, name string) error {
	for _, file := range files {
		kept, err := keep(file, name)
		if err != nil {
			return fmt.Errorf("the holder cannot keep its socket: %w", err)
		}
		c.kept = append(c.kept, kept)
	}
	return nil
}

// isChild reports whether a process is waited for.
func (h *holder) isChild(pid int) bool {
	found := make(chan bool, 1)
	h.post(func() {
		is := false
		for _, m := range []*manager{h.manager, h.candidate} {
			is = is || m != nil && m.command.Process.Pid == pid
		}
		for _, c := range h.children {
			is = is || c.command.Process.Pid == pid
		}
		found <- is
	})
	select {
	case is := <-found:
		return is
	case <-h.over:
		return true
	}
}

// try starts a candidate because the manager asks for it.
func (h *holder) try(f frame) {
	if h.candidate != nil {
		h.send(h.manager, frame{Kind: kindAnswer, Seq: f.Seq, Text: "another upgrade is under way"})
		return
	}
	h.asked = f
	if f.Kind == kindReplace && f.Name == h.bad {
		h.answer(errors.New("managers with the new binary have failed"))
		return
	}
	if err := h.start(f.Name); err != nil {
		h.answer(fmt.Errorf("the new binary cannot be started: %w", withLimit(err)))
	}
}

// yield replaces the manager by the candidate, which is ready.
func (h *holder) yield() {
	old := h.manager
	h.keepSignals(old.unheeded...)
	h.after(endPatience, func() { h.kill(old) })
	if h.candidate == nil || !h.candidate.isReady { // it has died meanwhile
		h.manager = nil
		if h.candidate == nil {
			h.restart()
		}
		h.asked = frame{}
		return
	}
	h.promote()
}

// ended: the process of m has ended.
func (h *holder) ended(m *manager, how string) {
	m.timer.Stop()
	m.conn.close()
	if h.config.OnReaped != nil {
		h.config.OnReaped(m.command.Process.Pid)
	}
	switch m {
	case h.candidate:
		h.candidate = nil
		h.dropUnused()
		h.failed(m, how)
	case h.manager:
		h.manager = nil
		if h.isEnding {
			break
		}
		h.keepSignals(m.unheeded...)
		h.keepSignals(m.unheard...)
		if h.entries[supervise.EntryFleet].Data == nil {
			h.abandon(fmt.Errorf("sluice: the managing process ended before it had started a worker: %s", how))
			break
		}
		if !m.hasLeft { // it would end again
			h.failed(m, how)
			break
		}
		if h.asked.Kind == kindProbe && h.asked.Seq != 0 { // the next one begins the upgrade anew
			h.keepSignals(syscall.SIGUSR2)
		}
		h.config.Logger.Printf("holder (pid %d): the manager (pid %d) died: %s: another one follows, workers go on", os.Getpid(), m.command.Process.Pid, how)
		if h.candidate != nil {
			// It was started for the one that died. What that one had decided stands in its state.
			h.asked = frame{}
			if h.candidate.binary == h.binary {
				if h.candidate.isReady {
					h.promote()
				}
				break
			}
			h.dismiss()
		}
		h.restart()
	}
}

// failed: a candidate has ended.
func (h *holder) failed(m *manager, how string) {
	if m.reason != "" {
		how = m.reason
	}
	switch {
	case h.manager != nil: // it has asked for the candidate, or for its end
		h.answer(fmt.Errorf("the new binary cannot manage the service: %s", how))
		h.sendSignals(h.manager)
	case h.isEnding:
	case !h.hasManaged && m.result != nil: // the service's own error, of which the caller of Run knows more
		h.isEnding, h.result = true, m.result
	case !h.hasManaged:
		h.abandon(fmt.Errorf("sluice: the managing process ended before it was ready: %s", how))
	default:
		h.failures++
		h.config.Logger.Printf("holder (pid %d): a manager (pid %d) ended before it was ready: %s", os.Getpid(), m.command.Process.Pid, how)
		if h.failures == failuresBefore && h.before != h.binary {
			h.before, h.binary, h.bad = h.binary, h.before, h.binary
		}
		h.restartLater()
	}
}

// restartLater starts a manager after a pause.
func (h *holder) restartLater() {
	h.after(min(shortestPause<<min(h.failures, 10), longestPause), h.restart)
}

// restart starts a manager, if there is none.
func (h *holder) restart() {
	if h.manager != nil || h.candidate != nil || h.isEnding {
		return
	}
	if err := h.startManager(); err != nil {
		h.failures++
		h.config.Logger.Printf("holder (pid %d): a manager cannot be started: %v", os.Getpid(), withLimit(err))
		h.restartLater()
	}
}

// close releases everything.
func (h *holder) close() {
	close(h.over)
	h.lifeline.Close()
	for _, e := range h.entries {
		closeFiles(e.Files)
	}
	for _, c := range h.children {
		closeFiles(c.kept)
	}
}
