package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

func fileScenarios() []scenario {
	return []scenario{
		{"files among answers", testFileOrder, 0},
		{"file to a slow reader", testFileSlowReader, 0},
		{"file that many send", testFileShared, contended},
		{"file that is too short", testFileShort, 0},
		{"file whose client goes", testFileClientGone, contended},
		{"file to a reader that stalls", testFileStalled, deadlines | waits},
		{"what follows a file", testFileFollowed, 0},
		{"file at the end", testFileAtEnd, halfClose | deadlines},
		{"file in Prompted", testFilePrompted, deadlines},
		{"shutdown while a file is sent", testFileShutdown, 0},
		{"shutdown given up while a file is sent", testFileKilled, 0},
	}
}

// fillingSize is more than the buffers of any socket take.
const fillingSize = 12_000_000

// withSource returns an acceptor whose sessions have a file of n bytes to send,
// and its content.
func withSource(t *testing.T, n int) (*acceptor, string) {
	a := newAcceptor()
	a.source = openSource(t, n)
	return a, patternText(n)
}

// testFileOrder has files of all sizes among other answers, all pipelined. The
// descriptor's own offset does not matter.
func testFileOrder(t *testing.T, f *fixture) {
	a, content := withSource(t, 2_500_000)
	const own = 4711
	if _, err := a.source.Seek(own, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	s := f.start(t, a, options())
	p := s.connect(t)
	var commands, want []string
	for i, size := range []int{0, 1, 2, 1000, 5000, 16 << 10, 16<<10 + 1, 40_000, 300_000, 2_400_000} {
		offset := i * 1001
		commands = append(commands, "echo x", fmt.Sprint("file ", offset, size), "echo y", fmt.Sprint("file 0 ", i, " again"), "big 9000")
		want = append(want, "x", content[offset:offset+size], "y", content[:i], "behind", patternText(9000))
	}
	sent := p.sendLater(frames(commands...))
	p.expect(t, want...)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.ask(t, "file 7 10", content[7:17]) // after a wait
	p.expectNothingMore(t)
	if at, err := a.source.Seek(0, io.SeekCurrent); at != own || err != nil {
		t.Errorf("the descriptor's offset is %d, %v", at, err)
	}
	s.eventuallyIdle(t, 1)
}

// testFileSlowReader checks that the engine does not go on while the client does
// not read.
func testFileSlowReader(t *testing.T, f *fixture) {
	a, content := withSource(t, fillingSize)
	s := f.start(t, a, options())
	p := s.connect(t)
	sent := p.sendLater(frames("echo a", "file 5 11000000", "echo b", fmt.Sprint("file 0 ", fillingSize), "echo c"))
	if runs := s.settles(t, "the engine stops", s.runs.Load); runs > 2 {
		t.Errorf("%d Runs before any of the file was read", runs)
	}
	if s.returned.Load() != 0 {
		t.Error("Done is closed before the file can have been sent")
	}
	p.expect(t, "a", content[5:11_000_005], "b", content, "c")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.expectNothingMore(t)
}

// testFileShared has clients get different parts of one descriptor.
func testFileShared(t *testing.T, f *fixture) {
	a, content := withSource(t, 400_000)
	s := f.start(t, a, options())
	var all sync.WaitGroup
	for client := range 20 {
		p := s.connect(t)
		all.Go(func() {
			for i := range 10 {
				offset := client*5003 + i*101
				if _, err := p.Write(frames(fmt.Sprint("file ", offset, " 200000"))); err != nil {
					t.Error(err)
					return
				}
				if got, err := p.receive(); got != content[offset:offset+200_000] || err != nil {
					t.Errorf("client %d, file %d: %s, %v", client, i, shortened(got), err)
					return
				}
			}
		})
	}
	all.Wait()
	s.eventuallyIdle(t, 20)
}

// testFileShort promises more than there is. The client gets what there is, and
// can tell; nothing comes behind it.
func testFileShort(t *testing.T, f *fixture) {
	for i, test := range []struct{ size, offset, promised int }{
		{1000, 0, 1001}, {1000, 1000, 1}, {1000, 5000, 50}, {1_000_000, 400_000, 700_000}, {0, 0, 10},
	} {
		a, content := withSource(t, test.size)
		s := f.start(t, a, options())
		p := s.connect(t)
		p.send(t, frames(fmt.Sprint("file ", test.offset, test.promised)))
		want := fmt.Sprintf("%d:%s", test.promised, content[min(test.offset, test.size):])
		if got, _ := io.ReadAll(p.in); string(got) != want {
			t.Errorf("test %d: got %s, want %s", i, shortened(string(got)), shortened(want))
		}
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
		if err := s.closeErrors()[0]; !errors.Is(err, engine.ErrShortFile) {
			t.Errorf("test %d: Closed(%v)", i, err)
		}
	}
}

// testFileClientGone has clients leave in the middle of a file.
func testFileClientGone(t *testing.T, f *fixture) {
	a, content := withSource(t, fillingSize)
	s := f.start(t, a, options())
	const clients = 6
	for i := range clients {
		p := s.connect(t)
		p.send(t, frames(fmt.Sprint("file 0 ", fillingSize)))
		head := make([]byte, 200_000)
		if _, err := io.ReadFull(p.in, head); err != nil || !strings.HasPrefix(content, string(head[len("12000000:"):])) {
			t.Fatalf("got %s, %v", shortened(string(head)), err)
		}
		if i%2 == 0 {
			p.reset()
		}
		_ = p.Close()
	}
	s.eventually(t, "all Closed", func() bool { return s.closed.Load() == clients })
	if s.returned.Load() != clients {
		t.Errorf("%d of %d files were returned", s.returned.Load(), clients)
	}
}

// testFileStalled cuts clients that read nothing of a file, or not enough.
func testFileStalled(t *testing.T, f *fixture) {
	a, _ := withSource(t, fillingSize)
	a.write = 500 * time.Millisecond
	s := f.start(t, a, options())
	other := s.connect(t)
	for i, first := range []int{0, 100_000} {
		p := s.connect(t)
		sent := p.sendLater(frames(fmt.Sprint("file 0 ", fillingSize), "echo never"))
		if _, err := io.CopyN(io.Discard, p.in, int64(first)); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if s.closeErrors()[i] == nil {
			t.Error("Closed(nil) of a connection that was cut")
		}
		other.expectNothingMore(t)
		_ = p.Close()
		<-sent
	}
}

// testFileFollowed has Run end in all ways behind SendFile.
func testFileFollowed(t *testing.T, f *fixture) {
	a, content := withSource(t, 700_000)
	a.detached = echoUntilEnd
	s := f.start(t, a, options())
	for i, next := range []string{"close", "linger", "detach", "abort", "goexit", "panic"} {
		p := s.connect(t)
		p.send(t, frames("file 3 600000 "+next))
		switch next {
		case "close", "linger":
			p.expect(t, content[3:600_003])
			p.expectEnd(t)
		case "detach":
			p.expect(t, content[3:600_003])
			p.send(t, []byte("4:word"))
			p.expect(t, "word")
		default:
			if got, err := io.ReadAll(p.in); len(got) > 0 {
				t.Errorf("%s: got %s, %v", next, shortened(string(got)), err)
			}
		}
		_ = p.Close()
		s.eventually(t, next+": Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if s.returned.Load() != int64(i+1) {
			t.Errorf("%s: the file was not returned", next)
		}
	}
}

// testFileAtEnd has sessions send a file when they are asked nothing any more.
func testFileAtEnd(t *testing.T, f *fixture) {
	a, content := withSource(t, 700_000)
	a.farewell, a.idle = 600_000, 30*time.Millisecond
	s := f.start(t, a, options())
	p := s.connect(t)
	p.expect(t, content[:600_000])
	p.expectEnd(t)
	if s.timeouts.Load() != 1 {
		t.Error("not a time-out")
	}
	b, _ := withSource(t, 700_000)
	b.farewell = 600_000
	p = f.start(t, b, options()).connect(t)
	p.send(t, frames("echo x"))
	p.closeWrite(t)
	p.expect(t, "x", content[:600_000])
	p.expectEnd(t)
}

// testFilePrompted has Prompted send a file.
func testFilePrompted(t *testing.T, f *fixture) {
	a, content := withSource(t, 700_000)
	s := f.start(t, a, options())
	p := s.connect(t)
	n := p.note(t, "n")
	n.mu.Lock()
	n.answer = func(s *session, out []byte) ([]byte, engine.Next) {
		return s.file(out, []string{"1", "600000", "again"})
	}
	n.mu.Unlock()
	for range 3 {
		n.say()
		p.expect(t, content[1:600_001], "behind")
	}
	p.ask(t, "echo x", "x")
}

// testFileShutdown has Shutdown wait for a file.
func testFileShutdown(t *testing.T, f *fixture) {
	a, content := withSource(t, fillingSize)
	s := f.start(t, a, briefOptions())
	p := s.connect(t)
	p.send(t, frames(fmt.Sprint("file 0 ", fillingSize)))
	s.eventually(t, "Run", func() bool { return s.runs.Load() == 1 })
	done := s.beginShutdown(t)
	select {
	case <-done:
		t.Fatal("Shutdown did not wait")
	default:
	}
	p.expect(t, content)
	p.expectEnd(t)
	<-done
}

// testFileKilled has Shutdown cut clients that do not read.
func testFileKilled(t *testing.T, f *fixture) {
	a, _ := withSource(t, fillingSize)
	s := f.start(t, a, options())
	const clients = 4
	for range clients {
		s.connect(t).send(t, frames(fmt.Sprint("file 0 ", fillingSize)))
	}
	s.eventually(t, "all in Run", func() bool { return s.runs.Load() == clients })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.engine.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	s.eventually(t, "all Closed", func() bool { return s.closed.Load() == clients })
	if s.returned.Load() != clients {
		t.Errorf("%d of %d files were returned", s.returned.Load(), clients)
	}
}

// testWritingIsNotIdling has clients that wait for longer than the deadline for
// input before they read. The time begins when everything is written.
func testWritingIsNotIdling(t *testing.T, fixtures []*fixture) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const idle = time.Second
	var peers []*peer
	var content string
	for i, f := range slices.Concat(fixtures, fixtures) {
		if !f.offers(deadlines) {
			continue
		}
		var a *acceptor
		a, content = withSource(t, fillingSize)
		a.idle = idle
		s := f.start(t, a, options())
		p := s.connect(t)
		p.send(t, frames(fmt.Sprint([]string{"big ", "file 0 "}[i/len(fixtures)], fillingSize)))
		s.eventually(t, "Run", func() bool { return s.runs.Load() == 1 })
		peers = append(peers, p)
	}
	time.Sleep(idle * 3 / 2) // is what is tested
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() {
			_ = p.SetDeadline(time.Now().Add(patience)) // connecting, and the pause, took a part of it
			began := clock.Nanos()
			got, err := p.receive()
			if got != content {
				t.Errorf("client %d: got %s, %v", i, shortened(got), err)
			}
			if got, err := p.receive(); got != "timeout" {
				t.Errorf("client %d: got %s, %v", i, shortened(got), err)
			}
			// The Run has set the deadline somewhat before the writing began.
			if took := time.Duration(clock.Nanos() - began); took < idle*3/4 {
				t.Errorf("client %d: the deadline of %v passed %v after it began to read", i, idle, took)
			}
		})
	}
	all.Wait()
}

// testFileTakesLong has clients that are slow, but not stalled. What is looked
// at is that time-outs begin again, so a client that the machine keeps from
// reading for long enough would fail it: they have 30 times the time they need.
func testFileTakesLong(t *testing.T, fixtures []*fixture) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const timeout, steps, pause = 3 * time.Second, 40, 100 * time.Millisecond
	var all sync.WaitGroup
	for _, f := range fixtures {
		if !f.offers(deadlines) {
			continue
		}
		a, content := withSource(t, 2*fillingSize)
		a.write = timeout
		p := f.start(t, a, options()).connect(t)
		p.send(t, frames(fmt.Sprint("file 0 ", len(content))))
		all.Go(func() {
			head := fmt.Sprintf("%d:", len(content))
			piece := make([]byte, (len(head)+len(content))/steps)
			rest := head + content
			for len(rest) > 0 {
				time.Sleep(pause) // is what is tested
				n, err := io.ReadFull(p.in, piece[:min(len(piece), len(rest))])
				if err != nil || !bytes.Equal(piece[:n], []byte(rest[:n])) {
					t.Errorf("%s: %v with %d bytes to come", f.network.Name, err, len(rest))
					return
				}
				rest = rest[n:]
			}
		})
	}
	all.Wait()
}
