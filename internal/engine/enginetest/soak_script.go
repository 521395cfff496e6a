package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// ending is how a client's connection ends.
type ending uint8

const (
	leaves      ending = iota // the client closes when it has everything
	halfCloses                // the client sends FIN behind its last request
	isClosed                  // the server closes
	isLingered                // the server half-closes and waits, while there is more input
	isTruncated               // the client sends FIN within a frame
	timesOut                  // the server's patience ends
	detaches                  // the connection becomes a raw one
	// What a client receives that ends in one of these ways is not settled;
	// it must be the beginning of what it would have received.
	drops     // the client closes at any point
	resets    // the client resets at any point
	isAborted // the server aborts
	exits     // the server's Run ends its goroutine
	endings
)

func (e ending) String() string {
	return [...]string{"leaves", "half-closes", "is closed", "is lingered", "is truncated", "times out", "detaches",
		"drops", "resets", "is aborted", "exits"}[e]
}

// A script is what one client does.
type script struct {
	seed   uint64
	client int
	server int
	end    ending
	turns  []turn

	pieces      []int // sizes of writes, in turns; none: all at once
	readSize    int   // bytes of a read; 0: what there is
	dawdles     bool  // waits between reads and between writes
	smallWindow bool  // has the kernel take little
	stopAfter   int   // drops, resets: bytes of the last turn that are sent
}

// A turn is sent at once; then its answers are awaited.
type turn struct {
	commands []string // what send is made of, for reports
	send     []byte
	want     []string
	storm    int // prompts while the turn goes on
	prompts  int // prompts after it
	raw      int // bytes to be echoed at the end, by a detached connection
}

// soakText is what payloads are cut from.
const soakText = 1 << 18

// A writer makes up a script.
type writer struct {
	*rand.Rand
	text   string
	script *script
}

// newScript makes the script of one client of one seed.
func newScript(seed uint64, client, servers int, text string) *script {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, uint64(client))), text: text}
	sc := &script{seed: seed, client: client, server: w.IntN(servers), end: ending(w.IntN(int(endings)))}
	w.script = sc
	switch w.IntN(4) {
	case 0: // all at once
	case 1:
		sc.pieces = []int{1 + w.IntN(5), 1, 1 + w.IntN(40), 1 + w.IntN(300)}
	default:
		sc.pieces = []int{1 + w.IntN(5000), 1 + w.IntN(50_000)}
	}
	if w.IntN(3) == 0 {
		sc.readSize = 50 + w.IntN(20_000)
	}
	sc.dawdles = w.IntN(4) == 0
	sc.smallWindow = w.IntN(4) == 0
	w.add(func(t *turn) {
		w.command(t, "token "+sc.token(), "known")
		w.command(t, "note "+sc.token(), "noted")
	})
	for range w.IntN(5) {
		w.add(func(t *turn) { w.fill(t) })
	}
	w.add(w.finish)
	return sc
}

// token names the client.
func (sc *script) token() string { return fmt.Sprintf("client-%d-%d", sc.seed, sc.client) }

// isSettled reports whether what the client receives does not depend on chance.
func (sc *script) isSettled() bool { return sc.end < drops }

// String describes the script for reports.
func (sc *script) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "client %d of seed %d on %s: %s; pieces %d, reads %d, dawdles %v, small window %v",
		sc.client, sc.seed, soakNetworks()[sc.server].Name, sc.end, sc.pieces, sc.readSize, sc.dawdles, sc.smallWindow)
	if sc.end == drops || sc.end == resets {
		fmt.Fprintf(&out, ", stops after %d", sc.stopAfter)
	}
	for i, t := range sc.turns {
		fmt.Fprintf(&out, "\n  turn %d, %d bytes, storm %d, prompts %d, raw %d: %s",
			i, len(t.send), t.storm, t.prompts, t.raw, shortened(strings.Join(t.commands, ", ")))
	}
	return out.String()
}

func (w *writer) add(fill func(*turn)) {
	var t turn
	fill(&t)
	w.script.turns = append(w.script.turns, t)
}

