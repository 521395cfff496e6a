//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import "net"

// maxVectors is how many buffers one call of SendBuffers takes.
const maxVectors = 64

// consume takes n bytes off v, and the empty buffers behind them.
func consume(v *net.Buffers, n int) {
	for len(*v) > 0 {
		if first := (*v)[0]; n < len(first) {
			(*v)[0] = first[n:]
			return
		}
		n -= len((*v)[0])
		(*v)[0], *v = nil, (*v)[1:]
	}
}
