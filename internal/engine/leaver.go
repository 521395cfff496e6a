package engine

// A Leaver is the part of a Protocol that leaves the engine before anything is read. The
// other part has Detached and Closed.
type Leaver struct{}

// Capabilities implements Protocol.
func (Leaver) Capabilities() Capabilities { return CanStart }

// Start implements Starter.
func (Leaver) Start() Next { return Detach }

// Feed implements Protocol; nothing is fed before Detached.
func (Leaver) Feed([]byte) (int, Next) { return 0, Detach }

// Run implements Protocol; there is nothing to run.
func (Leaver) Run(out []byte) ([]byte, Next) { return out, Detach }

// Pause implements Protocol.
func (Leaver) Pause() bool { return false }

// HalfClosed implements Protocol.
func (Leaver) HalfClosed(out []byte) []byte { return out }

// TimedOut implements Protocol.
func (Leaver) TimedOut(out []byte) ([]byte, Next) { return out, Abort }
