package recall

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

// A list is a Log of the messages 1 to 9 of one process, "1" to "9".
type list struct {
	mu    sync.Mutex
	taken []byte
}

func (l *list) Cursors() []Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	if len(l.taken) > 0 {
		n = int(l.taken[len(l.taken)-1] - '0')
	}
	return []Cursor{{Run: 2, Number: uint64(n)}}
}

func (l *list) Len() int                            { return 0 }
func (l *list) Page([]Cursor, int) ([][]byte, bool) { return nil, true }
func (l *list) Reach([]Cursor)                      {}

func (l *list) Take(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.taken) == 0 || message[0] > l.taken[len(l.taken)-1] {
		l.taken = append(l.taken, message[0])
	}
}

// A peer is the Backplane of a Recall and the hub that uses it: process 2, which has published
// count messages.
type peer struct {
	recall *Recall
	count  byte
	asks   func(number int) (answers bool) // is called with each question for hubs
	asked  int
	others atomic.Int64 // how many there are besides this one
	dies   bool         // when it is to give its history
}

func (*peer) Join(string) error                  { return nil }
func (*peer) Leave(string) error                 { return nil }
func (*peer) Subscribe(backplane.Receiver) error { return nil }
func (p *peer) OnConnect(connected func())       { go connected() }
func (p *peer) Others(string) int                { return 1 + int(p.others.Load()) }
func (p *peer) follows() bool                    { return false }
func (p *peer) publish(n byte)                   { p.recall.Received([]byte{'0' + n}, p.follows) }
func (p *peer) Publish(_ string, q []byte) error {
	question, _ := parseLetter(bytes.Clone(q))
	answer := letter{kind: kindHere, from: 2, to: 1, nonce: question.nonce}
	switch question.kind {
	case kindAsk:
		p.asked++
		if !p.asks(p.asked) {
			return nil
		}
	case kindWant:
		if p.dies {
			p.others.Store(-1)
			return nil
		}
		answer.kind, answer.isLast = kindPage, true
		for n := byte(question.cursors[0].Number) + 1; n <= p.count; n++ {
			answer.messages = append(answer.messages, []byte{'0' + n})
		}
	default:
		return nil
	}
	p.recall.Received(appendLetter(nil, answer), p.follows)
	return nil
}

// A round that follows one in which too much was held has its own time: what was dropped comes
// before the recall is over.
func TestRoundAfterTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := &list{}, &peer{count: 2}
		p.asks = func(number int) bool {
			if number > 1 {
				synctest.Wait() // until a round that is to be cut is
				return true
			}
			p.count = 5
			for n := byte(3); n <= 5; n++ { // 3 is held, and the others are dropped
				p.publish(n)
			}
			p.recall.Again()
			return false
		}
		p.recall = New(Options{Log: l, Plane: p, Room: "r", Run: 1, Most: 1})
		p.recall.Again()
		p.recall.Await(t.Context())
		if got := fmt.Sprintf("%s after %d rounds", l.taken, p.asked); got != "345 after 2 rounds" {
			t.Error(got)
		}
	})
}

// A hub that dies while it is asked delays the others for a moment only: they wait for those
// that are left.
func TestHubDiesWhileItIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		dies   bool
		others int64 // that answer nothing, and die
	}{"before it has answered": {false, 1}, "before it has given its history": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &list{}, &peer{count: 2, dies: c.dies, asks: func(int) bool { return true }}
				p.others.Store(c.others)
				time.AfterFunc(10*time.Millisecond, func() { p.others.Add(-c.others) })
				p.recall = New(Options{Log: l, Plane: p, Room: "r", Run: 1, Most: 1 << 10})
				began := time.Now()
				p.recall.Again()
				p.recall.Await(t.Context())
				if took := time.Since(began); took > meetPatience/2 {
					t.Errorf("it takes %v", took)
				}
				if got := len(l.taken) == 2; got == c.dies {
					t.Errorf("the history is %q", l.taken)
				}
			})
		})
	}
}
