package supervise

import (
	"errors"
	"os"
	"sync"
	"time"
)

// HasMeet reports whether Worker.Meet works on this system.
const HasMeet = hasInboxes

// meetPatience bounds the wait for the master's answer.
const meetPatience = 10 * time.Second

// What Meet returns, besides ErrDetached.
var (
	errMeet     = errors.New("sluice: the master could not connect the worker with the others")
	errMeetLate = errors.New("sluice: the master does not connect the worker with the others")
)

// meetings is what a worker knows of its streams to other workers.
type meetings struct {
	mu      sync.Mutex
	take    func(*os.File)
	answer  chan error // holds the master's answer
	isShort bool       // streams were lost
	hasMet  bool       // the answer has come, and says that all streams are there
}

// Meet asks the master for a stream to each worker that has called Meet, of all slots and
// generations. It returns when take was called for all of them; later take is called for
// each worker that calls Meet. take owns the file and must not block. A stream ends when
// either process has ended. Call Meet at most once. The error is ErrDetached in a bare
// worker and on systems without it.
func (w *Worker) Meet(take func(*os.File)) error {
	if w.bare || !HasMeet {
		return ErrDetached
	}
	answer := w.meetings.begin(take)
	if err := w.send(messageMeeting, nil); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-w.orphaned:
	case <-time.After(meetPatience):
	}
	return errMeetLate
}

// begin makes take get the streams.
func (m *meetings) begin(take func(*os.File)) (answer <-chan error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take, m.answer = take, make(chan error, 1)
	return m.answer
}

// progress reports whether the worker has asked for its streams, and whether it has got them.
func (m *meetings) progress() (hasAsked, hasMet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take != nil, m.hasMet
}

// conclude passes the master's answer on.
func (m *meetings) conclude(flags uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if flags&flagFailed != 0 || m.isShort {
		err = errMeet
	}
	m.hasMet = err == nil
	select {
	case m.answer <- err: // nil: it was not asked for
	default:
	}
}
