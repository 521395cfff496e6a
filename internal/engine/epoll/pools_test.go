//go:build linux && (amd64 || arm64)

package epoll

import "sync"

// answers keeps the protocols of connections that sleep.
var answers sync.Pool
