package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// A Holder is another process that keeps what must outlive a Master: descriptors, the
// Master's state, and the workers, which it starts and waits for. A Master that has a
// Holder can be killed, and another one takes its place, without any loss.
//
// Its methods may be called concurrently. Their errors say that the Holder is gone, unless
// something else is said.
type Holder interface {
	// Put keeps data and duplicates of files under a name, in place of what it kept there. With
	// files it may fail because the Holder has no room for them.
	Put(name string, data []byte, files ...*os.File) error
	// Drop closes what was put under a name.
	Drop(name string) error
	// Start starts a process. id names it from then on. The Holder keeps duplicates of
	// kept until Forget. The error may be about the process only.
	Start(id string, p Process, kept ...*os.File) (pid int, err error)
	// Wait waits for the end of a process and says how it ended; "" if its exit status is
	// 0, or if the Holder is gone.
	Wait(id string) string
	// Signal sends a signal to a process. It does nothing if the process has ended.
	Signal(id string, sig syscall.Signal) error
	// Forget drops a process that has ended.
	Forget(id string) error
	// Probe starts the program with a binary that was put, ends it, and reports whether it
	// could be the Master of what is held.
	Probe(binary string) error
	// Replace is Probe, but the new Master waits until this one's process says that it has
	// ended, or calls Dismiss.
	Replace(binary string) error
	// Dismiss ends the Master that Replace has started.
	Dismiss() error
}

// A Process describes a process that a Holder, or this process, starts.
type Process struct {
	// Binary is the name under which a Holder keeps the binary.
	Binary string
	// Args and Env are its arguments and its complete environment.
	Args, Env []string
	// Files become its descriptors, from 3 on.
	Files []*os.File `json:"-"`
	// CPUs are those on which it may run; empty: all.
	CPUs []int
	// NoNewPrivileges is Config.NoNewPrivileges.
	NoNewPrivileges bool
	// Attributes are Config.SysProcAttr. Without a Pdeathsig it gets SIGTERM when the
	// thread that has called StartProcess ends.
	Attributes syscall.SysProcAttr
}

// StartProcess starts p with the binary at path. The caller must have locked its
// goroutine to its thread, which must live as long as p.
func StartProcess(p Process, path string) (*exec.Cmd, error) {
	restore, err := p.prepareThread()
	if err != nil {
		return nil, err
	}
	defer restore()
	dieWithParent(&p.Attributes)
	command := &exec.Cmd{
		Path:        path,
		Args:        p.Args,
		Env:         p.Env,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		ExtraFiles:  p.Files,
		SysProcAttr: &p.Attributes,
	}
	return command, command.Start()
}

// prepareThread gives the calling thread what p inherits from it, until restore is called.
func (p *Process) prepareThread() (restore func(), err error) {
	restore = func() {}
	if len(p.CPUs) > 0 {
		if restore, err = pinThread(p.CPUs); err != nil {
			return nil, err
		}
	}
	if p.NoNewPrivileges {
		if err := dropPrivileges(); err != nil {
			restore()
			return nil, err
		}
	}
	return restore, nil
}

// Held is what a Holder keeps: what a Master takes from the one before it.
type Held struct {
	// Entries are what was put, by name.
	Entries map[string]Entry
	// Children are the pids of the processes that were started and not forgotten, by id.
	Children map[string]int
}

// An Entry is what was put under a name, or the kept files of a process.
type Entry struct {
	Data  []byte
	Files []*os.File
}

// Close closes all files that were not taken.
func (h *Held) Close() {
	for _, e := range h.Entries {
		closeFiles(e.Files)
	}
	clear(h.Entries)
}

// Take returns the files that were put under a name, and nil if there are none. They then
// belong to the caller.
func (h *Held) Take(name string) []*os.File {
	files := h.Entries[name].Files
	delete(h.Entries, name)
	return files
}

// IsManaged reports whether a Master has left its state.
func (h *Held) IsManaged() bool { return h.Entries[EntryFleet].Data != nil }

// HasClosed reports whether the Master that has left its state had closed the sockets, because
// all workers were told to end.
func (h *Held) HasClosed() bool {
	s, err := parseSaved(h)
	return err == nil && s.Listening == listeningClosed
}

// The names of entries.
const (
	// EntryLifeline is the read end of the lifeline, which the Holder makes.
	EntryLifeline = "lifeline"
	// EntryFleet has the state of the machine.
	EntryFleet = "fleet"
	// ChildPrefix and a process's id name the entry with its kept files.
	ChildPrefix = "child/"
	// BinaryPrefix begins the names of entries whose file is executed.
	BinaryPrefix = "binary/"

	prefixSockets = "sockets/"
	prefixInbox   = "inbox/"
	prefixMet     = "met/"
	prefixPackets = "packets/" // its data is the id of the owner, which may be gone
	// entryPacketSecret has Config.PacketSecret.
	entryPacketSecret = "packet-secret"
)

// id is the name of a worker's process.
func (k key) id() string { return k.String() }

// keyOf returns the key that has an id.
func keyOf(id string) (k key, err error) {
	_, err = fmt.Sscanf(id, "%d.%d", &k.slot, &k.generation)
	return k, err
}

// slotOf returns the slot in the name of an entry.
func slotOf(name, prefix string) (slot int, ok bool) {
	text, found := strings.CutPrefix(name, prefix)
	slot, err := strconv.Atoi(text)
	return slot, found && err == nil && slot >= 0 && slot <= maxSlot
}

// heldChild is a worker that a Holder has started.
type heldChild struct {
	holder Holder
	id     string
	number int // its pid
}

func (c heldChild) pid() int { return c.number }

func (c heldChild) wait() string { return c.holder.Wait(c.id) }

func (c heldChild) signal(sig os.Signal) error {
	return c.holder.Signal(c.id, sig.(syscall.Signal)) // the master sends no others
}

// ErrReplaced is what Run returns if another Master has to take over, which Replace has
// started. Nothing was closed that the Holder keeps.
var ErrReplaced = errors.New("sluice: another master has taken over: give the order again")

// AppendResult appends the result of Run to dst, for another process.
func AppendResult(dst []byte, err error) []byte {
	text, _ := json.Marshal(saveError(err)) // numbers, booleans and texts
	return append(dst, text...)
}

// ParseResult returns the result that AppendResult has written.
func ParseResult(text []byte) error {
	var s *savedError
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("sluice: the master's result: %w", err)
	}
	return s.load()
}

// Sockets returns the sockets of a slot, which stay those of h; nil if there are none.
func (h *Held) Sockets(slot int) []*os.File {
	return h.Entries[fmt.Sprint(prefixSockets, slot)].Files
}

// CheckHeld reports whether a Master of this program can take over what is held.
func CheckHeld(h *Held) error {
	_, err := parseSaved(h)
	return err
}

// parseSaved returns the state that is held.
func parseSaved(h *Held) (*saved, error) {
	s := &saved{}
	if err := json.Unmarshal(h.Entries[EntryFleet].Data, s); err != nil {
		return nil, fmt.Errorf("sluice: the master's state: %w", err)
	}
	if s.Format != savedFormat {
		return nil, fmt.Errorf("sluice: the master's state has format %d, and this program reads %d: stop and start it", s.Format, savedFormat)
	}
	return s, nil
}
