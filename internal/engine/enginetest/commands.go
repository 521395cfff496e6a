package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// execute runs the command in s.payload.
//
// long: a table of commands
func (s *session) execute(out []byte) ([]byte, engine.Next) {
	if len(out) >= flushSize {
		s.acceptor.violate("Run called with %d bytes pending", len(out))
	}
	command := string(s.payload)
	if s.extra != "" {
		command, s.extra = s.extra, ""
	}
	name, rest, _ := strings.Cut(command, " ")
	args := strings.Fields(rest)
	switch name {
	case "echo":
		return appendFrame(out, rest), engine.Read
	case "again": // one more Run without Feed
		s.extra = "echo " + rest
		return appendFrame(out, "first"), engine.Run
	case "big":
		return appendFrame(out, patternText(number(args, 0))), engine.Read
	case "wait":
		s.acceptor.gate(rest).pass()
		return appendFrame(out, "waited"), engine.Read
	case "read":
		return s.readBody(out, number(args, 0))
	case "fill":
		return s.fillBody(out, number(args, 0))
	case "write":
		return s.writeChunks(out, number(args, 0), number(args, 1))
	case "gather":
		return s.gather(out, number(args, 0), number(args, 1))
	case "ready":
		return s.ready(out, number(args, 0), number(args, 1))
	case "file":
		return s.file(out, args)
	case "readtimeout":
		return s.readTimeout(out, time.Duration(number(args, 0))*time.Millisecond)
	case "blocking":
		return s.blocking(out, args)
	case "gone":
		return s.peerGone(out, args)
	case "note": // from now on Prompted says what the note says
		s.keeps.note = s.acceptor.note(rest)
		s.keeps.note.hold(s.conn.Prompter())
		return appendFrame(out, "noted"), engine.Read
	case "prompt": // oneself
		return appendFrame(out, "before "+s.keeps.note.say()), engine.Read
	case "token":
		s.keeps.token = rest
		return appendFrame(out, "known"), engine.Read
	case "target":
		s.acceptor.mu.Lock()
		s.acceptor.target = s.conn.Target()
		s.acceptor.mu.Unlock()
		return appendFrame(out, "known"), engine.Read
	case "who":
		return appendFrame(out, s.keeps.token+rest), engine.Read
	case "idle":
		s.keeps.idle = time.Duration(number(args, 0)) * time.Millisecond
		return appendFrame(out, "patient"), engine.Read
	case "awake":
		s.keeps.awake = number(args, 0)
		return appendFrame(out, "awake"), engine.Read
	case "refused":
		return appendFrame(out, fmt.Sprint(s.refused)), engine.Read
	case "pings":
		s.keeps.pings = number(args, 0)
		return appendFrame(out, "awaited"), engine.Read
	case "keep":
		s.acceptor.keep(s.conn.NetConn())
		return appendFrame(out, "kept"), engine.Read
	case "socket":
		return appendFrame(out, fmt.Sprint(s.conn.IsSocket())), engine.Read
	case "switch": // after an answer of that length; 0: a short one
		answer := switching
		if n := number(args, 0); n > 0 {
			answer = patternText(n)
		}
		return appendFrame(out, answer), engine.Switch
	case "rank":
		return appendFrame(out, fmt.Sprint(s.keeps.rank)), engine.Read
	case "close":
		next := engine.Close
		if rest == "quietly" {
			next = engine.CloseQuiet
		}
		return appendFrame(out, "closing"), next
	case "linger":
		return appendFrame(out, "lingering"), engine.CloseLinger
	case "abort":
		return appendFrame(out, "never seen"), engine.Abort
	case "detach":
		return appendFrame(out, "detaching"), engine.Detach
	case "goexit":
		runtime.Goexit()
	case "lock":
		runtime.LockOSThread()
		runtime.LockOSThread()
		return appendFrame(out, "locked"), engine.Read
	}
	s.acceptor.violate("unknown command %q", command)
	return out, engine.Abort
}

// flushSize is the FlushSize that every server of the suite uses: no more
// output than that may be pending when Run is called.
const flushSize = 8 << 10

