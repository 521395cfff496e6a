package engine

import "net"

// NextPiece takes from v what is to be written next to a connection that has no
// gathering write: the first buffer if it is large, else as many as fit into
// dst, up to size bytes.
func NextPiece(dst []byte, v *net.Buffers, size int) []byte {
	for len(*v) > 0 {
		first := (*v)[0]
		if len(dst)+len(first) > size {
			if len(dst) > 0 {
				return dst
			}
			(*v)[0], *v = nil, (*v)[1:]
			return first
		}
		dst = append(dst, first...)
		(*v)[0], *v = nil, (*v)[1:]
	}
	return dst
}
