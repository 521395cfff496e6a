package recall

import (
	"bytes"
	"testing"
)

func FuzzLetter(f *testing.F) {
	for _, l := range []letter{
		{kind: kindAsk, from: 1, nonce: 2},
		{kind: kindHere, from: 1, to: 3, count: 1 << 40},
		{kind: kindWant, from: 1, to: 3, cursors: []Cursor{{1, 2, 1}, {7, 1 << 40, 0}}},
		{kind: kindPage, from: 1, to: 3, cursors: []Cursor{{1, 2, 1}}, messages: [][]byte{{}, {1, 2, 3}}, isLast: true},
	} {
		text := appendLetter(nil, l)
		if got, ok := parseLetter(text); !ok || !bytes.Equal(appendLetter(nil, got), text) || got.isLast != l.isLast {
			f.Errorf("%+v, %v, want %+v", got, ok, l)
		}
		for size := range text {
			if got, ok := parseLetter(text[:size]); ok && !bytes.Equal(appendLetter(nil, got), text[:size]) {
				f.Errorf("%+v of %d bytes", got, size)
			}
		}
		f.Add(text)
	}
	f.Add(append(appendLetter(nil, letter{kind: kindHere}), 1, 2))
	f.Fuzz(func(t *testing.T, in []byte) {
		l, ok := parseLetter(in)
		if !ok {
			return
		}
		if len(l.cursors) > maxCursors || l.kind != kindPage && len(l.messages) > 0 {
			t.Errorf("%+v", l)
		}
		text := appendLetter(nil, l.clone())
		if again, ok := parseLetter(text); !ok || !bytes.Equal(appendLetter(nil, again), text) {
			t.Errorf("%x: %+v", in, again)
		}
	})
}
