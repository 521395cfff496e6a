package ws

// maskBlocks masks the blocks of 64 bytes that p begins with, n bytes in all. seen has the bits
// that are set in the result. There is one block at least.
func maskBlocks(p []byte, wide uint64) (n int, seen uint64) {
	n = len(p) &^ 63
	return n, maskSSE(p[:n], wide)
}

// maskSSE is maskBlocks for p that is blocks, one at least. It uses SSE2, which all processors
// of this kind have.
//
//go:noescape
func maskSSE(p []byte, wide uint64) (seen uint64)
