package prefork

import (
	"errors"
	"net"
	"os"
	"strings"

	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/process/systemd"
	"github.com/sluicehttp/sluice/shared"
)

// The names under which a holder keeps what is not the supervisor's.
const (
	entrySegment = "segment"
	entryAdmin   = "admin" // its data is the address
)

// A managerLink is a manager's connection to its holder, a *hold.Manager.
type managerLink interface {
	supervise.Holder
	Held() *supervise.Held
	Manages() string
	Manage() error
	Refuse(reason error) error
	Signals() <-chan os.Signal
	Yield() error
	Over(result []byte) error
}

// A holder is what keeps the workers for this master; nil: nothing does, and the workers
// are this process's own children.
type holder struct {
	managerLink
	stage holderStage
}

// holderStage is how far a manager has come.
type holderStage uint8

const (
	holderConnected holderStage = iota // it may be asked to manage
	holderBegan                        // it manages a service that has no workers yet
	holderContinues                    // it manages what another one has begun
	holderRan                          // the workers have ended, or another one manages
)

// systemd returns what systemd has told the service.
func (h *holder) systemd() (*systemd.Service, error) {
	if h == nil {
		return systemd.Take()
	}
	return systemd.TakeOf(os.Getppid())
}

// held returns what the holder keeps, nil if there is none.
func (h *holder) held() *supervise.Held {
	if h == nil {
		return nil
	}
	return h.Held()
}

// isManaged reports whether this master continues what another one has begun.
func (h *holder) isManaged() bool { return h != nil && h.Held().IsManaged() }

// share is share with the holder's segment, which all workers have.
func (h *holder) share(c *supervise.Config) (*shared.Segment, error) {
	if h == nil {
		return share(c, otherProcesses)
	}
	files := h.Held().Take(entrySegment)
	for _, f := range files {
		if _, err := shared.Adopt(f); err != nil {
			return nil, err
		}
	}
	s, err := share(c, otherProcesses+holderProcesses)
	c.SharedFiles = files
	return s, err
}

// begin waits until this master is to manage the workers.
func (h *holder) begin(c *supervise.Config) error {
	if h == nil {
		return nil
	}
	if h.isManaged() {
		if err := supervise.CheckHeld(h.Held()); err != nil {
			return err
		}
	}
	if err := h.Manage(); err != nil {
		return err
	}
	if h.stage = holderBegan; h.isManaged() {
		h.stage = holderContinues
	}
	c.Holder, c.Manages, c.NoSignals = h.managerLink, h.Manages(), true
	return nil
}

// adminListener returns the socket of the admin server on addr that the master before has
// left, or nil.
func (h *holder) adminListener(addr string) net.Listener {
	if h == nil || string(h.Held().Entries[entryAdmin].Data) != addr {
		return nil
	}
	for _, f := range h.Held().Take(entryAdmin) {
		defer f.Close()
		if ln, err := listen.FromFile(f); err == nil {
			return ln
		}
	}
	return nil
}

// keepAdmin has the holder keep the admin server's socket for the next master.
func (h *holder) keepAdmin(a *admin, addr string) error {
	if ln, isUnix := a.ln.(*net.UnixListener); isUnix {
		a.file = listen.OwnFile(ln, strings.TrimPrefix(addr, unixPrefix))
	}
	if h == nil {
		return nil
	}
	f, err := listen.File(a.ln)
	if err != nil {
		return err
	}
	defer f.Close()
	return h.Put(entryAdmin, []byte(addr), f)
}

// ran tells the holder that Run has returned err.
func (h *holder) ran(err error) {
	if h == nil {
		return
	}
	h.stage = holderRan
	// Errors mean that the holder is gone, and with it everything.
	if errors.Is(err, supervise.ErrReplaced) {
		h.Yield()
	} else {
		h.Over(supervise.AppendResult(nil, err))
	}
}

// passOn tells the holder why this process could not manage, unless ran has. If there are
// workers already, the holder starts another manager. It reports whether the holder knows.
func (h *holder) passOn(err error) bool {
	switch h.stage {
	case holderConnected, holderContinues:
		err = h.Refuse(err)
	case holderBegan:
		err = h.Over(supervise.AppendResult(nil, err))
	default:
		return true
	}
	return err == nil
}
