//go:build !unix

package supervise

import (
	"errors"
	"os"
)

// hasControl: these systems have no control sockets, so all workers are bare.
const hasControl = false

// errLinkFull: the other end does not read.
var errLinkFull = errors.New("sluice: control socket is full")

// link does not exist on these systems.
type link struct{}

func newLinkPair() (*link, *os.File, error)      { return nil, nil, ErrDetached }
func heldLink([]*os.File) (*link, error)         { return nil, ErrDetached }
func (l *link) files() []*os.File                { return nil }
func (l *link) send(message, []*os.File) error   { return ErrDetached }
func (l *link) receive() (message, []int, error) { return message{}, nil, ErrDetached }
func (l *link) hangUp()                          {}
func (l *link) close()                           {}
func closeAll([]int)                             {}
