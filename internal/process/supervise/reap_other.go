//go:build !linux

package supervise

// reapAdopted does nothing: on these systems the program is not process 1.
func (m *Master) reapAdopted() (stop func()) { return func() {} }
