package engine

import "net"

// NextPiece removes from v the bytes to write next to a connection without a
// gathering write. It returns the first buffer itself if that is larger than size;
// otherwise it appends as many buffers to dst as fit into size bytes.
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
