package enginetest

import (
	"fmt"
	"io"
	"testing"
	"time"
)

// duplexScenarios are for Protocols that are fed while their output waits.
func duplexScenarios() []scenario {
	return []scenario{
		{"input while output waits", testDuplex, deadlines},
		{"end while output waits", testDuplexEnds, deadlines},
		{"write timeout while input comes", testDuplexTimeout, deadlines | buffered | waits},
	}
}

// much is more output than lies in the buffers of any connection.
const much = 12 << 20

// startDuplex starts a server with one connection, whose peer does not read much
// output.
func (f *fixture) startDuplex(t *testing.T, writeTimeout time.Duration) (*server, *peer) {
	t.Helper()
	a := newAcceptor()
	a.multiplexes, a.isDuplex = true, true
	a.write = writeTimeout
	s := f.start(t, a, options())
	p := s.connect(t)
	p.sendLater(frames(fmt.Sprint("big big ", much)))
	if _, err := p.in.Peek(1); err != nil {
		t.Fatal(err)
	}
	return s, p
}

// testDuplex sends a lot to a connection whose peer does not read its output.
func testDuplex(t *testing.T, f *fixture) {
	s, p := f.startDuplex(t, 0)
	var input []byte
	want := []string{"big " + patternText(much)}
	for i := range 2000 {
		input = append(input, frames(fmt.Sprint(i, " echo text"), fmt.Sprint("s", i, " signal ", i))...)
		want = append(want, fmt.Sprint(i, " text"), fmt.Sprint("s", i, " signalled"))
	}
	all := s.fed.Load() + int64(len(input))
	half := len(input) / 2
	p.sendLater(input[:half])
	s.eventually(t, "the first half is used", func() bool { return s.fed.Load() >= all-int64(len(input)-half) })
	p.sendLater(input[half:])
	s.eventually(t, "all input is used", func() bool { return s.fed.Load() == all })
	p.expectAll(t, want...)
	s.eventuallyIdle(t, 1)
	p.ask(t, "1 echo x", "1 x")
}

// testDuplexEnds ends connections with output that the peer has not read.
func testDuplexEnds(t *testing.T, f *fixture) {
	s, p := f.startDuplex(t, 0)
	p.sendLater(frames("bye", "1 echo never"))
	p.expect(t, "big "+patternText(much))
	if got, err := p.receive(); err != io.EOF {
		t.Errorf("got %s and %v after the last answer", shortened(got), err)
	}
	_ = p.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
	s, p = f.startDuplex(t, 0)
	p.sendLater(frames("1 echo x"))
	s.eventually(t, "the input is used", func() bool { return s.answered.Load() == 2 })
	_ = p.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
	s, p = f.startDuplex(t, 0)
	p.sendLater(frames("1 echo x"))
	s.eventually(t, "the input is used", func() bool { return s.answered.Load() == 2 })
	s.giveUp(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

// testDuplexTimeout has the peer send and send, and read nothing.
func testDuplexTimeout(t *testing.T, f *fixture) {
	s, p := f.startDuplex(t, 200*time.Millisecond)
	go func() {
		for i := 0; ; i++ {
			if _, err := p.Write(frames(fmt.Sprint(i, " echo text"))); err != nil {
				return
			}
			pause()
		}
	}()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}
