//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package netconn

import (
	"net"
	"sync"
)

// readyPool holds readyWriters that are not in use; a call of WriteReady owns one.
var readyPool = sync.Pool{New: newReadyWriter}

func acquireReadyWriter(left *net.Buffers) *readyWriter {
	w := readyPool.Get().(*readyWriter)
	w.left, w.written = left, 0
	return w
}

func releaseReadyWriter(w *readyWriter) {
	w.left = nil
	readyPool.Put(w)
}
