//go:build !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// executable is this program's binary, by its name: these systems cannot execute an
// open file.
type executable struct{ id, file, origin string }

// openExecutable finds the binary.
func openExecutable(int) (*executable, error) {
	file, err := os.Executable()
	return &executable{file: file}, err
}

// reopen returns e, because e is a name.
func (e *executable) reopen(int) (*executable, error) { return e, nil }

// heldExecutable returns an error: there are no Holders on these systems.
func heldExecutable(*os.File, string, string, int) (*executable, error) {
	return nil, errors.ErrUnsupported
}

// giveTo returns an error.
func (e *executable) giveTo(Holder) error { return errors.ErrUnsupported }

// name returns err, which names the file.
func (e *executable) name(err error) error { return err }

// path returns a name for exec.
func (e *executable) path() string { return e.file }

// close does nothing.
func (e *executable) close() {}

// dieWithParent does nothing: on these systems only the lifeline reports the master's
// death.
func dieWithParent(*syscall.SysProcAttr) {}

// dropPrivileges does nothing: it is not implemented on these systems.
func dropPrivileges() error { return nil }

// pinThread does nothing: it is not implemented on these systems.
func pinThread([]int) (restore func(), err error) { return func() {}, nil }
