//go:build (linux && !mips && !mipsle && !(arm && !arm.7)) || darwin || dragonfly || freebsd || netbsd || openbsd

package shared

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
)

// canShare reports whether processes can share a segment.
const canShare = true

// createTemporary returns an unlinked file of size bytes.
func createTemporary(size int64) (*os.File, error) {
	file, err := os.CreateTemp("", "sluice-shared-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		err = file.Truncate(size)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// mapFile maps the whole file, shared with other processes.
func mapFile(fd uintptr) ([]word, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(fd), &stat); err != nil {
		return nil, err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Size < minSize || stat.Size > maxSize || int64(int(stat.Size)) != stat.Size {
		return nil, fmt.Errorf("%w: a file of %d bytes", ErrCorrupt, stat.Size)
	}
	memory, err := syscall.Mmap(int(fd), 0, int(stat.Size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return wordsOf(memory), nil
}

// unmap unmaps the result of mapFile, which must not be used any more.
func unmap(words []word) { _ = syscall.Munmap(bytesOf(words)) }

// ownWords returns memory of this process only. It is mapped and not allocated: pages
// that are never touched take no memory, and the garbage collector does not count it.
func ownWords(n int) []word {
	memory, err := syscall.Mmap(-1, 0, n*wordBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return heapWords(n)
	}
	return wordsOf(memory)
}

// lastInherited is the highest descriptor that may be an inherited segment. A master
// passes a few files to each worker, and one for each other worker.
const lastInherited = 1023

// findInherited looks for the segment of the process's parent among the inherited
// descriptors, and returns the descriptor or -1. A grandchild does not find it,
// because its parent did not create the segment.
func findInherited() int {
	parent := uint64(os.Getppid())
	var header [(headerCreator + 1) * wordBytes]byte
	for fd := 3; fd <= lastInherited; fd++ {
		var stat syscall.Stat_t
		if syscall.Fstat(fd, &stat) != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Size < minSize {
			continue
		}
		if n, err := syscall.Pread(fd, header[:], 0); n < len(header) || err != nil || nativeWord(header[:], headerMagic) != magic {
			continue
		}
		if nativeWord(header[:], headerCreator) == parent {
			syscall.CloseOnExec(fd)
			return fd
		}
	}
	return -1
}

// nativeWord returns a word of a segment whose beginning was read as bytes.
func nativeWord(header []byte, index int) uint64 {
	return binary.NativeEndian.Uint64(header[index*wordBytes:])
}
