//go:build linux && (amd64 || arm64)

package uring

import (
	"bytes"
	"slices"
	"syscall"
	"testing"
)

const testSize = 8

func open(t *testing.T) *Ring {
	t.Helper()
	if err := Obstacle(); err != nil {
		t.Skip(err)
	}
	r, err := Open(testSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// pair returns two connected sockets.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	a, b, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(a); _ = syscall.Close(b) })
	return a, b
}

// drain reads all that is there.
func drain(t *testing.T, fd int) (all []byte) {
	t.Helper()
	p := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, p)
		if err == syscall.EAGAIN {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p[:n]...)
	}
}

// Each send is made, and what failed is told: how much was written of which one, and why. It
// is so more often than a ring has places.
func TestSubmit(t *testing.T) {
	r := open(t)
	text := []byte("hello")
	for round := range 3 * testSize {
		good, goodPeer := pair(t)
		full, _ := pair(t)
		for {
			if _, err := syscall.Write(full, make([]byte, 4096)); err != nil {
				break
			}
		}
		broken, _ := pair(t)
		_ = syscall.Shutdown(broken, syscall.SHUT_WR)
		short, shortPeer := pair(t)
		long := bytes.Repeat([]byte("0123456789"), 1<<17)
		last, lastPeer := pair(t)
		r.Add(good, text, 1)
		r.Add(full, text, 2)
		r.Add(broken, text, 3)
		r.Add(short, long, 4)
		r.Add(last, text, 5)
		r.Add(-1, text, 6)
		got, works := r.Submit()
		if !works {
			t.Fatal("the ring does not work")
		}
		at := slices.IndexFunc(got, func(f Failure) bool { return f.Token == 4 })
		if at < 0 || got[at].Errno != 0 || got[at].N <= 0 || got[at].N >= len(long) {
			t.Fatalf("round %d: %+v; want a part of 4", round, got)
		}
		if sent := drain(t, shortPeer); !bytes.Equal(sent, long[:got[at].N]) {
			t.Errorf("round %d: %d bytes arrived, or others; %+v", round, len(sent), got[at])
		}
		got = slices.Delete(slices.Clone(got), at, at+1)
		slices.SortFunc(got, func(a, b Failure) int { return int(a.Token) - int(b.Token) })
		want := []Failure{{2, 0, syscall.EAGAIN}, {3, 0, syscall.EPIPE}, {6, 0, syscall.EBADF}}
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %+v, want %+v", round, got, want)
		}
		for _, peer := range []int{goodPeer, lastPeer} {
			if sent := drain(t, peer); !bytes.Equal(sent, text) {
				t.Errorf("round %d: %q arrived", round, sent)
			}
		}
	}
}

// What the kernel does not take has failed, and is not sent later.
func TestSubmitRefused(t *testing.T) {
	r := open(t)
	a, b := pair(t)
	was := r.fd
	defer func() { r.fd = was }()
	r.fd = -1
	for range 3 {
		r.Add(a, []byte("one"), 1)
		r.Add(a, []byte("two"), 2)
		got, works := r.Submit()
		if want := []Failure{{Token: 1}, {Token: 2}}; works || !slices.Equal(got, want) {
			t.Errorf("%+v, works %v; want %+v", got, works, want)
		}
	}
	r.fd = was
	r.Add(a, []byte("three"), 3)
	if got, works := r.Submit(); len(got) != 0 || !works {
		t.Errorf("then %+v, works %v", got, works)
	}
	if sent := drain(t, b); string(sent) != "three" {
		t.Errorf("%q arrived", sent)
	}
}

func TestSubmitDoesNotAllocate(t *testing.T) {
	r := open(t)
	a, b := pair(t)
	broken, _ := pair(t)
	_ = syscall.Shutdown(broken, syscall.SHUT_WR)
	text, room := []byte("hello"), make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		r.Add(a, text, 1)
		r.Add(broken, text, 2)
		r.Add(a, text, 3)
		if failed, _ := r.Submit(); len(failed) != 1 {
			t.Errorf("%+v", failed)
		}
		_, _ = syscall.Read(b, room)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A size that the kernel does not take is an error.
func TestOpenRefused(t *testing.T) {
	if r, err := Open(1 << 30); err == nil {
		r.Close()
		t.Error("a ring for 2^30 sends")
	}
}

// A kernel that loses how much was sent is none to use: these bytes would be sent twice.
func TestObstacle(t *testing.T) {
	open(t)
	for _, test := range []struct {
		name   string
		submit func(*Ring) ([]Failure, bool)
	}{
		{"no sends", func(r *Ring) ([]Failure, bool) { return r.failures, false }},
		{"nothing happens", func(r *Ring) ([]Failure, bool) { return r.failures, true }},
		{"no failures", func(r *Ring) ([]Failure, bool) { r.Submit(); return nil, true }},
		{"a part is told of as nothing", func(r *Ring) ([]Failure, bool) {
			failed, works := r.Submit()
			for i := range failed {
				if failed[i].N > 0 {
					failed[i].N, failed[i].Errno = 0, syscall.EAGAIN
				}
			}
			return failed, works
		}},
	} {
		if err := obstacleTo(test.submit); err == nil {
			t.Errorf("%s: no obstacle", test.name)
		} else {
			t.Log(err)
		}
	}
	if err := obstacleTo((*Ring).Submit); err != nil {
		t.Error(err)
	}
}