func number(args []string, i int) int {
	n, err := strconv.Atoi(args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func digest(p []byte) string {
	return fmt.Sprintf("%d %08x", len(p), crc32.ChecksumIEEE(p))
}

// readBody reads n bytes that follow the frame with Conn.Read.
func (s *session) readBody(out []byte, n int) ([]byte, engine.Next) {
	body := make([]byte, 0, n)
	part := make([]byte, 333)
	for len(body) < n {
		m, err := s.conn.Read(part[:min(len(part), n-len(body))])
		body = append(body, part[:m]...)
		if err != nil {
			return appendFrame(out, fmt.Sprintf("read %d: %s", len(body), describe(err))), engine.Close
		}
		if m == 0 {
			s.acceptor.violate("Read returned 0, nil")
			return out, engine.Abort
		}
	}
	return appendFrame(out, digest(body)), engine.Read
}

// fillBody does the same with Fill, Buffered and Discard.
func (s *session) fillBody(out []byte, n int) ([]byte, engine.Next) {
	var body []byte
	for len(body) < n {
		held := s.conn.Buffered()
		if len(held) >= min(n-len(body), 5) {
			take := min(len(held), n-len(body))
			body = append(body, held[:take]...)
			s.conn.Discard(take)
			continue
		}
		before := append([]byte(nil), held...)
		if err := s.conn.Fill(); err != nil {
			return appendFrame(out, fmt.Sprintf("read %d: %s", len(body)+len(before), describe(err))), engine.Close
		}
		if after := s.conn.Buffered(); len(after) <= len(before) || string(after[:len(before)]) != string(before) {
			s.acceptor.violate("Fill turned %q into %q", before, after)
			return out, engine.Abort
		}
	}
	return appendFrame(out, digest(body)), engine.Read
}

// describe names the errors that Conn.Read promises.
func describe(err error) string {
	switch {
	case err == io.EOF:
		return "EOF"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "deadline"
	}
	return "error"
}

// writeChunks answers by Conn.Write.
func (s *session) writeChunks(out []byte, count, size int) ([]byte, engine.Next) {
	body := pattern(count * size)
	out = append(out, strconv.Itoa(len(body))+":"...)
	if _, err := s.conn.Write(out); err != nil {
		return out[:0], engine.Abort
	}
	for ; len(body) > 0; body = body[size:] {
		if n, err := s.conn.Write(body[:size]); err != nil {
			return out[:0], engine.Abort
		} else if n != size {
			s.acceptor.violate("Write wrote %d of %d bytes, and no error", n, size)
		}
	}
	return out[:0], engine.Read
}

// gather answers by Conn.WriteBuffers.
func (s *session) gather(out []byte, count, size int) ([]byte, engine.Next) {
	v, total := inPieces(out, count, size)
	n, err := s.conn.WriteBuffers(&v)
	if err != nil {
		return out[:0], engine.Abort
	}
	if n != total || len(v) != 0 {
		s.acceptor.violate("WriteBuffers wrote %d of %d bytes and left %d buffers", n, total, len(v))
	}
	return out[:0], engine.Read
}

// inPieces appends to out an answer that has count pieces of size bytes.
func inPieces(out []byte, count, size int) (v net.Buffers, total int64) {
	body := pattern(count * size)
	head := append(out, strconv.Itoa(len(body))+":"...)
	v = net.Buffers{head, nil}
	for i := range count {
		v = append(v, body[i*size:(i+1)*size])
	}
	return append(v, []byte{}), int64(len(head) + len(body))
}

// ready answers by Conn.WriteReady; what does not go at once is output.
func (s *session) ready(out []byte, count, size int) ([]byte, engine.Next) {
	v, total := inPieces(out, count, size)
	n := s.conn.WriteReady(&v)
	s.acceptor.ready.Add(1)
	rest := bytes.Join(v, nil)
	if n+int64(len(rest)) != total {
		s.acceptor.violate("WriteReady wrote %d of %d bytes and left %d", n, total, len(rest))
	}
	return append(out[:0], rest...), engine.Read
}

// readTimeout reads where nothing comes.
func (s *session) readTimeout(out []byte, timeout time.Duration) ([]byte, engine.Next) {
	began := clock.Nanos()
	s.await(timeout)
	_, err := s.conn.Read(make([]byte, 1))
	if took := clock.Nanos() - began; took < int64(timeout) {
		s.acceptor.violate("a read deadline of %v passed after %v", timeout, time.Duration(took))
	}
	if err == nil {
		return appendFrame(out, "got input"), engine.Close
	}
	return appendFrame(out, describe(err)), engine.Read
}

// blocking uses the net.Conn of Conn.Blocking.
func (s *session) blocking(out []byte, args []string) ([]byte, engine.Next) {
	c := s.conn.Blocking()
	switch args[0] {
	case "echo": // N bytes
		body := make([]byte, number(args, 1))
		if _, err := io.ReadFull(c, body); err != nil {
			return appendFrame(out, describe(err)), engine.Close
		}
		if _, err := c.Write(appendFrame(out, string(body))); err != nil {
			return out[:0], engine.Abort
		}
		return out[:0], engine.Read
	case "timeout":
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return appendFrame(out, describe(err)), engine.Read
	case "interrupt":
		go func() { _ = c.SetReadDeadline(time.Unix(1, 0)) }()
		_, err := c.Read(make([]byte, 1))
		return appendFrame(out, describe(err)), engine.Read
	default: // close
		_ = c.Close()
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			s.acceptor.violate("Write after Close: %v", err)
		}
		return appendFrame(out, "closed"), engine.Read
	}
}

// peerGone uses OnPeerGone.
func (s *session) peerGone(out []byte, args []string) ([]byte, engine.Next) {
	fired := make(chan struct{})
	s.conn.OnPeerGone(func() { close(fired) })
	happened := func() string {
		select {
		case <-fired:
			return "fired"
		default:
			return "quiet"
		}
	}
	switch args[0] {
	case "await":
		close(s.acceptor.gate(args[1]).entered)
		<-fired
		return out, engine.Close
	case "read": // Conn.Read meanwhile
		out, next := s.readBody(out, number(args, 1))
		return appendFrame(out, happened()), next
	default: // see at the end whether it has fired
		s.acceptor.gate(args[1]).pass()
		return appendFrame(out, happened()), engine.Read
	}
}