// command adds a command with its answers.
func (w *writer) command(t *turn, command string, want ...string) {
	t.commands = append(t.commands, command[:min(len(command), 20)])
	t.send = appendFrame(t.send, command)
	t.want = append(t.want, want...)
}

// size is mostly small.
func (w *writer) size(most int) int {
	if w.script.pieces != nil && w.script.pieces[0] < 10 {
		most = min(most, 3000) // it would take long
	}
	switch w.IntN(4) {
	case 0:
		return 1 + w.IntN(most)
	case 1:
		return 1 + w.IntN(min(most, 5000))
	}
	return 1 + w.IntN(min(most, 60))
}

// words returns n bytes of text.
func (w *writer) words(n int) string {
	at := w.IntN(len(w.text) - n)
	return w.text[at : at+n]
}

// fill adds commands of all kinds.
func (w *writer) fill(t *turn) {
	commands := 1 + w.IntN(4)
	if w.IntN(3) == 0 {
		commands = 1 + w.IntN(40)
	}
	w.command(t, "who", w.script.token())
	for range commands {
		w.any(t)
	}
	if w.IntN(4) == 0 {
		t.storm = w.IntN(20)
	}
	if w.IntN(3) == 0 {
		t.prompts = 1 + w.IntN(3)
	}
}

// any adds one command.
func (w *writer) any(t *turn) {
	switch n := w.size(100_000); w.IntN(14) {
	case 0, 1:
		text := w.words(n)
		w.command(t, "echo "+text, text)
	case 2:
		text := w.words(min(n, 1000))
		w.command(t, "again "+text, "first", text)
	case 3:
		n = w.IntN(soakText)
		w.command(t, fmt.Sprint("big ", n), w.text[:n])
	case 4:
		w.command(t, fmt.Sprint("write 5 ", n), patternText(5*n))
	case 5:
		w.command(t, fmt.Sprint("gather 4 ", n), patternText(4*n))
	case 6, 7:
		w.body(t, [...]string{"read ", "fill "}[w.IntN(2)], n, "")
	case 8:
		if w.script.end == leaves || w.script.end == isClosed { // else the peer may be gone
			w.body(t, "gone read ", n, "quiet")
		}
	case 9:
		text := w.words(n)
		w.command(t, fmt.Sprint("blocking echo ", n), text)
		t.send = append(t.send, text...)
	case 10, 11:
		at := w.IntN(soakText)
		n = min(n, soakText-at)
		if w.IntN(4) == 0 {
			n = soakText - at
		}
		w.command(t, fmt.Sprint("file ", at, n), w.text[at:at+n])
	default:
		w.command(t, "who", w.script.token())
	}
}

// body adds a command that reads n bytes behind its frame.
func (w *writer) body(t *turn, command string, n int, more string) {
	text := w.words(n)
	w.command(t, fmt.Sprint(command, n), digest([]byte(text)))
	t.send = append(t.send, text...)
	if more != "" {
		t.want = append(t.want, more)
	}
}

// finish makes the last turn.
func (w *writer) finish(t *turn) {
	w.fill(t)
	t.prompts = 0
	switch w.script.end {
	case isClosed:
		w.command(t, "close", "closing")
	case isLingered: // only then input that comes late is promised to do no harm
		w.command(t, "linger", "lingering")
		t.send = append(t.send, w.words(w.IntN(5000))...)
	case isTruncated:
		t.send = append(t.send, frames("echo never")[:1+w.IntN(12)]...)
		t.want = append(t.want, "truncated")
	case timesOut:
		w.command(t, fmt.Sprint("idle ", 20+w.IntN(40)), "patient")
		t.want = append(t.want, "timeout")
	case detaches:
		w.command(t, "detach", "detaching")
		t.raw = w.IntN(100_000)
	case drops, resets:
		w.script.stopAfter = w.IntN(len(t.send) + 1)
	case isAborted:
		w.command(t, "abort")
	case exits:
		w.command(t, "goexit")
	}
}
