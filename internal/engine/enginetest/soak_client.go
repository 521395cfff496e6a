package enginetest

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A player is a client that plays a script.
type player struct {
	*peer
	script *script
	note   *note
	heard  int64 // what the session has said last
	digest interface {
		io.Writer
		Sum64() uint64
	}
}

// play plays the script. It returns a digest of what was received, and an error
// if that was not right.
func (sc *script) play(s *server) (uint64, error) {
	c, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if tc, ok := socketOf(c).(*net.TCPConn); ok && sc.smallWindow {
		_ = tc.SetReadBuffer(64 << 10)
	}
	p := &player{peer: newLonePeer(s, c), script: sc, note: s.note(sc.token()), digest: fnv.New64a()}
	defer s.forget(sc.token())
	if sc.readSize > 0 || sc.dawdles {
		p.in = bufio.NewReaderSize(&slowReader{Conn: c, script: sc}, 16)
	}
	for i := range sc.turns {
		_ = p.SetDeadline(time.Now().Add(patience))
		isLast := i == len(sc.turns)-1
		if err := p.playTurn(&sc.turns[i], isLast); err != nil {
			return 0, fmt.Errorf("turn %d: %w", i, err)
		}
	}
	return p.digest.Sum64(), nil
}

// socketOf returns what is below a client's TLS.
func socketOf(c net.Conn) net.Conn {
	if wrapper, ok := c.(interface{ NetConn() net.Conn }); ok {
		return wrapper.NetConn()
	}
	return c
}

// soakNaps bounds how often a client waits in each direction of a connection.
const soakNaps = 100

// A slowReader reads as its script says.
type slowReader struct {
	net.Conn
	script *script
	naps   int
}

// Read implements io.Reader.
func (r *slowReader) Read(p []byte) (int, error) {
	if r.script.dawdles && r.naps < soakNaps {
		r.naps++
		pause()
	}
	if n := r.script.readSize; n > 0 && n < len(p) {
		p = p[:n]
	}
	return r.Conn.Read(p)
}

// playTurn sends, and receives meanwhile.
func (p *player) playTurn(t *turn, isLast bool) error {
	sent := make(chan error, 1)
	go func() { sent <- p.sendTurn(t, isLast) }()
	isSettled := p.script.isSettled()
	err := p.receiveTurn(t, isLast)
	if err == nil && isLast && isSettled {
		err = p.receiveEnd(t)
	}
	if err != nil || isLast && !isSettled {
		_ = p.Close() // and so ends the sending
	}
	sendErr := <-sent
	if err == nil && (!isLast || isSettled && p.script.end != isLingered) {
		err = sendErr // else nobody has promised to take it all
	}
	return err
}

// sendTurn sends a turn in the script's pieces, and ends the sending.
func (p *player) sendTurn(t *turn, isLast bool) error {
	data := t.send
	end := p.script.end
	if isLast && (end == drops || end == resets) {
		data = data[:p.script.stopAfter]
	}
	if t.raw > 0 {
		data = append(data[:len(data):len(data)], pattern(t.raw)...)
	}
	for range t.storm {
		p.note.say()
	}
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if pieces := p.script.pieces; pieces != nil {
			n = min(n, pieces[i%len(pieces)])
		}
		if _, err := p.Write(data[:n]); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		data = data[n:]
		if p.script.dawdles && i < soakNaps {
			pause()
		}
	}
	if !isLast {
		return nil
	}
	switch end {
	case halfCloses, isTruncated, detaches:
		return p.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case drops:
		return p.Close()
	case resets:
		p.reset()
	}
	return nil
}

// receiveTurn receives the answers to a turn, and what the session is prompted
// to say.
func (p *player) receiveTurn(t *turn, isLast bool) error {
	for i, want := range t.want {
		got, err := p.hear()
		if err != nil {
			if isLast && !p.script.isSettled() && !isPatienceOver(err) {
				return nil // cut off
			}
			return fmt.Errorf("answer %d: %w, want %s", i, err, shortened(want))
		}
		if got != want && isLast && !p.script.isSettled() && tellsOfEnd(got) {
			return nil
		}
		if got != want {
			return fmt.Errorf("answer %d: got %s, want %s", i, shortened(got), shortened(want))
		}
		_, _ = io.WriteString(p.digest, got)
	}
	for range t.prompts {
		last := p.note.value.Add(1)
		p.note.prompt()
		for p.heard < last { // a storm may have come in between
			got, err := p.receive()
			if err != nil {
				return fmt.Errorf("heard %d, want %d: %w", p.heard, last, err)
			}
			if !p.isSaid(got) {
				return fmt.Errorf("got %s, want what was said", shortened(got))
			}
		}
	}
	return nil
}

// tellsOfEnd reports whether an answer says that the client is gone.
func tellsOfEnd(answer string) bool {
	return answer == "truncated" || answer == "fired" || answer == "EOF" || answer == "error" || strings.HasPrefix(answer, "read ")
}

// hear receives an answer, past what the session was prompted to say.
func (p *player) hear() (string, error) {
	for {
		got, err := p.receive()
		if err != nil || !p.isSaid(got) {
			return got, err
		}
	}
}

// isSaid takes note of what the session was prompted to say.
func (p *player) isSaid(text string) bool {
	number, ok := strings.CutPrefix(text, "prompted ")
	if !ok {
		return false
	}
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return false
	}
	p.heard = value
	return true
}

// receiveEnd expects what a script that is settled ends with.
func (p *player) receiveEnd(t *turn) error {
	if t.raw > 0 {
		raw := make([]byte, t.raw)
		if n, err := io.ReadFull(p.in, raw); err != nil {
			return fmt.Errorf("after %d of %d raw bytes: %w", n, t.raw, err)
		}
		if string(raw) != patternText(t.raw) {
			return fmt.Errorf("the raw bytes are damaged: %s", digest(raw))
		}
		_, _ = p.digest.Write(raw)
	}
	if p.script.end == leaves {
		return nil
	}
	if got, err := p.hear(); err != io.EOF {
		return fmt.Errorf("got %s and %w, want the end", shortened(got), err)
	}
	_, _ = io.WriteString(p.digest, "the end")
	return nil
}
