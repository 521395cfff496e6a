//go:build !linux

package supervise

import "time"

// hasInboxes: workers cannot pass connections to each other.
const hasInboxes = false

// newInboxPair returns nothing: there are no inboxes on these systems.
func newInboxPair() (*inboxPair, error) { return nil, nil }

// inboxes is what a worker knows of them: nothing.
type inboxes struct{}

func (*inboxes) begin(int, Logger)                            {}
func (*inboxes) open(layout, int)                             {}
func (*inboxes) slots() int                                   { return 0 }
func (*inboxes) post(int, int, []byte, time.Duration) error   { return ErrNoInbox }
func (*inboxes) receive(func(fd int, payload []byte))         {}
func (*inboxes) stop(bool)                                    {}
func (*inboxes) takeBack()                                    {}
func (*inboxes) message(message, []int) (isInboxMessage bool) { return false }
