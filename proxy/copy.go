package proxy

import "io"

// leanSize is how many bytes are read at a time after a pause.
const leanSize = 512

// copyLean copies to the end, or to an error. While nothing comes it holds little memory:
// tunnels and streams of events mostly wait.
func copyLean(to io.Writer, from io.Reader) (count int64, err error) {
	for small := make([]byte, leanSize); err == nil; {
		var n int
		n, err = copyOnce(to, from, small)
		count += int64(n)
		if err == nil && n == len(small) {
			var more int64
			more, err = copyMuch(to, from)
			count += more
		}
	}
	if err == io.EOF {
		err = nil
	}
	return count, err
}

// copyMuch copies while much comes.
func copyMuch(to io.Writer, from io.Reader) (count int64, err error) {
	block := blockPool.Get().(*[blockSize]byte)
	defer blockPool.Put(block)
	for n := len(block); err == nil && n >= len(block)/4; count += int64(n) {
		n, err = copyOnce(to, from, block[:])
	}
	return count, err
}

// copyOnce copies what one Read returns.
func copyOnce(to io.Writer, from io.Reader, block []byte) (int, error) {
	n, err := from.Read(block)
	if n > 0 {
		if _, err := to.Write(block[:n]); err != nil {
			return n, err
		}
	}
	return n, err
}
