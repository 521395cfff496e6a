//go:build !linux

package supervise

// introduce does nothing: these systems have no streams between workers.
func (s *spawner) introduce(*process) {}

// message carries out no message.
func (m *meetings) message(message, []int) (isMeeting bool) { return false }
