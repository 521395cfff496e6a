package tls13

import (
	"bytes"
	"testing"
)

// FuzzNext has a peer send what the input says: each first byte of 256 is a kind of record,
// the rest its content. However the bytes arrive, the result is the same, and the data is what
// was sent.
func FuzzNext(f *testing.F) {
	f.Add([]byte("\x03\x17abc\x05\x16\x18\x00\x00\x01\x01\x02\x17x"), uint8(1), uint8(0))
	f.Add([]byte("\x02\x15\x01\x00"), uint8(7), uint8(1))
	f.Add([]byte("\xff\x17"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, program []byte, step, change uint8) {
		server, client := pair(t, Suite(uint16(AES128GCM)+uint16(change)%3))
		twin, _ := pair(t, server.in.suite)
		var in []byte
		for len(program) > 1 {
			n := min(int(program[0]), len(program)-1)
			var inner []byte // without a type
			if n > 0 {
				inner = append(bytes.Clone(program[2:1+n]), program[1])
			}
			in = protect(t, client, in, inner)
			program = program[1+n:]
		}
		if change >= 128 && len(in) > 0 {
			in[int(change)%len(in)] ^= 1 << (step % 8)
		}
		whole, wholeErr := receive(twin, bytes.Clone(in))
		var pieces, waiting []byte
		var err error
		for size := max(int(step), 1); len(in) > 0 && err == nil; in = in[min(size, len(in)):] {
			waiting = append(waiting, in[:min(size, len(in))]...)
			for err == nil && len(waiting) > 0 {
				var data []byte
				var n int
				data, n, err = server.Next(waiting)
				pieces = append(pieces, data...)
				if n == 0 {
					break
				}
				waiting = waiting[n:]
			}
			if len(waiting) > MaxRecord {
				t.Fatalf("%d bytes wait", len(waiting))
			}
		}
		if !bytes.Equal(whole, pieces) || !sameError(err, wholeErr) {
			t.Fatalf("in pieces %q, %v; whole %q, %v", pieces, err, whole, wholeErr)
		}
		if err == nil && server.CanStop() {
			var again State
			server.Stop(&again)
			if err := server.Start(Server, &again); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzAppend sends data in records of a size, and asks for new keys between.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("some data"), uint16(3), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, size uint16, flags uint8) {
		server, client := pair(t, Suite(uint16(AES128GCM)+uint16(flags)%3))
		server.isUpdateDue.Store(flags >= 128)
		out, err := server.Append(nil, data, int(size))
		if err != nil {
			t.Fatal(err)
		}
		out = server.AppendClose(out)
		if got, _ := receive(client, out); !bytes.Equal(got, data) {
			t.Fatalf("%q became %q", data, got)
		}
	})
}

func FuzzParseState(f *testing.F) {
	s, err := NewState(ChaCha20, secretOf(ChaCha20, 1), secretOf(ChaCha20, 2), 3, 4)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Append(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := ParseState(p)
		if err == nil && !bytes.Equal(s.Append(nil), p) {
			t.Fatalf("% x became % x", p, s.Append(nil))
		}
	})
}
