//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package netconn

import "net"

// WriteReady implements engine.Conn. Package net waits in every write.
func (*conn) WriteReady(*net.Buffers) int64 { return 0 }
