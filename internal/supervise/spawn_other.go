//go:build !linux

package supervise

import (
	"os"
	"syscall"
)

// executable is this program's binary, by its name: these systems cannot start
// an open file.
type executable struct{ file string }

// openExecutable finds it.
func openExecutable(int) (*executable, error) {
	file, err := os.Executable()
	return &executable{file: file}, err
}

// path returns a name for exec.
func (e *executable) path() string { return e.file }

// close does nothing.
func (e *executable) close() {}

// dieWithParent does nothing: the lifeline alone tells of the master's death.
func dieWithParent(*syscall.SysProcAttr) {}

// pinThread does nothing: these systems place processes themselves.
func pinThread([]int) (restore func(), err error) { return func() {}, nil }
