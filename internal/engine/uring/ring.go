//go:build linux && (amd64 || arm64)

package uring

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The numbers are those of every architecture that has io_uring.
const (
	sysSetup = 425
	sysEnter = 426

	offsetShared  = 0
	offsetEntries = 0x10000000

	featureSingleMap = 1 << 0

	opSend     = 26
	flagSkipOK = 1 << 6 // IOSQE_CQE_SKIP_SUCCESS
	// MSG_WAITALL makes a short send a failure, which is told of. MSG_DONTWAIT makes the
	// kernel give up where it would go on later.
	sendFlags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL | syscall.MSG_WAITALL
)

// A submission is io_uring_sqe.
type submission struct {
	op       uint8
	flags    uint8
	priority uint16
	fd       int32
	offset   uint64
	address  uint64
	length   uint32
	msgFlags uint32
	userData uint64
	_        [3]uint64
}

// A completion is io_uring_cqe.
type completion struct {
	userData uint64
	result   int32
	flags    uint32
}

// params is io_uring_params.
type params struct {
	submissions, completions      uint32
	flags, cpu, idle, features, w uint32
	_                             [3]uint32
	sq                            struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, completions, flags, _ uint32
		_                                                          uint64
	}
}

// A Ring is an io_uring. One goroutine may use it at a time.
type Ring struct {
	fd      int
	shared  []byte // the heads and tails, and the completions
	entries []byte // the submissions

	submissions []submission
	taken       *atomic.Uint32 // how many submissions the kernel has taken
	tail        *atomic.Uint32 // and may take
	tailMask    uint32
	position    uint32 // *tail, and what Add has added

	completed     []completion
	head          *atomic.Uint32 // of the completions
	completedTail *atomic.Uint32
	completedMask uint32

	failures []Failure
}

// A Failure is a send that has not written all of its bytes.
type Failure struct {
	Token uint32
	N     int           // bytes written
	Errno syscall.Errno // 0: some were written, or the kernel did not take the send
}

// Open returns a Ring for up to size sends at once, a power of two. The error says what the
// kernel, or a filter of system calls, does not allow.
func Open(size int) (*Ring, error) {
	var p params
	fd, _, errno := syscall.Syscall(sysSetup, uintptr(size), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r := &Ring{fd: int(fd), failures: make([]Failure, 0, size)}
	if p.features&featureSingleMap == 0 {
		r.Close()
		return nil, errors.New("sluice: io_uring of a kernel before 5.4")
	}
	length := max(p.sq.array+4*p.submissions, p.cq.completions+uint32(unsafe.Sizeof(completion{}))*p.completions)
	var err error
	if r.shared, err = r.mapped(offsetShared, int(length)); err == nil {
		r.entries, err = r.mapped(offsetEntries, int(p.submissions)*int(unsafe.Sizeof(submission{})))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.entries[0])), p.submissions)
	r.completed = unsafe.Slice((*completion)(unsafe.Pointer(&r.shared[p.cq.completions])), p.completions)
	r.taken, r.tail, r.tailMask = r.word(p.sq.head), r.word(p.sq.tail), r.word(p.sq.mask).Load()
	r.head, r.completedTail, r.completedMask = r.word(p.cq.head), r.word(p.cq.tail), r.word(p.cq.mask).Load()
	for i := range p.submissions { // a submission is always at its own position
		r.word(p.sq.array + 4*i).Store(i)
		r.submissions[i] = submission{op: opSend, flags: flagSkipOK, msgFlags: sendFlags} // the kernel only reads it
	}
	r.position = r.tail.Load()
	return r, nil
}

func (r *Ring) mapped(offset int64, length int) ([]byte, error) {
	p, err := syscall.Mmap(r.fd, offset, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	return p, os.NewSyscallError("mmap", err)
}

func (r *Ring) word(offset uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.shared[offset]))
}

// Close releases the Ring.
func (r *Ring) Close() {
	if r.entries != nil {
		_ = syscall.Munmap(r.entries) // after an error there is nothing to do
	}
	if r.shared != nil {
		_ = syscall.Munmap(r.shared)
	}
	_ = syscall.Close(r.fd)
}

// Add adds a send of p, which is not empty, to the next Submit. Until that returns, p must
// not be on the stack, and must not change. The caller adds at most size sends.
func (r *Ring) Add(fd int, p []byte, token uint32) {
	s := &r.submissions[r.position&r.tailMask]
	s.fd, s.address, s.length, s.userData = int32(fd), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), uint32(len(p)), uint64(token)
	r.position++
}

// enterTries is how often in a row Submit tries what makes no progress.
const enterTries = 4

// Submit makes the sends. It returns those that have not written all of their bytes, which
// are valid until the next Submit. works is false if the kernel does not take sends any more,
// which another Submit does not change.
func (r *Ring) Submit() (failed []Failure, works bool) {
	announce()
	works = true
	r.failures = r.failures[:0]
	r.tail.Store(r.position)
	for tries := 0; tries < enterTries; tries++ {
		before := r.taken.Load()
		_, _, errno := syscall.RawSyscall6(sysEnter, uintptr(r.fd), uintptr(r.position-before), 0, 0, 0, 0)
		r.reap()
		after := r.taken.Load()
		if after == r.position {
			return r.failures, true
		}
		if after != before {
			tries = -1
			continue
		}
		switch errno {
		case syscall.EINTR, syscall.EAGAIN, syscall.EBUSY:
		default:
			works, tries = false, enterTries
		}
	}
	// What was not taken is taken back: the kernel looks at tail in io_uring_enter only.
	for at := r.taken.Load(); at != r.position; at++ {
		r.failures = append(r.failures, Failure{Token: uint32(r.submissions[at&r.tailMask].userData)})
	}
	r.position = r.taken.Load()
	r.tail.Store(r.position)
	return r.failures, works
}

// reap notes the completions: with flagSkipOK, only failures have one.
func (r *Ring) reap() {
	head := r.head.Load()
	for end := r.completedTail.Load(); head != end; head++ {
		c := r.completed[head&r.completedMask]
		f := Failure{Token: uint32(c.userData), N: max(int(c.result), 0)}
		if c.result < 0 {
			f.Errno = syscall.Errno(-c.result)
		}
		r.failures = append(r.failures, f)
	}
	r.head.Store(head)
}
