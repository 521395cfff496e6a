//go:build !linux

package supervise

import "os"

// Stream returns ErrDetached: these systems have no streams to workers.
func (m *Master) Stream(slot, generation int) (*os.File, error) { return nil, ErrDetached }
