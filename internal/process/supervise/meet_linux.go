package supervise

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// introduce gives a worker that has asked for it a stream to each worker that has asked
// before. The master keeps no end of them.
func (s *spawner) introduce(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.hasMet {
		return
	}
	p.hasMet = true
	defer s.put(prefixMet+p.id(), nil) // an error means that the Holder is gone, and this process ends
	var ends []*os.File
	defer func() { closeFiles(ends) }()
	flags := uint16(flagAnswer)
	for _, other := range s.processes {
		if !other.hasMet || other == p {
			continue
		}
		end, err := other.pass(messageMeet)
		if err != nil {
			s.master.config.Logger.Printf("worker %v cannot be connected with worker %v: %v", p.key, other.key, err)
			if !errors.Is(err, errLinkFull) { // a worker that reads nothing hangs, and will be replaced
				flags |= flagFailed
			}
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	for rest := ends; ; {
		some := rest[:min(len(rest), maxDescriptors)]
		rest = rest[len(some):]
		m := message{kind: messageMeet}
		if len(rest) == 0 {
			m.flags = flags
		}
		if err := p.link.send(m, some); err != nil {
			if !isHangUp(err) {
				s.master.config.Logger.Printf("worker %v is not connected with the others: %v", p.key, err)
			}
			return
		}
		if len(rest) == 0 {
			return
		}
	}
}

// pass passes an end of a new stream to a worker and returns the other end, which is nil if
// the worker is ending.
func (p *process) pass(kind messageType) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := holdDescriptor(pair[0], "stream"), holdDescriptor(pair[1], "stream")
	defer theirs.Close()
	if err := p.link.send(message{kind: kind}, []*os.File{theirs}); err != nil {
		ours.Close()
		if isHangUp(err) {
			err = nil
		}
		return nil, err
	}
	return ours, nil
}

// message carries out a message of the master that is about streams.
func (m *meetings) message(msg message, descriptors []int) (isMeeting bool) {
	if msg.kind != messageMeet {
		return false
	}
	m.mu.Lock()
	take := m.take
	m.isShort = m.isShort || msg.lacksDescriptors
	m.mu.Unlock()
	for _, fd := range descriptors {
		if take == nil {
			unix.Close(fd)
			continue
		}
		take(inherited(fd, "meeting"))
	}
	if msg.flags&flagAnswer != 0 {
		m.conclude(msg.flags)
	}
	return true
}
