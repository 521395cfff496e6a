//go:build !linux

package supervise

import "time"

// hasInboxes: workers cannot pass connections to each other.
const hasInboxes = false

// newInboxPair returns nil: these systems have no inboxes.
func newInboxPair() (*inboxPair, error) { return nil, nil }

// inboxes is empty on these systems.
type inboxes struct{}

func (*inboxes) begin(int, Logger)                            {}
func (*inboxes) open(layout, int)                             {}
func (*inboxes) slots() int                                   { return 0 }
func (*inboxes) post(int, int, []byte, time.Duration) error   { return ErrNoInbox }
func (*inboxes) receive(func(fd int, payload []byte))         {}
func (*inboxes) stop(bool)                                    {}
func (*inboxes) takeBack()                                    {}
func (*inboxes) message(message, []int) (isInboxMessage bool) { return false }
