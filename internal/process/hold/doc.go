// Package hold keeps a service alive beyond the process that manages it. The process that a
// user has started becomes the holder. It keeps descriptors under names, starts the workers
// and waits for them, owns the pid, and receives the signals. All decisions are those of one
// manager, a child of the holder, in which a [supervise.Master] runs. If the manager dies,
// the holder starts another one, which takes over the descriptors, the workers and the state.
// An upgrade starts a manager with the new binary beside the old one, which then hands over.
//
// The holder itself is never replaced, so it is small and knows nothing of the protocols that
// workers serve. The package works on Linux only. See docs/adr/0040-upgrade-in-place.md.
package hold

// Variable is the environment variable with the number of the descriptor of the socket to
// the holder. A process that has it is a manager.
const Variable = "SLUICE_MANAGER"
